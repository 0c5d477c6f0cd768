"""How the job's memory and planning time grow with the number of rows.

    python -m tests.benchmarks.job_memory --rows 10000 100000 --workers 2 --plan-rows 1000000

Writes dumps of short texts to a temporary folder, scores them with the command line on the embedded
model, and prints one JSON line a run: rows, seconds, pairs per second, and the highest resident
memory of the command's own process and of its largest worker, sampled from /proc at 10 Hz.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.processes import descendants

WORDS = tuple(f"{start}{end}" for start in "bcdfglmnprst" for end in ("an", "ero", "ilo", "ust"))
ROWS_PER_FILE = 50_000


def write_dump(folder: Path, rows: int) -> None:
    """Write pairs of three to six words; nearly all texts are distinct."""
    generator = random.Random(rows)
    for start in range(0, rows, ROWS_PER_FILE):
        ids = range(start, min(start + ROWS_PER_FILE, rows))
        table = pa.table(
            {
                "id": list(ids),
                "candidate": [" ".join(generator.choices(WORDS, k=4)) for _ in ids],
                "reference": [" ".join(generator.choices(WORDS, k=5)) for _ in ids],
            }
        )
        pq.write_table(table, folder / f"shard-{start:09d}.parquet", row_group_size=10_000)


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process, 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(command: list[str]) -> dict[str, float]:
    """Run a command; return its seconds and the peaks of its own and its workers' memory."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    own = worker = 0
    while process.poll() is None:
        own = max(own, resident_bytes(process.pid))
        worker = max([worker, *map(resident_bytes, descendants(process.pid))])
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "own_peak_mb": round(own / 1e6),
        "worker_peak_mb": round(worker / 1e6),
    }


def main() -> None:
    """Measure each number of rows, then the plan alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--plan-rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--split-rows", type=int, default=5_000)
    arguments = parser.parse_args()
    for rows, only_plan in [(n, False) for n in arguments.rows] + [
        (n, True) for n in arguments.plan_rows
    ]:
        with tempfile.TemporaryDirectory() as folder:
            dump = Path(folder) / "dump"
            dump.mkdir()
            write_dump(dump, rows)
            command = [sys.executable, "-m", "bertscore_beam", "score", "--input", str(dump)]
            command += ["--output", f"{folder}/out", "--workers", str(arguments.workers)]
            command += ["--split-rows", str(arguments.split_rows)]
            result = measure([*command, "--dry-run"] if only_plan else command)
            result["pairs_per_second"] = round(rows / result["seconds"], 1)
            about = {"benchmark": "job_memory", "rows": rows, "dry_run": only_plan}
            print(json.dumps({**about, "workers": arguments.workers, **result}), flush=True)


if __name__ == "__main__":
    main()
