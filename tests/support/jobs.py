"""Scoring jobs run in this process."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipelines.io.files import join, read_bytes
from pipelines.options import ScoreOptions
from pipelines.prepare import ScoreJob, prepare_score
from pipelines.score import build_score_pipeline, start_run


def job_options(dump: Path, output: Path, **changes: Any) -> ScoreOptions:
    """Return options for a small job on the CPU with the embedded model."""
    values = {"input": (str(dump),), "output": str(output), "device": "cpu", "split_rows": 20}
    return ScoreOptions(**(values | changes))


def run_options(
    options: ScoreOptions,
    runner: beam.runners.PipelineRunner | None = None,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Prepare and run a job and return its summary."""
    job = prepare_score(options)
    start_run(job, options)
    return run_prepared(job, runner, flags)


def run_prepared(
    job: ScoreJob,
    runner: beam.runners.PipelineRunner | None = None,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a job that has been started and return its summary."""
    pipeline = beam.Pipeline(runner=runner or FnApiRunner(), options=PipelineOptions(list(flags)))
    build_score_pipeline(pipeline, job)
    pipeline.run().wait_until_finish()
    summary: dict[str, Any] = json.loads(read_bytes(join(job.output, "_summary.json")))
    return summary


def run_job(*inputs: Path, output: Path, **options: Any) -> dict[str, Any]:
    """Score dumps on the CPU, in memory, and return the summary."""
    chosen = {"device": "cpu"} | options
    return run_options(ScoreOptions(input=tuple(map(str, inputs)), output=str(output), **chosen))
