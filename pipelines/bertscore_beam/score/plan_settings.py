"""Settle the settings of a run: one for all rows, or one for each language.

The languages of a dump are read when the run is planned, from the column of languages alone: so
every setting that a row may ask for is checked before any model runs. In Parquet such a column is a
dictionary of a few codes, and costs a small part of reading the texts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.language_codes import NO_CODE, NO_LANGUAGE, by_name
from bertscore_beam.dump.languages import count_languages
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import Reason
from bertscore_beam.idf.row_keys import idf_columns
from bertscore_beam.options.languages import OTHERS
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.score.settings import (
    EVERY_LANGUAGE,
    RowSetting,
    RunSettings,
    check_own_baselines,
)
from bertscore_beam.scorer import Workers, scorer_config, settle_workers
from bertscore_core import (
    Baseline,
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    ScorerConfig,
    Settings,
    UnknownLanguageError,
)
from bertscore_core.config import model_part, share_model


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSettings:
    """The settings of a run, and the rows of each language.

    Attributes:
        settings: The settings.
        rows: Rows of each language; empty if all rows are scored alike.
        baselines: What the scores of each language are rescaled with; None for nothing.
    """

    settings: RunSettings
    rows: Mapping[str, int] = field(default_factory=dict)
    baselines: Mapping[str, Baseline | None]


def table_fields(options: ScoreOptions) -> TableFields:
    """Return the columns of texts, and those that decide how rows are scored."""
    return TableFields(
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
        idf=idf_columns(options),
    )


def begin_settling(options: ScoreOptions, workers: Workers) -> "Settling":
    """Settle what does not depend on the input: the sole setting, or those of named languages.

    Raises:
        BertScoreError: A setting cannot work.
    """
    settling = Settling(options, workers)
    if options.language_column is None:
        settling.add_sole()
    for language in options.languages or ():
        settling.add(language)
    return settling


def settle_languages(settling: "Settling", splits: Iterable[Split]) -> PlannedSettings:
    """Read which languages the input has, and settle those that are not named.

    Raises:
        InputError: The column does not hold languages.
        ConfigError: No language has a setting, or two would be rescaled with one table.
    """
    options = settling.options
    if options.language_column is None:
        return PlannedSettings(settings=settling.result(), baselines=settling.baselines)
    rows = count_languages(list(splits), options.language_column)
    for language in by_name(rows):
        settling.add(language)
    settings = settling.result()
    if rows and not settings.by_language.keys() & rows.keys():
        raise settling.nothing_left(rows)
    if not options.allow_shared_baseline:
        check_own_baselines(settling.baselines)
    return PlannedSettings(settings=settings, rows=rows, baselines=settling.baselines)


def _baseline_row(settings: Settings) -> tuple[float, float, float] | None:
    """Return what raw scores are rescaled with; float32 numbers, which Python's floats hold."""
    if settings.baseline is None:
        return None
    precision, recall, f1 = settings.baseline.row(settings.num_layers).tolist()
    return precision, recall, f1


def _setting(config: ScorerConfig, settings: Settings) -> RowSetting:
    return RowSetting(
        config=config,
        signature=settings.signature(),
        max_length=settings.tokenizer.max_length,
        baseline=_baseline_row(settings),
        weight_bytes=settings.files.loaded_bytes(),
    )


class Settling:
    """Settles one language after the other, each model once.

    Attributes:
        options: The options.
        baselines: What the scores of each language are rescaled with; None for nothing.
    """

    def __init__(self, options: ScoreOptions, workers: Workers) -> None:
        self.options = options
        self._workers = workers
        self._named = frozenset(options.languages or ())
        self._models: dict[ScorerConfig, tuple[ScorerConfig, Settings]] = {}
        self._by_language: dict[str, RowSetting] = {}
        self._missing: dict[str, Reason] = {}
        self.baselines: dict[str, Baseline | None] = {}
        self._first_error: BertScoreError | None = None

    def result(self) -> RunSettings:
        """Return the sole setting, or the settings of the languages that were added."""
        if self.options.language_column is None:
            return RunSettings.of_all_rows(self._by_language[EVERY_LANGUAGE])
        return RunSettings(
            by_language=dict(self._by_language),
            missing=dict(self._missing),
            rescaled=self.options.rescale,
        )

    def add_sole(self) -> None:
        """Settle the setting of all rows.

        Raises:
            BertScoreError: It cannot work.
        """
        config = scorer_config(self.options, self._workers)
        self._by_language[EVERY_LANGUAGE] = self._settle(EVERY_LANGUAGE, config)

    def add(self, language: str) -> None:
        """Settle a language, or note why it has no setting.

        Raises:
            BertScoreError: It is named, and its setting cannot work; or its model cannot be used.
        """
        if language in self._by_language or language in self._missing:
            return
        if language in (NO_LANGUAGE, NO_CODE):  # `RunSettings.reason` has theirs
            return
        chosen = self.options.for_language(language)
        if chosen is None:
            self._missing[language] = Reason.LANGUAGE_WITHOUT_SETTING
            return
        try:
            self._by_language[language] = self._settle(
                language, scorer_config(chosen, self._workers)
            )
        except BertScoreError as error:
            reason = _reason_of(error)
            if reason is None or language in self._named:
                raise type(error)(f"language {language!r}: {error}") from error
            self._missing[language] = reason
            self._first_error = self._first_error or error

    def _settle(self, language: str, config: ScorerConfig) -> RowSetting:
        model = model_part(config)
        if model in self._models:
            worker, settings = self._models[model]
            settings = share_model(settings, config)
            config = replace(config, backend=worker.backend)
        else:
            config, settings = settle_workers(config, self._workers)
            self._models[model] = config, settings
        self.baselines[language] = settings.baseline
        return _setting(config, settings)

    def nothing_left(self, rows: Mapping[str, int]) -> ConfigError:
        """Return the error for a dump in which no language has a setting."""
        shown = ", ".join(by_name(rows)[:_SHOWN]).strip(", ") or "no language codes"
        why = "" if self._first_error is None else f" The first: {self._first_error}"
        return ConfigError(
            f"no language of the column {self.options.language_column!r} has a setting: got "
            f"{shown}; expected codes that are in --languages (also {OTHERS!r}) or that the "
            f"registry knows. Check --language-column and --languages.{why}"
        )


_SHOWN = 10
"""Languages named in a message."""


def _reason_of(error: BertScoreError) -> Reason | None:
    """Return the reason for rows of a language that nobody named; None if the run cannot work."""
    if isinstance(error, UnknownLanguageError):
        return Reason.UNKNOWN_LANGUAGE
    if isinstance(error, BaselineNotFoundError):
        return Reason.LANGUAGE_WITHOUT_BASELINE
    return None


def rows_without_setting(planned: PlannedSettings) -> Counter[str]:
    """Return the rows of each language that has no setting."""
    return Counter(
        {
            language: number
            for language, number in planned.rows.items()
            if planned.settings.reason(language) is not None
        }
    )
