"""What it costs to compare two runs of many rows, made without a model.

    python -m tests.benchmarks.comparisons --rows 10000000

Makes two runs, and compares them by file and position, and by key with groups and clusters; then
ranks the systems of one. Each comparison has a process of its own. One JSON line each: seconds, the
processor's seconds, and peak memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bertscore_beam.results.compare import compare_runs
from bertscore_beam.results.compare_options import CompareOptions
from tests.support.made_runs import made_run, many_rows

CASES = {
    "position": {},
    "key, groups, clusters": {
        "key": ("id",),
        "by": ("system", "language"),
        "cluster": "document",
    },
    "ranking of 4 systems": {"systems": (), "key": ("segment",), "cluster": "document"},
}


def main() -> None:
    """Make two runs and measure each case, or measure one case of runs that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case is not None:
        print(json.dumps(measure(given.folder, given.case)), flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="comparisons-") as folder:
        for number, name in enumerate(("before", "now")):
            rows = many_rows(given.rows, seed=number, shift=-0.002 * number)
            made_run(Path(folder) / name, {"a.parquet": rows})
        for case in CASES:
            words = [sys.executable, "-m", "tests.benchmarks.comparisons"]
            subprocess.run([*words, "--case", case, "--folder", folder], check=True)


def measure(folder: Path, case: str) -> dict[str, object]:
    """Return what a comparison costs."""
    options = dict(CASES[case])
    if "systems" not in options:
        options["against"] = (str(folder / "before"),)
    start = time.monotonic()
    compared = compare_runs(CompareOptions(run=str(folder / "now"), **options))
    return {
        "case": case,
        "pairs": compared.comparisons[0].whole.counts.pairs,
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(time.process_time(), 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
