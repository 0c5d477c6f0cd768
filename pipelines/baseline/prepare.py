"""Check and plan a baseline run, before a file is read or a model loaded."""

from dataclasses import replace

from bertscore_core import ConfigError, ScorerConfig
from bertscore_core.baseline import TABLE_SUFFIX, baseline_path
from pipelines.baseline.plan import BaselineModel, BaselinePlan
from pipelines.baseline.resume import check_folder
from pipelines.baseline.source import Source
from pipelines.files.paths import absolute
from pipelines.files.reach import reaching
from pipelines.options.baseline import BaselineOptions
from pipelines.run.folder import OutputFolder
from pipelines.run.runner import Runner
from pipelines.scorer import settle_workers, with_scoring


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
        models=_models(options, scoring),
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


def _models(options: BaselineOptions, scoring: Runner) -> tuple[BaselineModel, ...]:
    models = tuple(_model(options, scoring, name) for name in dict.fromkeys(options.models))
    if len({model.name for model in models}) < len(models):
        raise ConfigError(
            f"two models would write the same table: got {', '.join(options.models)}; expected "
            "different names. Make their tables in two output folders."
        )
    return models


def _model(options: BaselineOptions, scoring: Runner, name: str) -> BaselineModel:
    # Sentences of which the tokenizer leaves nothing say nothing about the model: no score.
    asked = ScorerConfig(
        model=name, all_layers=True, layer_semantics="cut", empty="null", idf=options.idf
    )
    config, settings = settle_workers(with_scoring(asked, options, scoring), scoring)
    table = baseline_path("xx", settings.files.name, idf=options.idf)
    return BaselineModel(
        name=table.removeprefix("xx/").removesuffix(TABLE_SUFFIX),
        config=config,
        settings=settings,
        signature=settings.signature(),
    )
