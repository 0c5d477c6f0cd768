"""How fast a job is on Prism, against Beam's FnApiRunner with one worker.

    python -m tests.benchmarks.prism --prism PATH

Scores one dump of made-up English pairs in turn on both runners, without idf and with corpus idf.
Each run has one worker process: a child of the command, or one of a worker pool. The seconds are of
scoring, as the summary states them; CPU seconds are of the command, the pool and Prism together,
start-up included.
"""

import argparse
import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.harness import Recorder, add_out, interleave
from tests.support.crawl_texts import sentences
from tests.support.workers import start_pool

MODEL = "all-MiniLM-L6-v2"


def main() -> None:
    """Score in turn, and record seconds and CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prism", required=True, help="the program")
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=3)
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("prism", given.out)
    with TemporaryDirectory() as name:
        folder = Path(name)
        texts = sentences("en", 2 * given.rows, seed=4)
        pairs = {"candidate": texts[: given.rows], "reference": texts[given.rows :]}
        pq.write_table(pa.table(pairs), folder / "dump.parquet", row_group_size=500)
        cpu: dict[str, list[float]] = {}
        variants = {
            f"{runner}, idf {idf}": partial(run, folder, cpu, runner, idf, given.prism)
            for idf in ("none", "corpus")
            for runner in ("FnApiRunner", "Prism")
        }
        seconds = interleave(variants, given.rounds)
    for what, taken in seconds.items():
        other = seconds[what.replace("Prism", "FnApiRunner")]
        recorder.add(
            model=MODEL,
            what=what,
            n=given.rows,
            seconds=taken,
            ratio=median(other) / median(taken),
            cpu_seconds=median(cpu[what]),
        )


def run(folder: Path, cpu: dict[str, list[float]], runner: str, idf: str, prism: str) -> float:
    """Run one job and return the seconds of its summary."""
    before = cpu_seconds()
    pool = start_pool() if runner == "Prism" else None
    out = folder / f"out-{len(cpu.get(f'{runner}, idf {idf}', []))}-{runner}-{idf}"
    words = ["score", "--input", str(folder / "dump.parquet"), "--output", str(out), "--quiet"]
    words += ["--device", "cpu", "--split-rows", "500", "--idf", idf, "--model", MODEL]
    if pool is not None:
        words += ["--", "--runner=PrismRunner", f"--prism_location={prism}"]
        words += ["--environment_type=EXTERNAL", f"--environment_config={pool.address}"]
    try:
        subprocess.run(
            [sys.executable, "-m", "bertscore_beam", *words], check=True, capture_output=True
        )
    finally:
        if pool is not None:
            pool.process.terminate()  # it waits for its workers, whose seconds count then
            pool.process.wait(60)
            pool.kill()
    cpu.setdefault(f"{runner}, idf {idf}", []).append(cpu_seconds() - before)
    taken: float = json.loads((out / "_summary.json").read_text())["seconds"]
    return taken


def cpu_seconds() -> float:
    """Return the CPU seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
