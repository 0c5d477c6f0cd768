"""The pipelines of a job, without a plan: their steps are the same whatever there is to do."""

import dataclasses
import time
from collections.abc import Iterator
from functools import partial

from bertscore_core import ScorerConfig, Signature
from pipelines import manifest
from pipelines.blueprint import Sketch
from pipelines.idf import IdfJob, build_idf_pipeline
from pipelines.io.files import join
from pipelines.options import IdfOptions, ScoreOptions
from pipelines.planning import Plan
from pipelines.prepare import ScoreJob
from pipelines.score import build_score_pipeline
from pipelines.scoring import TableFields
from pipelines.totals import RunGoal, RunTotals

_NO_PLAN = Plan(splits=(), rejected_files=(), digest="")


def sketch_score(options: ScoreOptions) -> Iterator[Sketch]:
    """Yield the one pipeline of `bertscore-beam score`."""
    idf = options.idf
    if idf == "corpus":
        idf = join(options.output, manifest.IDF_FILE)
    job = ScoreJob(
        run="",
        output=options.output,
        config=ScorerConfig(),
        fields=TableFields(
            candidate_column=options.candidate_column, reference_column=options.reference_column
        ),
        signature=Signature(**dict.fromkeys((f.name for f in dataclasses.fields(Signature)), "")),
        digest="",
        plan=_NO_PLAN,
        pending=(),
        unsure=(),
        superseded=(),
        outdated=(),
        kept=frozenset(),
        idf_path=None if idf == "none" else idf,
        count_idf=options.idf == "corpus",
        goal=_NO_GOAL,
        accelerator=options.accelerator,
    )
    yield Sketch(name="score", options=options, build=partial(build_score_pipeline, job=job))


def sketch_idf(options: IdfOptions) -> Iterator[Sketch]:
    """Yield the one pipeline of `bertscore-beam idf`."""
    job = IdfJob(
        output=options.output,
        config=ScorerConfig(),
        reference_column=options.reference_column,
        plan=_NO_PLAN,
        run="",
    )
    yield Sketch(name="idf", options=options, build=partial(build_idf_pipeline, job=job))


_NO_GOAL = RunGoal(
    parts=0,
    rows=0,
    files=0,
    num_rejected_files=0,
    num_unreachable_files=0,
    rejected_files={},
    min_rows=0,
    max_reject_fraction=0.0,
    max_truncated_fraction=None,
    num_orphan_parts=0,
    orphan_parts=(),
    started=time.time(),
    carried=RunTotals(),
)
