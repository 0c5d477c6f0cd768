"""The tuning job: judgements are scored model by model, then compared with people.

    judgements --> parts --one phase for each model--> scores --> agreement --> tables

Scores are kept in the folder by the digest of their texts and settings: what an earlier run of the
folder has scored alike is not scored again, whatever else has changed.
"""

import io
import time
import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.parquet import write_part
from bertscore_beam.files.checked import to_json
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.versions import NOT_THERE
from bertscore_beam.metrics.own import find_metrics
from bertscore_beam.metrics.table import check_metrics
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import (
    RUN_FILE,
    SUMMARY_FILE,
    OutputFolder,
    nan_to_null,
    run_to_bytes,
)
from bertscore_beam.run.identity import read_same_run
from bertscore_beam.run.job import Run
from bertscore_beam.run.loading import read_layers, settle_workers, with_scoring
from bertscore_beam.run.output import Outcome
from bertscore_beam.run.publication import Head, publish_files, readable_head
from bertscore_beam.run.runner import Runner
from bertscore_beam.tune.judgements import Judgements, read_judgements
from bertscore_beam.tune.layer_scores import SCORES_FOLDER, ModelScores, ScoreParts
from bertscore_beam.tune.other_metrics import languages_of_rows, other_scores
from bertscore_beam.tune.result_files import RESULT_FILES, result_files, summary_of, write_layers
from bertscore_beam.tune.show_tune import show_plan, show_results
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_beam.tune.tune_plan import IDENTITY, IDF_FOLDER, TuneModel, TunePlan, cut_parts
from bertscore_beam.tune.tune_results import evaluate
from bertscore_core.errors import ConfigError, InputError, UnknownModelError
from bertscore_core.model.layers import check_layer
from bertscore_core.registry import EMBEDDED_MODEL, find_model_spec
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.stats.score_statistics import MEASURES, clipped_f1

# Check and plan a tuning run: judgements are read, but no model is loaded and nothing written.


def tune_job(options: TuneOptions, run: Run) -> Outcome:
    """Score judgements with each model, and compare the scores with people."""
    plan = _plan_tune(options, run.runner)
    if options.dry_run:
        return Outcome(shown=show_plan(plan), is_answer=True)
    folder, began = run.take(plan.output), time.time()
    token = uuid.uuid4().hex
    notes = {"run": token, "identity": IDENTITY, "options": options.describe()}
    files = {RUN_FILE: run_to_bytes(notes)}
    with run.first_writing():
        head = _begin_tune(plan, folder, files[RUN_FILE])
    for name, why in plan.missing.items():
        run.say(f"{name} is left out: {why}")
    if plan.device_note is not None:
        run.say(f"The encoder runs on {plan.device_note}")
    scores = {own.setting.label: _score_with_model(plan, folder, own, run) for own in plan.models}
    others = other_scores(plan, run.say)
    run.say("Comparing the scores with people ...")
    results = evaluate(plan, scores, others)
    files |= result_files(plan, results)
    registry = write_layers(plan, results)
    summary = nan_to_null(summary_of(plan, results, registry, time.time() - began))
    files[SUMMARY_FILE] = to_json(summary, indent=2)
    with worker_errors():
        earlier = (SUMMARY_FILE, RUN_FILE, *RESULT_FILES)
        publish_files(folder, head, token, files, earlier=earlier)
    return Outcome(
        shown=show_results(summary, folder),
        document=summary,
        warnings=tuple(summary["warnings"]),
        notices=tuple(summary["notices"]),
    )


def _plan_tune(options: TuneOptions, runner: Runner) -> TunePlan:
    """Check everything a run needs."""
    models, missing = _models(options, runner)
    if len({model.setting.label for model in models}) < len(models):
        raise ConfigError(
            f"two of the models are the same: got {', '.join(model.name for model in models)}; "
            "expected different ones. Leave one out."
        )
    if options.registry is not None:
        read_layers(options.registry)  # a file that cannot be read must not cost the run
    output = runner.lone_output(options.output)
    judgements = read_judgements(options, output)
    check_metrics(options.library_metrics, languages_of_rows(judgements, options.language))
    has_sources = options.source_column is not None
    plan = TunePlan(
        options=options,
        runner=runner,
        output=output,
        judgements=judgements,
        models=models,
        missing=missing,
        parts=cut_parts(judgements, options.split_rows),
        own_metrics=find_metrics(options.own_metrics, has_sources=has_sources),
    )
    # Before the folder is taken, so that a refused run leaves no trace in the folder.
    read_same_run(OutputFolder(output), IDENTITY, replaces=options.overwrite)
    return plan


def _models(
    options: TuneOptions, runner: Runner
) -> tuple[tuple[TuneModel, ...], Mapping[str, str]]:
    """Return the models that are there, and why others of the registry are not."""
    models, missing = [], {}
    for name in options.models or (EMBEDDED_MODEL,):
        try:
            models.append(_model(options, runner, name))
        except UnknownModelError as error:
            if find_model_spec(name) is None:  # it may be misspelled
                raise
            missing[name] = str(error)
    if not models:
        raise UnknownModelError(next(iter(missing.values())))
    return tuple(models), missing


def _model(options: TuneOptions, runner: Runner, name: str) -> TuneModel:
    asked = ScorerConfig(
        model=name,
        all_layers=True,
        layer_semantics="cut",
        empty="zero",  # as in `score`
        idf=options.idf != "none",
        max_length=options.max_length,
        revision=options.revision,
        strip_reasoning=options.strip_reasoning,
    )
    settings = settle_workers(with_scoring(asked, options, runner.threads), runner.threads)
    files = settings.files
    chosen = options.chosen_layers
    layers = tuple(range(files.depth + 1)) if chosen is None else chosen
    for layer in layers:
        check_layer(layer, files.depth, files.name)
    return TuneModel(
        setting=settings.for_workers(),
        tokenizer=settings.tokenizer,
        layers=layers,
        default=None if files.spec is None else files.spec.num_layers,
    )


def _begin_tune(plan: TunePlan, folder: OutputFolder, notes: bytes) -> Head | None:
    """Write down whose folder this is, and the texts of the workers; return its head before."""
    read_same_run(folder, IDENTITY, replaces=plan.options.overwrite)
    head = readable_head(folder)
    folder.delete_temporary()
    folder.replace_version(RUN_FILE, notes, NOT_THERE)  # unless it is there
    _write_parts(plan, folder)
    return head


# The phase of each model, which scores the judgements, and what it leaves.


def _write_parts(plan: TunePlan, folder: OutputFolder) -> None:
    """Write the texts of each part for the workers, and delete those of other judgements."""
    names = {part.path for part in plan.parts}
    below = next(iter(names)).rpartition("/")[0]
    present = {f"{below}/{name}" for name in folder.files(below)}
    folder.delete(*sorted(present - names))
    judgements = plan.judgements
    for part in plan.parts:
        if part.path not in present:
            rows = slice(part.first, part.first + part.rows)
            columns = {
                "candidate": pa.array(judgements.candidates[rows], pa.large_string()),
                "references": pa.array(judgements.references[rows], pa.list_(pa.large_string())),
                "group": judgements.groups[rows],
            }
            folder.write(part.path, write_part(pa.table(columns)))


def _score_with_model(
    plan: TunePlan, folder: OutputFolder, model: TuneModel, run: Run
) -> ModelScores:
    """Score all judgements with one model, but those of which there are scores."""
    weightings, parts = plan.options.weightings, plan.parts
    # The names say of which texts the scores are, and how made.
    how = "-".join(weightings)
    corpus = parts[0].name.partition("-")[0]
    groups = range(len(plan.judgements.names)) if model.setting.config.idf else ()
    scoring = ScoreParts(
        setting=model.setting,
        folder=folder,
        weightings=weightings,
        scores=f"{SCORES_FOLDER}/{model.setting.label}/{how}",
        idf=tuple(f"{IDF_FOLDER}/{model.setting.label}/{corpus}-{group}.npz" for group in groups),
    )
    present = {f"{SCORES_FOLDER}/{name}" for name in folder.files(SCORES_FOLDER)}
    pending = [part for part in parts if scoring.name(part) not in present]
    if pending:
        _count_idf(plan.judgements, folder, model, scoring.idf)
        rows = sum(part.rows for part in pending)
        expected = scoring.expected(pending, f"Scoring {rows:,} judgements with {model.name}")
        phase = scoring.phase(plan.options.accelerator, pending)
        run.do([phase], expected, plainly=len(pending) == 1)
    return _read_all(folder, [scoring.name(part) for part in parts])


def _count_idf(
    judgements: Judgements, folder: OutputFolder, model: TuneModel, paths: Sequence[str]
) -> None:
    for group, path in enumerate(paths):
        if not folder.exists(path):
            rows = judgements.of_group(group)
            texts = [text for row in rows for text in judgements.references[row]]
            folder.write(path, model.tokenizer.count_documents(texts).to_bytes())


def _read_all(folder: OutputFolder, paths: Sequence[str]) -> ModelScores:
    values, seconds = [], 0.0
    for path in paths:
        data = folder.read(path)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                values.append(archive["scores"])
                seconds += float(archive["seconds"])
        except Exception as error:
            raise InputError(
                f"{mask_credentials(folder.path(path))!r} is damaged: got {error}; expected scores "
                "as an earlier command wrote them. Delete it and run the same command again: it "
                "scores these judgements once more."
            ) from error
    scores = np.concatenate(values, axis=-1)
    f1 = scores[:, :, MEASURES.index("f1")]
    f1[:] = clipped_f1(f1, f1)
    return ModelScores(values=scores, seconds=seconds)
