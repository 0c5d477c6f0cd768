"""What a report costs: `bertscore-beam report` over a run of made-up scores.

    python -m tests.benchmarks.report_page --rows 10000000

Makes two runs without a model, then writes pages about one: alone, by system and language, and
compared with the other one. Each prints one JSON line with its seconds, the processor's, the
largest memory and the size of the page. Start-up counts.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.made_runs import made_run, many_rows

CASES = {
    "alone": [],
    "by system and language, with texts": ["--by", "system", "language", "--with-texts"],
    "against another run": ["--against"],
}


def measure(run: Path, arguments: list[str]) -> dict[str, float]:
    """Write one page in a process of its own, and return what it cost."""
    page = run.parent / "report.html"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "bertscore_beam",
        "report",
        str(run),
        *arguments,
        "-o",
        str(page),
    ]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "processor": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        # Of the largest process so far: the cases are in the order of what they need.
        "largest_memory_mib": round(after.ru_maxrss / 1024),
        "page_kb": round(page.stat().st_size / 1000),
    }


def main(rows: int) -> None:
    """Make the runs, and measure each case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [
            made_run(
                folder / f"night-{seed}", {"rows.parquet": many_rows(rows, seed=seed)}, digest=False
            )
            for seed in range(2)
        ]
        for words, arguments in CASES.items():
            more = [str(runs[0])] if arguments == ["--against"] else []
            print(
                json.dumps({"rows": rows, "case": words, **measure(runs[1], [*arguments, *more])})
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    main(parser.parse_args().rows)
