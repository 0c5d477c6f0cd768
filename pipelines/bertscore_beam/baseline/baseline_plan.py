"""A baseline run as planned, checked before any work, and what its folder holds already."""

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bertscore_beam.baseline import sources
from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.extract import SentenceIndex
from bertscore_beam.crawl.sampling import SAMPLING
from bertscore_beam.crawl.sentences import describe_filters
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.listing import HIDDEN_PREFIXES
from bertscore_beam.files.paths import absolute
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.identity import read_same_run
from bertscore_beam.run.job import Say
from bertscore_beam.run.loading import describe_unknown_device, settle_workers, with_scoring
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_beam.run.publication import Head
from bertscore_beam.run.runner import Runner
from bertscore_core.baseline import DESCRIPTION_SUFFIX, TABLE_SUFFIX, baseline_path, read_made_with
from bertscore_core.errors import ConfigError, SignatureError, UnknownLanguageError, load_json
from bertscore_core.registry import model_for_language
from bertscore_core.scorer_config import ScorerConfig, WorkerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineModel:
    """A model that tables are made for, under a name, and the languages that it gets a table of.

    It scores every layer as that layer alone would. The signature has no idf table, since each
    language has its own, which follows from the pairs.
    """

    name: str
    languages: frozenset[str]
    setting: WorkerSettings

    @property
    def digest(self) -> str:
        """Digest of how scores are made. 16 hexadecimal digits."""
        weights = " idf" if self.setting.config.idf else ""
        return digest_of(self.setting.signature.format() + weights, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselinePlan:
    """A baseline run, checked.

    Attributes:
        runner: Where files are read, and sentences sampled and paired.
        scoring: Where pairs are scored.
    """

    options: BaselineOptions
    runner: Runner
    scoring: Runner
    output: str
    languages: tuple[str, ...]
    models: tuple[BaselineModel, ...] = ()

    @property
    def device_note(self) -> str | None:
        """What to say of the backend if the device was left to the workers; None otherwise."""
        return describe_unknown_device(self.options, self.scoring.threads, self.models[0].setting)

    @property
    def identity(self) -> dict[str, str]:
        """What must be equal for two runs to share a folder; files are compared separately."""
        options, is_given = self.options, bool(self.options.sentences)
        words = options.words
        filters = {"words": [words.least, words.most]} if is_given else describe_filters(words)
        return {
            "command": "baseline",
            "layout": sources.LAYOUT,
            "source": options.crawl or options.source,
            "seed": str(options.seed),
            "sentences_per_page": "-" if is_given else str(options.sentences_per_page),
            "filters": json.dumps(filters, sort_keys=True) if words else "-",
            "sampling": SAMPLING,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineJob:
    """A baseline run that has its folder; `started` is in seconds since the epoch.

    Attributes:
        before: The head of the folder then.
        files: What it publishes.
        stale: Tables of another sample, which it does not publish again, without their suffix.
    """

    plan: BaselinePlan
    folder: OutputFolder
    before: Head | None
    index: SentenceIndex
    say: Say
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.time)
    files: dict[str, bytes] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)

    @property
    def options(self) -> BaselineOptions:
        """What was asked for."""
        return self.plan.options


# What an output folder holds already, and whether a run may continue in it.


def check_folder(plan: BaselinePlan, folder: OutputFolder) -> dict[str, Any]:
    """Check that a run may continue in its output folder: nothing in it would be lost.

    With `overwrite` only the output of another command is refused.
    """
    names = folder.files()
    check_stands_alone(folder.root, names)
    overwrite, holds_data = plan.options.overwrite, _holds_data(names)
    before = read_same_run(folder, plan.identity, replaces=overwrite or not holds_data)
    if overwrite:
        return before or {}
    if not holds_data:
        return {}
    described = {stem: description_of(folder, stem) for stem in list_tables(names)}
    for language in plan.languages:
        of_language = [own for stem, own in described.items() if stem.startswith(f"{language}/")]
        _check_pairs(folder, language, plan.options.pairs, of_language)
        for model in plan.models:
            _check_weights(model, sources.table_path(language, model.name), described)
    return before or {}


def description_of(folder: OutputFolder, stem: str) -> dict[str, Any]:
    """Return what is said of a table beside it; nothing if that is damaged. It has no digest."""
    try:
        content = load_json(folder.read(stem + DESCRIPTION_SUFFIX))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def list_tables(names: Mapping[str, int]) -> list[str]:
    """Return the tables among files that have a description, without their suffix."""
    shown = [name for name in names if not name.startswith(HIDDEN_PREFIXES)]
    stems = [name.removesuffix(TABLE_SUFFIX) for name in shown if name.endswith(TABLE_SUFFIX)]
    return [stem for stem in stems if f"{stem}{DESCRIPTION_SUFFIX}" in names]


def _holds_data(names: Mapping[str, int]) -> bool:
    folders = {*sources.DATA_FOLDERS} - {sources.FAILED_FOLDER, sources.IDF_FOLDER}
    return bool(list_tables(names)) or any(name.partition("/")[0] in folders for name in names)


def _check_pairs(
    folder: OutputFolder, language: str, asked_for: int, described: Iterable[Mapping[str, Any]]
) -> None:
    # Those that a table was made from, and those that gave no score.
    made = (one.get("pairs", 0) + one.get("pairs_without_tokens", 0) for one in described)
    most = max([_scored_pairs(folder, language), *made])
    if most > asked_for:
        raise SignatureError(
            f"the tables of {language} were made from more pairs than this run asks for: got "
            f"{most:,} there, {asked_for:,} now; expected at least as many, since the new tables "
            f"replace them. Choose another --output, give --pairs {most} again, or use --overwrite "
            "to replace them."
        )


def _scored_pairs(folder: OutputFolder, language: str) -> int:
    record = sources.read_record(folder, language)
    if record is None or not folder.files(f"{sources.MOMENTS_FOLDER}/{language}"):
        return 0
    return record.rows


def _check_weights(
    model: BaselineModel, table: str, described: Mapping[str, Mapping[str, Any]]
) -> None:
    description = described.get(table.removesuffix(TABLE_SUFFIX), {})
    made, now = read_made_with(json.dumps(description)), model.setting.signature
    if made is None or made.weights == now.weights:
        return
    raise SignatureError(
        f"{table} was made by another model of that name: got weights {made.weights} there, "
        f"{now.weights} now; expected the same. Choose another --output, or use --overwrite to "
        "replace the table."
    )


def prepare_baseline(options: BaselineOptions, runner: Runner) -> BaselinePlan:
    """Check everything a run needs; nothing is written.

    Raises:
        BertScoreError: Whatever cannot work, before any work is done.
        OSError: Something cannot be reached at the moment.
    """
    scoring = Runner.of(options.for_scoring)
    # Workers of this machine, which --restarts is about, may read where others score.
    scoring.check(replace(options.for_scoring, restarts=None), may_detach=False)
    languages = sources.languages_of(options)
    output = absolute(options.output)
    for place in (runner, scoring):
        place.check_output(output)
    sources.check_files(options, languages)
    plan = BaselinePlan(
        options=options,
        runner=runner,
        scoring=scoring,
        output=output,
        languages=languages,
        models=_models(options, scoring, languages),
    )
    # Before the folder is taken, so that a refused run leaves no trace in the folder.
    check_folder(plan, OutputFolder(output))
    return plan


def _models(
    options: BaselineOptions, scoring: Runner, languages: Sequence[str]
) -> tuple[BaselineModel, ...]:
    named = dict.fromkeys(options.models, languages) or usual_models(languages)
    models = tuple(_model(options, scoring, name, codes) for name, codes in named.items())
    if len({model.name for model in models}) < len(models):
        raise ConfigError(
            f"two models would write the same table: got {', '.join(named)}; expected "
            "different names. Make their tables in two output folders."
        )
    return models


def usual_models(languages: Sequence[str]) -> dict[str, list[str]]:
    """Return the models that `score` takes for some languages, each with its languages.

    Raises:
        ConfigError: There is none for a language.
    """
    models: dict[str, list[str]] = {}
    for code in languages:
        try:
            models.setdefault(model_for_language(code), []).append(code)
        except UnknownLanguageError as error:
            raise ConfigError(
                f"no model is named, and none is the usual one for a language: got {code!r}; "
                "expected --models. Give --models NAME, such as xlm-roberta-base."
            ) from error
    return models


def _model(
    options: BaselineOptions, scoring: Runner, name: str, languages: Sequence[str]
) -> BaselineModel:
    # Sentences of which the tokenizer leaves nothing say nothing about the model: no score.
    asked = ScorerConfig(
        model=name, all_layers=True, layer_semantics="cut", empty="null", idf=options.idf
    )
    settings = settle_workers(with_scoring(asked, options, scoring.threads), scoring.threads)
    table = baseline_path("xx", settings.files.name, idf=options.idf)
    return BaselineModel(
        name=table.removeprefix("xx/").removesuffix(TABLE_SUFFIX),
        languages=frozenset(languages),
        setting=settings.for_workers(),
    )
