"""Check and plan a baseline run, before a file is read or a model loaded."""

from collections.abc import Sequence
from dataclasses import replace

from bertscore_beam.baseline.plan import BaselineModel, BaselinePlan
from bertscore_beam.baseline.resume import check_folder
from bertscore_beam.baseline.source import Source
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import reaching
from bertscore_beam.options.baseline import BaselineOptions
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.runner import Runner
from bertscore_beam.scorer import settle_workers, with_scoring
from bertscore_core import ConfigError, ScorerConfig, UnknownLanguageError, model_for_language
from bertscore_core.baseline import TABLE_SUFFIX, baseline_path


def prepare_baseline(options: BaselineOptions, runner: Runner) -> BaselinePlan:
    """Check everything a run needs; nothing is written.

    Raises:
        BertScoreError: Whatever cannot work, before any work is done.
        OSError: Something cannot be reached at the moment.
    """
    scoring = _scoring_runner(options)
    source = Source.of(options)
    with reaching("output", options.output):
        output = absolute(options.output)
        for place in (runner, scoring):
            place.check_output(output)
    plan = BaselinePlan(
        options=options,
        runner=runner,
        scoring=scoring,
        output=output,
        source=source,
        models=_models(options, scoring, source.languages),
    )
    source.check()
    # Before the lock is written, so that a refused run leaves no trace in the folder.
    with reaching("output", options.output):
        check_folder(plan, OutputFolder(output))
    # A crawl's listing is fetched, so only where it is needed before the run.
    needed = options.dry_run or options.overwrite
    return replace(plan, files=source.files()) if needed else plan


def _scoring_runner(options: BaselineOptions) -> Runner:
    """Return where pairs are scored.

    Raises:
        ConfigError: It cannot be used, or would not be waited for.
    """
    chosen = options.for_scoring
    runner = Runner.of(chosen)
    runner.check_waits()
    runner.check(chosen)
    return runner


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
    config, settings = settle_workers(with_scoring(asked, options, scoring), scoring)
    table = baseline_path("xx", settings.files.name, idf=options.idf)
    return BaselineModel(
        name=table.removeprefix("xx/").removesuffix(TABLE_SUFFIX),
        languages=frozenset(languages),
        config=config,
        settings=settings,
        signature=settings.signature(),
    )
