"""Settle the settings of a run for its workers, and the scorers that each has loaded.

The languages of a dump are counted when the run is planned: so every setting that a row may ask for
is checked before any model runs.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.languages import NO_CODE, NO_LANGUAGE, by_name, language_name
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.options.language_map import OTHERS
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.earlier_run import EarlierRun
from bertscore_beam.records.settings import (
    EVERY_LANGUAGE,
    LanguageSettings,
    RunSettings,
    check_own_baselines,
)
from bertscore_beam.records.summary import RunGoal
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.loading import load_scorer, scorer_config, settle_workers
from bertscore_beam.run.pool import ask
from bertscore_core.errors import (
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    UnknownLanguageError,
)
from bertscore_core.scorer_config import ScorerConfig, model_part

if TYPE_CHECKING:
    from bertscore_core.config import Settings
    from bertscore_core.model.device import DeviceQueue
    from bertscore_core.scorer import BertScorer

# The scorers that a worker has loaded, within a bound on their memory.
#
# A model is loaded once for all languages that share it. Where the models of a run do not fit, the
# one that was used longest ago is dropped before another is loaded. The weights of a model take
# about the size of their files.

_SHARE = 2
"""Default bound: the memory of the device divided by this. The rest is for texts and embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """How much memory the models of a worker may take.

    Attributes:
        limit: Bytes; None for half of the device's memory, divided by the processes.
        processes: Processes that share the device's memory; None if that is not known: one for a
            GPU, else one for each core.
    """

    limit: int | None = None
    processes: int | None = 1

    def bound(self, device: str) -> int:
        """Return the bound in bytes for a device of this machine."""
        from bertscore_core.model.encoder import resolve_device  # here, since it takes time

        if self.limit is not None:
            return self.limit
        import torch  # here, since it takes seconds

        chosen = resolve_device(device)
        if chosen.type == "cuda":
            total, processes = torch.cuda.get_device_properties(chosen).total_memory, 1
        else:
            total, processes = _machine_memory(), os.cpu_count() or 1
        return int(total) // _SHARE // (self.processes or processes)


@dataclass(kw_only=True)
class _Loaded:
    """A loaded model: its size, and the scorers that share it by the label of their setting."""

    size: int
    scorer: "BertScorer"
    by_label: "dict[str, BertScorer]" = field(default_factory=dict)


class LoadedScorers:
    """A scorer for each setting, loaded when it is first needed.

    Threads may share it. A model that is dropped while another thread uses it stays in memory until
    that thread is done with it.
    """

    def __init__(self, memory: ModelMemory | None = None) -> None:
        self._memory = ModelMemory() if memory is None else memory
        self._loaded: OrderedDict[ScorerConfig, _Loaded] = OrderedDict()
        # Of the device, which is known with the first.
        self._queue: DeviceQueue | None = None
        self._lock = threading.Lock()

    def __call__(self, setting: LanguageSettings) -> "BertScorer":
        """Return the scorer of a setting."""
        model = model_part(setting.config)
        with self._lock:
            if model not in self._loaded:
                self._make_room(setting)
                scorer = load_scorer(setting.config, setting.signature.backend, self._queue)
                self._queue = scorer.queue
                self._loaded[model] = _Loaded(size=setting.weight_bytes, scorer=scorer)
            self._loaded.move_to_end(model)
            loaded = self._loaded[model]
            if setting.label not in loaded.by_label:
                loaded.by_label[setting.label] = loaded.scorer.sharing_model(setting.config)
            return loaded.by_label[setting.label]

    def has(self, setting: LanguageSettings) -> bool:
        """Tell whether the model of a setting is loaded."""
        return model_part(setting.config) in self._loaded

    def _make_room(self, setting: LanguageSettings) -> None:
        bound = self._memory.bound(setting.config.device)
        while self._loaded and self._size() + setting.weight_bytes > bound:
            self._loaded.popitem(last=False)

    def _size(self) -> int:
        return sum(loaded.size for loaded in self._loaded.values())


def _machine_memory() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            return min(total, int(file.read()))
    except (OSError, ValueError):  # no such file, or "max"
        return total


def settle_named(options: ScoreOptions, threads: int | None) -> RunSettings:
    """Settle what does not depend on the input: all rows alike, or the languages that are named.

    Raises:
        BertScoreError: A setting cannot work.
    """
    alone = options.language_column is None
    return _settled(options, threads, [EVERY_LANGUAGE] if alone else _named(options))[0]


def _named(options: ScoreOptions) -> list[str]:
    return [language for language in options.languages or () if language != OTHERS]


def settle_languages(
    options: ScoreOptions, threads: int | None, named: RunSettings, rows: Mapping[str, int]
) -> RunSettings:
    """Settle the languages of the input, with their rows, that are not named; return all."""
    if options.language_column is None:
        return named
    # `RunSettings.reason` has that of the two that are not languages.
    known = {NO_LANGUAGE, NO_CODE, *named.by_language}
    others, errors = _settled(
        options, threads, [name for name in by_name(rows) if name not in known]
    )
    by_language = {**named.by_language, **others.by_language}
    if rows and not by_language.keys() & rows.keys():
        raise _nothing_left(options, rows, errors)
    if not options.allow_shared_baseline:
        check_own_baselines({name: own.config for name, own in by_language.items()})
    return replace(others, by_language=by_language)


def _settled(
    options: ScoreOptions, threads: int | None, languages: Iterable[str]
) -> tuple[RunSettings, list[str]]:
    """Settle languages in a child if there is a pool: it loads torch, and the launcher need not."""
    if not (chosen := tuple(languages)):
        return RunSettings(rescaled=options.rescale), []
    return ask(_settle_each, options, threads, chosen)


def _settle_each(
    options: ScoreOptions, threads: int | None, languages: Sequence[str]
) -> tuple[RunSettings, list[str]]:
    """Settle languages, each model once. Another process may do it.

    Returns:
        The settings, and the errors of the languages whose rows get a reason instead.

    Raises:
        BertScoreError: A language is named, and its setting cannot work; or its model cannot be
            used.
    """
    alone, named = options.language_column is None, _named(options)
    models: dict[ScorerConfig, Settings] = {}
    by_language: dict[str, LanguageSettings] = {}
    missing: dict[str, Reason] = {}
    errors = []
    for language in languages:
        chosen = options if alone else options.for_language(language)
        if chosen is None:
            missing[language] = Reason.LANGUAGE_WITHOUT_SETTING
            continue
        try:
            settings = settle_sharing(models, scorer_config(chosen, threads), threads)
        except BertScoreError as error:
            if alone:
                raise
            reason = _REASONS.get(type(error))
            if reason is None or language in named:
                raise type(error)(f"language {language!r}: {error}") from error
            missing[language] = reason
            errors.append(str(error))
        else:
            by_language[language] = LanguageSettings.of(settings)
    settled = RunSettings(by_language=by_language, missing=missing, rescaled=options.rescale)
    return settled, errors


def settle_sharing(
    models: "dict[ScorerConfig, Settings]", config: ScorerConfig, threads: int | None
) -> "Settings":
    """Settle a configuration; `models` are those that are settled, each for all that share it."""
    from bertscore_core.config import share_model  # here, since it takes seconds

    model = model_part(config)
    if model in models:
        return share_model(models[model], config)
    models[model] = settle_workers(config, threads)
    return models[model]


def _nothing_left(
    options: ScoreOptions, rows: Mapping[str, int], errors: Sequence[str]
) -> ConfigError:
    shown = ", ".join(by_name(rows)[:_SHOWN]).strip(", ") or "no language codes"
    why = f" The first: {errors[0]}" if errors else ""
    return ConfigError(
        f"no language of the column {options.language_column!r} has a setting: got "
        f"{shown}; expected codes that are in --languages (also {OTHERS!r}) or that the "
        f"registry knows. Check --language-column and --languages.{why}"
    )


def without_setting_warning(plan: Plan, settings: RunSettings) -> str | None:
    """Say which languages have no setting, so that their rows get no scores; None if all have."""
    rows = _without_setting(plan, settings)
    if not rows:
        return None
    listed = [
        f"{language_name(language)} ({number:,}, {settings.reason(language)})"
        for language, number in rows.items()
    ]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    number = sum(rows.values())
    return (
        f"{number:,} rows ({_share(number, plan):.2%}) are of languages without a setting and "
        f"get no scores: {', '.join(listed[:_SHOWN])}{more}."
    )


def check_rejects(options: ScoreOptions, plan: Plan, settings: RunSettings) -> None:
    """Check that not too many rows are of languages without a setting.

    Raises:
        ConfigError: There are so many that the run would not be a success.
    """
    number, most = sum(_without_setting(plan, settings).values()), options.max_reject_fraction
    if number and _share(number, plan) > most:
        raise ConfigError(
            f"too many rows would have no score: {without_setting_warning(plan, settings)} "
            f"Expected at most {most:.2%} of the rows (--max-reject-fraction). Check "
            "--language-column and --languages, or raise that share."
        )


def _share(number: int, plan: Plan) -> float:
    """Return the share of rows of the input, each of which may have several candidates."""
    return number / (plan.num_rows or plan.about_rows)


def _without_setting(plan: Plan, settings: RunSettings) -> dict[str, int]:
    rows = plan.census.languages
    return {name: rows[name] for name in by_name(rows) if settings.reason(name) is not None}


_SHOWN = 10
"""Languages named in a message."""


_REASONS: Mapping[type[BertScoreError], Reason] = {
    UnknownLanguageError: Reason.UNKNOWN_LANGUAGE,
    BaselineNotFoundError: Reason.LANGUAGE_WITHOUT_BASELINE,
}
"""Errors of a language that nobody named with which a run can work: the reason of its rows."""


# The settings of a scoring run for its workers.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpec:
    """The settings of a scoring run for its workers.

    Attributes:
        run: Identifies this run; a new one for each.
        folder: Output folder of the run.
        settings: How the rows of each language are scored.
        identity: What must be equal for two runs to share the output folder.
        digest: Digest of the run's identity, in the record of every part.
        goal: What the totals are compared with at the end of the run.
        model_memory: How much memory the models of a worker may take.
        detached: Whether no launcher waits for the end of the job.
        reuse: The earlier run that rows take their scores from; None for none.
        group_by: Columns whose values are the groups of the summary; none for no groups.
        metrics: Metrics of other libraries to score rows with as well.
        index: Whether the run ends with an index of its rows for later runs.
        runs_of_splits: How many share the work; None if the number of workers is not known.
        record_generation: Generation of the packs that the run writes of its records.
        corpus: Digest of the corpus, by versions of its files.
        accelerator: GPU for the workers that score; None for none.
        is_remote: Whether its workers are not those of this machine.
        keep_input: Whether imports stay when the run is a success.
    """

    run: str
    folder: OutputFolder
    settings: RunSettings
    identity: Mapping[str, str]
    fields: TableFields
    digest: str
    goal: RunGoal
    model_memory: ModelMemory = field(default_factory=ModelMemory)
    detached: bool = False
    reuse: EarlierRun | None = None
    group_by: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    index: bool = True
    runs_of_splits: int | None = None
    record_generation: int = 1
    corpus: str = ""
    accelerator: str | None = None
    is_remote: bool = False
    keep_input: bool = False
