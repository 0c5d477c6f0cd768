"""What going on with a run costs when most of it is done.

    python -m tests.benchmarks.resume_cost --parts 10000 --rows-per-part 10 --done 0.95

Scores a dump of short texts with the command line on the embedded model, one part a row group;
takes a share of the parts away again, evenly spread, with their records and the end of the run, as
if it had been killed; and runs the same command once more. Prints one JSON line: seconds of the
full run, of going on, of going on with nothing left to do, their ratios to the full run, and the
seconds of `--dry-run`, which is the planning alone.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.dumps import write_dump

END_FILES = ("_SUCCESS", "_summary.json")


def run(command: list[str]) -> tuple[float, float]:
    """Run a command that must end well; return its seconds and those of the processor."""
    started, before = time.perf_counter(), processor_seconds()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started, processor_seconds() - before


def processor_seconds() -> float:
    """Return the processor's seconds of all child processes that have ended, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def take_away(output: Path, every: int) -> int:
    """Delete every so-many-th part, and what ends a run; return how many."""
    parts = sorted(output.glob("*.parquet/part-*.parquet"))[::every]
    for part in parts:
        part.unlink()
    for name in END_FILES:
        (output / name).unlink(missing_ok=True)
    return len(parts)


def rows_in(output: Path) -> int:
    """Count the rows of all parts."""
    return sum(pq.read_metadata(part).num_rows for part in output.glob("*.parquet/part-*.parquet"))


def main() -> None:
    """Measure a full run, going on, and a run with nothing to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--rows-per-part", type=int, default=10)
    parser.add_argument("--parts-per-file", type=int, default=10)
    parser.add_argument("--done", type=float, default=0.95)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        rows = given.parts_per_file * given.rows_per_part
        files = -(-given.parts // given.parts_per_file)
        dump = write_dump(folder / "dump", [rows] * files, row_group_size=given.rows_per_part)
        output = folder / "out"
        command = [sys.executable, "-m", "bertscore_beam", "score", "--input", str(dump)]
        command += ["--output", str(output), "--split-rows", str(given.rows_per_part)]
        command += ["--workers", str(given.workers), "--device", "cpu"]
        times = {"full": run(command)}
        missing = take_away(output, round(1 / (1 - given.done)))
        times["planning"] = run([*command, "--dry-run"])
        times["resume"] = run(command)
        times["nothing_left"] = run(command)
        if rows_in(output) != rows * files:
            raise SystemExit(f"{rows_in(output)} rows in the output; expected {rows * files}")
    result = {
        "benchmark": "resume_cost",
        "parts": given.parts_per_file * files,
        "rows": rows * files,
        "missing_parts": missing,
        "workers": given.workers,
        **{f"{name}_seconds": round(wall, 1) for name, (wall, _) in times.items()},
        **{f"{name}_cpu_seconds": round(cpu, 1) for name, (_, cpu) in times.items()},
        "resume_share": round(times["resume"][0] / times["full"][0], 4),
        "resume_cpu_share": round(times["resume"][1] / times["full"][1], 4),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
