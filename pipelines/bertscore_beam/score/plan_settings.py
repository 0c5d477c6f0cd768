"""Settle the settings of a run: one for all rows, or one for each language.

The languages of a dump are counted when the run is planned: so every setting that a row may ask for
is checked before any model runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.language_codes import NO_CODE, NO_LANGUAGE, by_name
from bertscore_beam.dump.texts import Reason
from bertscore_beam.idf.row_keys import idf_columns
from bertscore_beam.options.languages import OTHERS
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run.pool import ask
from bertscore_beam.score.settings import (
    EVERY_LANGUAGE,
    RowSetting,
    RunSettings,
    check_own_baselines,
)
from bertscore_beam.scorer import KnownWorkers, Workers, scorer_config, settle_workers
from bertscore_core import (
    Baseline,
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    ScorerConfig,
    UnknownLanguageError,
)
from bertscore_core.scorer_config import model_part

if TYPE_CHECKING:
    from bertscore_core import Settings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledLanguages:
    """What some languages were settled to, to be sent from one process to another.

    Attributes:
        by_language: The setting of each language; of all rows under `EVERY_LANGUAGE`.
        missing: The reason of each language that has no setting.
        baselines: What the scores of each language are rescaled with; None for nothing.
        first_error: The first error that is now a reason; "" for none.
    """

    by_language: Mapping[str, RowSetting] = field(default_factory=dict)
    missing: Mapping[str, Reason] = field(default_factory=dict)
    baselines: Mapping[str, Baseline | None] = field(default_factory=dict)
    first_error: str = ""

    def with_others(self, others: "SettledLanguages") -> "SettledLanguages":
        """Add other languages."""
        return SettledLanguages(
            by_language={**self.by_language, **others.by_language},
            missing={**self.missing, **others.missing},
            baselines={**self.baselines, **others.baselines},
            first_error=self.first_error or others.first_error,
        )

    def settings(self, options: ScoreOptions) -> RunSettings:
        """Return the settings of a run."""
        if options.language_column is None:
            return RunSettings.of_all_rows(self.by_language[EVERY_LANGUAGE])
        return RunSettings(
            by_language=self.by_language, missing=self.missing, rescaled=options.rescale
        )


def settle_named(options: ScoreOptions, workers: Workers) -> SettledLanguages:
    """Settle what does not depend on the input: the sole setting, or those of named languages.

    Raises:
        BertScoreError: A setting cannot work.
    """
    alone = options.language_column is None
    return _settled(options, workers, [EVERY_LANGUAGE] if alone else options.languages or ())


def settle_languages(
    options: ScoreOptions, workers: Workers, named: SettledLanguages, rows: Mapping[str, int]
) -> PlannedSettings:
    """Settle the languages of the input that are not named.

    Args:
        options: The options of the run.
        workers: Its workers.
        named: What `settle_named` returned.
        rows: Rows of each language in the input.

    Raises:
        ConfigError: No language has a setting, or two would be rescaled with one table.
    """
    if options.language_column is None:
        return PlannedSettings(settings=named.settings(options), baselines=named.baselines)
    # `RunSettings.reason` has that of the two that are no languages.
    known = {NO_LANGUAGE, NO_CODE, *named.by_language}
    others = [language for language in by_name(rows) if language not in known]
    settled = named.with_others(_settled(options, workers, others))
    settings = settled.settings(options)
    if rows and not settings.by_language.keys() & rows.keys():
        raise _nothing_left(options, rows, settled.first_error)
    if not options.allow_shared_baseline:
        check_own_baselines(settled.baselines)
    return PlannedSettings(settings=settings, rows=rows, baselines=settled.baselines)


def _settled(options: ScoreOptions, workers: Workers, languages: Iterable[str]) -> SettledLanguages:
    """Settle languages in a child if there is a pool: it loads torch, and the launcher need not."""
    if not (chosen := tuple(languages)):
        return SettledLanguages()
    return ask(settle_each, options, KnownWorkers.of(workers), chosen)


def settle_each(
    options: ScoreOptions, workers: KnownWorkers, languages: Sequence[str]
) -> SettledLanguages:
    """Settle languages, each model once. Another process may do it.

    Raises:
        BertScoreError: A language is named, and its setting cannot work; or its model cannot be
            used.
    """
    settling, named = _Settling(workers), frozenset(options.languages or ())
    by_language: dict[str, RowSetting] = {}
    missing: dict[str, Reason] = {}
    first_error = ""
    for language in languages:
        alone = options.language_column is None
        chosen = options if alone else options.for_language(language)
        if chosen is None:
            missing[language] = Reason.LANGUAGE_WITHOUT_SETTING
            continue
        try:
            by_language[language] = settling.settle(language, scorer_config(chosen, workers))
        except BertScoreError as error:
            if alone:
                raise
            reason = _reason_of(error)
            if reason is None or language in named:
                raise type(error)(f"language {language!r}: {error}") from error
            missing[language] = reason
            first_error = first_error or str(error)
    return SettledLanguages(
        by_language=by_language,
        missing=missing,
        baselines=settling.baselines,
        first_error=first_error,
    )


def _baseline_row(settings: "Settings") -> tuple[float, float, float] | None:
    """Return what raw scores are rescaled with; float32 numbers, which Python's floats hold."""
    if settings.baseline is None:
        return None
    precision, recall, f1 = settings.baseline.row(settings.num_layers).tolist()
    return precision, recall, f1


def _setting(config: ScorerConfig, settings: "Settings") -> RowSetting:
    return RowSetting(
        config=config,
        signature=settings.signature(),
        max_length=settings.tokenizer.max_length,
        baseline=_baseline_row(settings),
        weight_bytes=settings.files.loaded_bytes(),
    )


class _Settling:
    """Settles one language after the other, each model once.

    Attributes:
        baselines: What the scores of each language are rescaled with; None for nothing.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._models: dict[ScorerConfig, tuple[ScorerConfig, Settings]] = {}
        self.baselines: dict[str, Baseline | None] = {}

    def settle(self, language: str, config: ScorerConfig) -> RowSetting:
        """Settle a language.

        Raises:
            BertScoreError: It cannot work.
        """
        from bertscore_core.config import share_model  # here, since it takes seconds

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


def _nothing_left(options: ScoreOptions, rows: Mapping[str, int], first_error: str) -> ConfigError:
    """Return the error for a dump in which no language has a setting."""
    shown = ", ".join(by_name(rows)[:_SHOWN]).strip(", ") or "no language codes"
    why = f" The first: {first_error}" if first_error else ""
    return ConfigError(
        f"no language of the column {options.language_column!r} has a setting: got "
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
