"""The tuning job: judgements are scored model by model, then compared with people.

    judgements --> parts --one stage for each model--> scores --> agreement --> tables

Scores are kept in the folder by the digest of their texts and settings: what an earlier run of the
folder has scored alike is not scored again, whatever else has changed.
"""

import time
import uuid
from collections.abc import Iterator

from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, SUMMARY_FILE, OutputFolder
from bertscore_beam.run.job import JobKind, Say
from bertscore_beam.run.outcome import Outcome
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.stage import Stage
from bertscore_beam.run.success import declare_success
from bertscore_beam.tune.judgements import no_judgements
from bertscore_beam.tune.others import other_scores
from bertscore_beam.tune.plan import TuneJob, TunePlan, weightings_of
from bertscore_beam.tune.prepare import check_folder, plan_tune
from bertscore_beam.tune.results import evaluate
from bertscore_beam.tune.scores import ModelScores, ScoreParts
from bertscore_beam.tune.show import show_plan, show_results
from bertscore_beam.tune.stages import score_stage, score_with_model, write_parts
from bertscore_beam.tune.write import RESULT_FILES, write_results
from bertscore_core import ScorerConfig


def begin_tune(plan: TunePlan, folder: OutputFolder, say: Say) -> TuneJob:
    """Write down whose folder this is and the texts of the workers, and delete earlier results.

    Raises:
        FolderLostError: The folder belongs to another run by now.
        SignatureError: Another command has worked on it since it was checked.
    """
    check_folder(plan, folder)
    job = TuneJob(plan=plan, folder=folder, run=uuid.uuid4().hex, started=time.time(), say=say)
    folder.delete(SUCCESS_FILE)  # before the results: no success without them
    folder.delete(SUMMARY_FILE, *RESULT_FILES)
    folder.delete_temporary()
    folder.write_json(
        RUN_FILE,
        {"run": job.run, "identity": plan.identity, "options": plan.options.describe()},
    )
    write_parts(job)
    if plan.device_words is not None:
        say(f"The encoder runs on {plan.device_words}")
    return job


def tune_stages(job: TuneJob) -> Iterator[Stage]:
    """Yield a stage for each model that has judgements to score, then write the results."""
    scores: dict[str, ModelScores] = {}
    for model in job.plan.models:
        scores[model.digest] = yield from score_with_model(job, model)
    others = other_scores(job)
    job.say("Comparing the scores with people ...")
    write_results(job, evaluate(job.plan, scores, others))


def conclude_tune(job: TuneJob) -> Outcome:
    """Mark the success, and return what is shown.

    Raises:
        FolderLostError: The folder belongs to another run by now.
    """
    summary = job.folder.read_json(SUMMARY_FILE)
    declare_success(job.folder, job.run)
    return Outcome(
        shown=show_results(summary, job.folder),
        document=summary,
        warnings=tuple(summary["warnings"]),
    )


def sketch_tune(options: TuneOptions, runner: Runner) -> Iterator[Stage]:
    """Yield the stage of a model without a plan: its steps do not depend on it."""
    folder = OutputFolder(options.output)
    plan = TunePlan(
        options=options,
        runner=runner,
        output=options.output,
        judgements=no_judgements(),
        models=(),
        parts=(),
    )
    job = TuneJob(plan=plan, folder=folder, run="", started=0.0, say=lambda _: None)
    scoring = ScoreParts(
        config=ScorerConfig(), backend="", folder=folder, weightings=weightings_of(options)
    )
    yield score_stage(job, scoring)


TUNE = JobKind(
    prepare=plan_tune,
    sketch=sketch_tune,
    show=show_plan,
    begin=begin_tune,
    stages=tune_stages,
    conclude=conclude_tune,
)
