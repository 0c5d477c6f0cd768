"""What the command costs beside the bare kernel, and in memory."""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.records.records import find_parts
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.publication import read_head
from tests.benchmarks.harness import Recorder, interleave, run_command
from tests.benchmarks.models import prepare
from tests.benchmarks.texts import Pairs, mixed
from tests.benchmarks.worker import Worker, write_pairs


def write_pair_groups(path: Path, pairs: Pairs, split_rows: int) -> None:
    """Write the pairs as one Parquet file with a row group for each split."""
    table = pa.table(dict(zip(("candidate", "reference"), pairs, strict=True)))
    pq.write_table(table, path, row_group_size=split_rows)


def ends_of_parts(output: str | Path) -> list[tuple[float, int]]:
    """Return when each part of a finished run was written, and its rows, by time."""
    folder = OutputFolder(str(output))
    records = find_parts(folder, read_head(folder)).records.items()
    return sorted((Path(output, name).stat().st_mtime, one.num_rows) for name, one in records)


def steady_seconds(parts: list[tuple[float, int]], rows: int) -> float:
    """Return the seconds the job would take for so many rows at the rate it had once running.

    The rate counts from when the first part was done.

    Args:
        parts: End and rows of every part, by end.
        rows: How many rows to state the time for.
    """
    if len(parts) < 2:
        raise SystemExit(f"{len(parts)} parts are too few; more --pairs")
    return rows * (parts[-1][0] - parts[0][0]) / sum(count for _, count in parts[1:])


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
    model, texts = prepare("embedded"), mixed(pairs)
    with TemporaryDirectory() as folder, Worker("ours", model, dtype=dtype) as worker:
        path, dump = write_pairs(Path(folder, "pairs"), texts), Path(folder, "dump.parquet")
        write_pair_groups(dump, texts, split_rows)
        worker.ask("score", path=path, stop=200)

        def job() -> float:
            with TemporaryDirectory() as output:
                words = ["score", "--input", dump, "--output", output, "--model", model.path]
                words += ["--num-layers", model.shape.layers, "--dtype", dtype, "--device", "cpu"]
                run_command([*words, "--workers", 1, "--split-rows", split_rows])
                return steady_seconds(ends_of_parts(output), pairs)

        def bare() -> float:
            replies = [
                worker.ask("score", path=path, start=start, stop=start + split_rows)
                for start in range(0, pairs, split_rows)
            ]
            # The first split is left out, as the job's first part is.
            rows = pairs - min(split_rows, pairs)
            return pairs * sum(reply["seconds"] for reply in replies[1:]) / rows

        taken = interleave({"bare kernel": bare, "job, 1 worker": job}, rounds)
    recorder.race(taken, pairs, {}, model=model.name, dtype=dtype)


def job_memory(
    recorder: Recorder,
    *,
    rows: Sequence[int] = (10_000, 100_000),
    plan_rows: Sequence[int] = (1_000_000,),
    workers: int = 2,
    split_rows: int = 5_000,
) -> None:
    """How the memory of `score` grows with the number of rows, and that of planning alone."""
    for count, more in [(n, []) for n in rows] + [(n, ["--dry-run"]) for n in plan_rows]:
        with TemporaryDirectory() as folder:
            dump = Path(folder, "dump.parquet")
            write_pair_groups(dump, mixed(count, mean_tokens=7), 10_000)
            words = ["score", "--input", dump, "--output", f"{folder}/out", "--workers", workers]
            cost = run_command([*words, "--split-rows", split_rows, *more])
            what = f"{'plan' if more else 'score'}, {workers} workers"
            recorder.add(what=what, n=count, seconds=[cost.pop("seconds")], **cost)


_LIBRARY = """
import sys
from bertscore_core import BertScorer, ScorerConfig
texts = [open(path).read().splitlines() for path in sys.argv[1:]]
print(BertScorer(ScorerConfig()).score(*texts).f1)
"""


def start(recorder: Recorder, *, rounds: int = 5) -> None:
    """What two rows cost by the command, by the library, and a command with a wrong model name.

    Seconds are those of the processor, of all processes, in turn; each is tried once before.
    """
    with TemporaryDirectory() as folder:
        cands, refs = Path(folder, "c.txt"), Path(folder, "r.txt")
        cands.write_text("the cat sat on the mat\nit is cold today\n")
        refs.write_text("a cat sat on a mat\ntoday it is cold\n")
        score = ["-m", "bertscore_beam", "score", "-c", str(cands), "-r", str(refs)]
        variants = {
            "library": partial(_processor_seconds, "-c", _LIBRARY, str(cands), str(refs)),
            "command": partial(_processor_seconds, *score),
            "wrong model name": partial(_processor_seconds, *score, "-m", "no-model", status=2),
        }
        interleave(variants, 1)
        taken = interleave(variants, rounds)
    base = median(taken["library"])
    for what, seconds in taken.items():
        recorder.add(what=what, n=2, seconds=seconds, to_library=median(seconds) / base)


def _processor_seconds(*words: str, status: int = 0) -> float:
    """Run Python and return the processor's seconds of all processes; modules stay compiled."""
    kept = {name: value for name, value in os.environ.items() if "DONTWRITE" not in name}
    before = os.times()
    ran = subprocess.run(
        [sys.executable, *words],
        env={**kept, "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if ran.returncode != status:
        raise SystemExit(f"{words} ended with status {ran.returncode}")
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])
