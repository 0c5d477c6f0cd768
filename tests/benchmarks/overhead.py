"""What the Beam job costs beside the bare kernel, and what a second worker brings.

    python -m tests.benchmarks.overhead --pairs 20000

The job scores a dump with one worker; the bare kernel scores the same splits, one after the other,
in one process with as many threads. Both are rates without start-up. For the job it is the time
between the end of the first part and the end of the last, which holds everything a part needs:
reading, scoring, writing its file and its record. Runs alternate. `scaling` compares two workers of
one thread with one worker of one thread, which is held to one core; there the time counts in which
both were at work and had done a part each.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.score.records import read_records
from tests.benchmarks.harness import Recorder, add_out, interleave
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

    The rate is that of the time in which all workers were at work and had done a part each. A part
    that lies only partly in it counts by that share.
    """
    edges = sorted([(end - took, 1) for end, _, took in parts] + [(end, -1) for end, *_ in parts])
    busy, all_busy = 0, []
    for moment, change in edges:
        if workers in (busy, busy + change):
            all_busy.append(moment)
        busy += change
    later = [end for end, *_ in parts if all_busy and end > all_busy[0]]
    if len(later) <= workers or all_busy[-1] <= later[workers - 1]:
        raise SystemExit(f"{len(parts)} parts are too few for {workers} workers; more --pairs")
    first, last = later[workers - 1], all_busy[-1]
    done = sum(
        count * max(min(end, last) - max(end - took, first), 0.0) / took
        for end, count, took in parts
    )
    return rows * (last - first) / done


def main() -> None:
    """Measure overhead and scaling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--split-rows", type=int, default=2_000)
    parser.add_argument("--scaling-pairs", type=int, help="default: as many as --pairs")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--skip", nargs="*", choices=("overhead", "scaling"), default=[])
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("overhead", given.out)
    model = prepare("embedded")
    with TemporaryDirectory() as folder:
        if "overhead" not in given.skip:
            _overhead(Path(folder), model, given, recorder)
        if "scaling" not in given.skip:
            _scaling(Path(folder), model, given, recorder)


def _overhead(
    folder: Path, model: BenchModel, given: argparse.Namespace, recorder: Recorder
) -> None:
    pairs = mixed(given.pairs)
    path = write_pairs(folder / "pairs.json", pairs)
    dump = folder / "dump.parquet"
    write_dump(dump, pairs, given.split_rows)
    scoring: list[float] = []

    def job() -> float:
        parts = run_job(dump, model, given.dtype, given.split_rows, 1, None)
        scoring.append(sum(part[2] for part in parts))
        return steady_seconds(parts, 1, given.pairs)

    with Worker("tests.benchmarks.serve_ours", folder=model.folder) as worker:
        worker.ask("load", model=str(model.path), num_layers=model.shape.layers, dtype=given.dtype)
        worker.ask("score", path=str(path), stop=200)

        def bare() -> float:
            starts = range(0, given.pairs, given.split_rows)
            request = [(start, start + given.split_rows) for start in starts]
            replies = [worker.ask("score", path=str(path), start=a, stop=b) for a, b in request]
            # The first split is left out, as the job's first part is.
            rows = given.pairs - min(given.split_rows, given.pairs)
            return given.pairs * sum(reply["seconds"] for reply in replies[1:]) / rows

        seconds = interleave({"bare kernel": bare, "job, 1 worker": job}, given.rounds)
    base = median(seconds["bare kernel"])
    overhead = median(seconds["job, 1 worker"]) / base - 1
    more = {"job, 1 worker": {"overhead": overhead, "scoring_seconds": median(scoring)}}
    for what, taken in seconds.items():
        recorder.add(
            model=model.name,
            what=what,
            n=given.pairs,
            seconds=taken,
            ratio=base / median(taken),
            pairs_per_second=given.pairs / median(taken),
            dtype=given.dtype,
            **more.get(what, {}),
        )


def _scaling(
    folder: Path, model: BenchModel, given: argparse.Namespace, recorder: Recorder
) -> None:
    count = given.scaling_pairs or given.pairs
    split_rows = min(given.split_rows, max(count // 20, 1))
    dump = folder / "scaling.parquet"
    write_dump(dump, mixed(count, seed=1), split_rows)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("scaling needs two cores; left out", file=sys.stderr)
        return

    def job(workers: int) -> Callable[[], float]:
        def run() -> float:
            used = set(cores[:workers])
            parts = run_job(dump, model, given.dtype, split_rows, workers, used)
            return steady_seconds(parts, workers, count)

        return run

    started = time.perf_counter()
    seconds = interleave({"1 worker": job(1), "2 workers": job(2)}, given.rounds)
    one = median(seconds["1 worker"])
    for what, taken in seconds.items():
        recorder.add(
            model=model.name,
            what=f"{what} of 1 thread",
            n=count,
            seconds=taken,
            ratio=one / median(taken),
            pairs_per_second=count / median(taken),
            dtype=given.dtype,
        )
    print(f"scaling took {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
