"""Small scoring jobs: as commands, and run in this process."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions

from bertscore_beam.dump.parquet import SEAL_KEY
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.record import TOKEN_KEY
from bertscore_beam.records.resume import FolderDiff
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder
from bertscore_beam.run.phases import run_plainly
from bertscore_beam.run.publication import settled_head, sweep
from bertscore_beam.run.run_step import add_phases
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.text_import import Check, import_text, missing_imports
from bertscore_beam.score.conclude import has_ended, read_summary
from bertscore_beam.score.job import score_phases, start_run
from bertscore_beam.score.prepare import ScorePlan, plan_score, resume_score
from bertscore_beam.score.spec import ScoreSpec

MODEL: dict[str, Any] = {}
"""Options of the model of these jobs: the embedded one unless a test asks for `tiny_jobs`."""


def job_options(dump: Path, output: Path, **changes: Any) -> ScoreOptions:
    """Return options for a small job on the CPU."""
    values = {"input": (str(dump),), "output": str(output), "device": "cpu", "split_rows": 20}
    return ScoreOptions(**(values | MODEL | changes))


def score_arguments(dump: Path, tmp_path: Path, *more: object) -> list[str]:
    """Return the words of a command that scores a dump into the folder `out` of a test."""
    model = [f"--{name.replace('_', '-')}={value}" for name, value in MODEL.items()]
    words = ["score", "--input", dump, "--output", tmp_path / "out", *model, *more]
    return list(map(str, words))


def own(output: str | Path) -> OutputFolder:
    """Return a folder to work on."""
    return OutputFolder(str(output))


def import_here(texts: Iterable[TextFile], folder: OutputFolder) -> None:
    """Import files of text into a folder."""
    for text in texts:
        assert list(import_text(text, folder=folder)) == []


def plan_imported(options: ScoreOptions) -> ScorePlan:
    """Import the files of text, if that is to be done, and plan."""

    def import_texts(output: str, texts: Sequence[TextFile], check: Check) -> None:
        check(own(output))
        import_here(texts, own(output))

    return plan_score(options, Runner.of(options), import_texts)


@dataclass(frozen=True)
class Prepared:
    """A job that is planned and compared with its folder."""

    planned: ScorePlan
    spec: ScoreSpec
    diff: FolderDiff


def prepare_score(options: ScoreOptions) -> Prepared:
    """Check, plan, and look at the output folder; nothing is written but imports of text."""
    planned = plan_imported(options)
    return Prepared(planned, *resume_score(planned, OutputFolder(planned.output)))


def start(job: Prepared) -> Prepared:
    """Start the run of a job; return the job, which knows what was written."""
    return replace(job, spec=start_run(job.planned, job.spec, job.diff))


def add_score_pipeline(root: beam.Pipeline, job: Prepared) -> None:
    """Add a job that has been started to a pipeline."""
    add_phases(root, score_phases(job.spec))


def run_options(
    options: ScoreOptions,
    runner: beam.runners.PipelineRunner | None = None,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Prepare and run a job and return its summary."""
    planned = plan_imported(options)
    folder = own(planned.output)
    settled_head(folder)
    job = start(Prepared(planned, *resume_score(planned, folder)))
    texts = missing_imports(planned.texts, job.diff.to_do, job.diff.found.others)
    import_here(texts, folder)
    return run_prepared(job, runner, flags)


def run_prepared(
    job: Prepared, runner: beam.runners.PipelineRunner | None = None, flags: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a job that has been started, sweep as its launcher does, and return its summary.

    Without a runner it is run plainly: all phases are the same in Beam.
    """
    if runner is None:
        run_plainly(score_phases(job.spec))
    else:
        pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(list(flags)))
        add_score_pipeline(pipeline, job)
        pipeline.run().wait_until_finish()
    if has_ended(job.spec):
        sweep(job.spec.folder)
    return read_summary(job.spec)


def is_staged(name: str) -> bool:
    """Tell whether a file in `_work` has the name of a staged part, or of its list of rejects."""
    return re.match(r"\d{12}\.", name.rpartition("/")[2]) is not None


def summary_of(output: Path) -> dict[str, Any]:
    """Return the summary of a run."""
    return OutputFolder(str(output)).read_json(SUMMARY_FILE)


def parts_of(output: Path) -> dict[str, bytes]:
    """Return the bytes of all parts of a run, but for token and seal, by their names."""
    found = sorted(Path(output).glob("[!_.]*/**/part-*.parquet"))
    return {str(path.relative_to(output)): without_token(path.read_bytes()) for path in found}


def without_token(data: bytes) -> bytes:
    """Return the bytes of a part with zeros in the places of its token and its seal."""
    metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
    for key in (TOKEN_KEY, SEAL_KEY):
        if value := metadata.get(key):
            data = data.replace(value, b"0" * len(value))
    return data


def summed(output: Path) -> dict[str, Any]:
    """Return the fields of a summary that neither the runner nor the death of a worker changes."""
    summary = summary_of(output)
    names = ("rows", "scored", "rejected", "parts", "f1", "success")
    return {name: summary[name] for name in names}


def run_job(*inputs: Path, output: Path, **options: Any) -> dict[str, Any]:
    """Score dumps on the CPU, in memory, and return the summary."""
    chosen = {"device": "cpu"} | MODEL | options
    return run_options(ScoreOptions(input=tuple(map(str, inputs)), output=str(output), **chosen))
