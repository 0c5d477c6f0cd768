"""What the Beam job costs beside the bare kernel, and what a second worker brings."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.records import read_records
from bertscore_beam.run import OutputFolder
from tests.benchmarks.harness import Recorder, interleave
from tests.benchmarks.models import BenchModel, prepare
from tests.benchmarks.texts import Pairs, mixed
from tests.benchmarks.worker import Worker, write_pairs

Cores = set[int] | None


def write_dump(path: Path, pairs: Pairs, split_rows: int) -> None:
    """Write the pairs as one Parquet file with a row group for each split."""
    columns = {"candidate": pairs.candidates, "reference": pairs.references}
    pq.write_table(pa.table(columns), path, row_group_size=split_rows)


def run_job(
    dump: Path, model: BenchModel, dtype: str, split_rows: int, workers: int, cores: Cores
) -> list[tuple[float, int, float]]:
    """Run the job; return of every part the time it ended, its rows, and its scoring seconds."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        command = [sys.executable, "-m", "bertscore_beam", "score", "--input", str(dump)]
        command += ["--output", str(output), "--model", str(model.path), "--dtype", dtype]
        command += ["--num-layers", str(model.shape.layers), "--device", "cpu"]
        command += ["--workers", str(workers), "--split-rows", str(split_rows)]
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, cores or before)  # which the job inherits
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        finally:
            os.sched_setaffinity(0, before)
        parts = [
            (os.stat(output / name).st_mtime, record.num_rows, record.seconds)
            for name, record in read_records(OutputFolder(str(output))).items()
        ]
    return sorted(parts)


def steady_seconds(parts: list[tuple[float, int, float]], workers: int, rows: int) -> float:
    """Return the seconds the job would take for so many rows at the rate it had once running.

    Args:
        parts: End, rows and scoring seconds of every part, by end.
        workers: Worker processes, each with one part at a time.
        rows: How many rows to state the time for.

    The rate counts from when as many parts as workers were done. At the end a worker may wait for
    the others: take many small parts.
    """
    later = parts[workers:]
    if len(later) < workers:
        raise SystemExit(f"{len(parts)} parts are too few for {workers} workers; more --pairs")
    return rows * (later[-1][0] - parts[workers - 1][0]) / sum(count for _, count, _ in later)


def overhead(
    recorder: Recorder,
    *,
    pairs: int = 20_000,
    split_rows: int = 2_000,
    rounds: int = 2,
    dtype: str = "float32",
) -> None:
    """What the Beam job costs beside the bare kernel.

    The job scores a dump with one worker; the bare kernel scores the same splits, one after the
    other, in one process with as many threads. Both are rates without start-up. For the job it is
    the time between the end of the first part and the end of the last, which holds everything a
    part needs: reading, scoring, writing its file and its record. Runs alternate.
    """
    model = prepare("embedded")
    scoring: list[float] = []
    with TemporaryDirectory() as folder, Worker("ours", model, dtype=dtype) as worker:
        texts = mixed(pairs)
        path, dump = write_pairs(Path(folder) / "pairs", texts), Path(folder) / "dump.parquet"
        write_dump(dump, texts, split_rows)
        worker.ask("score", path=path, stop=200)

        def job() -> float:
            parts = run_job(dump, model, dtype, split_rows, 1, None)
            scoring.append(sum(part[2] for part in parts))
            return steady_seconds(parts, 1, pairs)

        def bare() -> float:
            replies = [
                worker.ask("score", path=path, start=start, stop=start + split_rows)
                for start in range(0, pairs, split_rows)
            ]
            # The first split is left out, as the job's first part is.
            rows = pairs - min(split_rows, pairs)
            return pairs * sum(reply["seconds"] for reply in replies[1:]) / rows

        seconds = interleave({"bare kernel": bare, "job, 1 worker": job}, rounds)
    base = median(seconds["bare kernel"])
    for what, taken in seconds.items():
        recorder.add(
            model=model.name,
            what=what,
            n=pairs,
            seconds=taken,
            ratio=base / median(taken),
            pairs_per_second=pairs / median(taken),
            dtype=dtype,
            overhead=median(taken) / base - 1 if what != "bare kernel" else None,
            scoring_seconds=median(scoring) if what != "bare kernel" else None,
        )


def scaling(
    recorder: Recorder,
    *,
    pairs: int = 20_000,
    split_rows: int = 2_000,
    rounds: int = 2,
    dtype: str = "float32",
) -> None:
    """What a second worker brings: two workers of one thread against one, which has one core.

    The time counts in which both were at work and had done a part each.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("scaling needs two cores")
    model = prepare("embedded")
    split_rows = min(split_rows, max(pairs // 20, 1))
    with TemporaryDirectory() as folder:
        dump = Path(folder) / "dump.parquet"
        write_dump(dump, mixed(pairs, seed=1), split_rows)

        def job(workers: int) -> float:
            parts = run_job(dump, model, dtype, split_rows, workers, set(cores[:workers]))
            return steady_seconds(parts, workers, pairs)

        variants = {"1 worker": partial(job, 1), "2 workers": partial(job, 2)}
        seconds = interleave(variants, rounds)
    for what, taken in seconds.items():
        recorder.add(
            model=model.name,
            what=f"{what} of 1 thread",
            n=pairs,
            seconds=taken,
            ratio=median(seconds["1 worker"]) / median(taken),
            pairs_per_second=pairs / median(taken),
            dtype=dtype,
        )
