"""Check and plan a tuning run: judgements are read, but no model is loaded and nothing written."""

from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import reaching
from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.run.folder import OutputFolder, read_run
from bertscore_beam.run.identity import check_same_command, check_same_run
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_beam.run.runner import Runner
from bertscore_beam.scorer import read_layers, settle_workers, with_scoring
from bertscore_beam.tune.judgements import read_judgements
from bertscore_beam.tune.plan import TuneModel, TunePlan, cut_parts
from bertscore_core import EMBEDDED_MODEL, ConfigError, ScorerConfig
from bertscore_core.layers import check_layer


def plan_tune(options: TuneOptions, runner: Runner) -> TunePlan:
    """Check everything a run needs.

    Raises:
        BertScoreError: The run cannot work.
        OSError: Something cannot be reached at the moment.
    """
    models = tuple(_model(options, runner, name) for name in options.models or (EMBEDDED_MODEL,))
    if len({model.digest for model in models}) < len(models):
        raise ConfigError(
            f"two of the models are the same: got {', '.join(model.name for model in models)}; "
            "expected different ones. Leave one out."
        )
    if options.registry is not None:
        with reaching("registry", options.registry):
            read_layers(options.registry)  # a file that cannot be read must not cost the run
    with reaching("output", options.output):
        output = absolute(options.output)
        runner.check_output(output)
        check_stands_alone(output, list_files(output))
    with reaching("judgements", *options.judgements):
        judgements = read_judgements(options, output)
    plan = TunePlan(
        options=options,
        runner=runner,
        output=output,
        judgements=judgements,
        models=models,
        parts=cut_parts(judgements, options.split_rows),
    )
    # Before the lock is written, so that a refused run leaves no trace in the folder.
    with reaching("output", options.output):
        check_folder(plan, OutputFolder(output))
    return plan


def check_folder(plan: TunePlan, folder: OutputFolder) -> None:
    """Check that the output folder is new, or one of this command.

    Raises:
        SignatureError: It holds the output of another command, or of another version.
    """
    check_same_command(folder, plan.identity)
    if not plan.options.overwrite:
        check_same_run(read_run(folder), plan.identity)


def _model(options: TuneOptions, runner: Runner, name: str) -> TuneModel:
    asked = ScorerConfig(
        model=name,
        all_layers=True,
        layer_semantics="cut",
        empty="zero",  # as in `score`
        idf=options.idf != "none",
        max_length=options.max_length,
        revision=options.revision,
    )
    config, settings = settle_workers(with_scoring(asked, options, runner), runner)
    files = settings.files
    chosen = options.chosen_layers
    layers = tuple(range(files.depth + 1)) if chosen is None else tuple(sorted(chosen))
    for layer in layers:
        check_layer(layer, files.depth, files.name)
    return TuneModel(
        name=files.name,
        config=config,
        settings=settings,
        signature=settings.signature(),
        layers=layers,
        default=None if files.spec is None else files.spec.num_layers,
    )
