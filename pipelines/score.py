"""The scoring job: what `prepare.py` has planned, as one pipeline.

    plan --> splits --> CountDocumentFrequencies --> SaveIdf ------+ (side input: the idf table)
                                                                   v
    pending --> splits --> Reshuffle --> [ReadSplit | ScoreChunk | WritePart] --> FinishRun

`python -m pipelines.score` is `bertscore-beam score`.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, replace

import apache_beam as beam

from bertscore_core import IdfTable, SignatureError
from pipelines import manifest
from pipelines.identity import job_identity
from pipelines.io.files import (
    delete,
    delete_empty_folders,
    delete_many,
    delete_temporary,
    join,
    list_files,
    read_bytes,
    write_atomically,
)
from pipelines.lock import RunLock, check_held
from pipelines.options import ScoreOptions
from pipelines.planning import plan_from_bytes, plan_to_bytes
from pipelines.prepare import ScoreJob
from pipelines.rejects import FILES_FILE, ROWS_FOLDER, rows_path
from pipelines.splits import Split
from pipelines.success import SUCCESS_FILE
from pipelines.transforms.finish import FinishRun
from pipelines.transforms.hints import with_accelerator
from pipelines.transforms.idf import CountDocumentFrequencies, CountUnlessSame, SaveIdf, load_idf
from pipelines.transforms.scoring import ScoreSplits


def start_run(job: ScoreJob, options: ScoreOptions, lock: RunLock | None = None) -> None:
    """Write down what is about to be done, and take back an earlier success.

    Killed at any moment it leaves a folder that the next run understands: parts go before their
    records, and a record without its part counts for nothing.

    Args:
        job: What is to be done.
        options: What was asked for.
        lock: What must be held to delete and to write; None leaves that unchecked.

    Raises:
        FolderLostError: the folder belongs to another run by now.
    """
    for name in (SUCCESS_FILE, manifest.SUMMARY_FILE, FILES_FILE):
        check_held(lock)
        delete(join(job.output, name))
    check_held(lock)
    _renew_run(job.output, job.run)
    check_held(lock)
    delete_temporary(job.output)
    parts = (*job.superseded, *job.outdated)
    kept = {rows_path(job.output, part) for part in job.kept}
    folder = join(job.output, ROWS_FOLDER)
    listed = [join(folder, name) for name in list_files(folder)]
    for paths in (
        [join(job.output, part) for part in parts],
        [manifest.record_path(job.output, part) for part in parts],
        [path for path in listed if path not in kept],
        manifest.strange_records(job.output),
    ):
        check_held(lock)
        delete_many(paths)
    for emptied in (manifest.PARTS_FOLDER, ROWS_FOLDER):
        check_held(lock)
        delete_empty_folders(join(job.output, emptied))
    run = {
        "run": job.run,
        "identity": job_identity(job.signature, job.fields),
        "signature": job.signature.format(),
        "options": options.describe(),
        "corpus": job.plan.digest,
        "rows": job.plan.num_rows,
        "parts": len(job.plan.splits),
        "started": job.goal.started,
    }
    pending = replace(job.plan, splits=job.work)
    text = json.dumps(run, indent=2, ensure_ascii=False)
    for name, content in (
        (manifest.PLAN_FILE, plan_to_bytes(job.plan)),
        (manifest.PENDING_FILE, plan_to_bytes(pending)),
        (manifest.RUN_FILE, text.encode()),
    ):
        check_held(lock)
        write_atomically(join(job.output, name), content)


def _renew_run(output: str, run: str) -> None:
    """Put another run into `_run.json`, so that a late marker is not valid."""
    with suppress(SignatureError):  # a damaged file names no run
        before = manifest.read_run(output)
        if before is not None:
            text = json.dumps({**before, "run": run}, indent=2, ensure_ascii=False)
            write_atomically(join(output, manifest.RUN_FILE), text.encode())


def build_score_pipeline(root: beam.Pipeline, job: ScoreJob, lock: RunLock | None = None) -> None:
    """Add the scoring job to a pipeline; `start_run` must have written its plan.

    Between stages pass splits, the idf table, and part records; never a text or a score.

    Args:
        root: The pipeline.
        job: What to do.
        lock: What must be held to write; None leaves that unchecked.
    """
    idf = _idf_table(root, job)
    scoring = ScoreSplits(
        config=job.config,
        fields=job.fields,
        output=job.output,
        job_digest=job.digest,
        signature=job.signature,
        idf=idf,
        lock=lock,
    )
    results = (
        root
        # Split: what to read, a few hundred bytes each.
        | "ReadPending" >> ReadPlan(join(job.output, manifest.PENDING_FILE))
        # (PartRecord, FailedSplit): what became of each.
        | "ScoreSplits" >> with_accelerator(scoring, job.accelerator)
    )
    _ = results | "FinishRun" >> FinishRun(
        output=job.output,
        goal=job.goal,
        signature=job.signature,
        job_digest=job.digest,
        run=job.run,
        idf=idf,
        lock=lock,
        alone=job.detached,
    )


@dataclass
class ReadPlan(beam.PTransform):
    """The splits of a saved plan, spread over the workers.

    Only the plan's path is in the job itself, whose size is limited.
    """

    path: str

    def expand(self, root: beam.Pipeline) -> beam.PCollection[Split]:
        """Read the plan on a worker."""
        return (
            root
            | "PlanPath" >> beam.Create([self.path])
            | "ReadSplits" >> beam.FlatMap(_read_splits).with_output_types(Split)
            | "Spread" >> beam.Reshuffle()
        )


def _read_splits(path: str) -> tuple[Split, ...]:
    return plan_from_bytes(read_bytes(path), path).splits


def _idf_table(root: beam.Pipeline, job: ScoreJob) -> beam.PCollection[IdfTable] | None:
    """Load the idf table, or count it over the whole corpus where its references have changed."""
    if job.idf_path is None:
        return None
    if not job.count_idf:
        return root | "IdfPath" >> beam.Create([job.idf_path]) | "LoadIdf" >> beam.Map(load_idf)
    column = job.fields.reference_column
    splits = root | "ReadPlan" >> ReadPlan(join(job.output, manifest.PLAN_FILE))
    count = CountDocumentFrequencies(job.config, column, job.plan.digest)
    unless_same = CountUnlessSame(count, job.idf_path, job.output, job.digest)
    return (
        splits
        | "CountDocumentFrequencies" >> (unless_same if job.compare_idf else count)
        | "SaveIdf" >> SaveIdf(job.idf_path)
    )


if __name__ == "__main__":
    import sys

    from pipelines.cli import main

    sys.exit(main(["score", *sys.argv[1:]]))
