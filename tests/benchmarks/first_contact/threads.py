"""Part 7: a job's work with 1, 2 and 4 threads, and the job itself."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq

from bertscore_core import BertScorer
from bertscore_core.tokens import Work
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.first_contact.report import Checks, stopwatch
from tests.benchmarks.models import BenchModel
from tests.benchmarks.texts import Pairs, mixed

LEAST_BUSY = 0.9
"""Share of the time in which the device must be at work, for the model that keeps it busy."""

SPLITS = 20


def run(checks: Checks, given: Given) -> None:
    """Score a dump by threads that share a scorer, as a worker of a cluster does."""
    large_rows, rows = (20, 100) if given.quick else (60_000, 100_000)
    if not given.on_gpu and not given.quick:
        large_rows, rows = 400, 2_000
    dtype = "float16" if given.on_gpu else "float32"
    dump = given.work / "rows.parquet"
    write_dump(dump, rows)
    model = given.large()
    scorer = given.scorer(model, dtype)
    best = 0.0
    ends = time.monotonic() + given.seconds - 35
    for parallel in ("true", "false"):
        for threads in (1, 2, 4):
            what = f"{model.name}, {threads} threads, tokenizers parallel {parallel}"
            if time.monotonic() > ends:
                checks.skip(what, "no time was left")
                continue
            with checks.guarded(what):
                busy = by_threads(checks, what, scorer, dump, threads, parallel, large_rows)
                best = max(best, busy)
    if given.on_gpu:
        why = f"{best:.0%} of the time at best; expected at least {LEAST_BUSY:.0%}"
        checks.check("the device is kept busy", best >= LEAST_BUSY, why, busy=best)
    else:
        checks.skip("the device is kept busy", "no CUDA device was asked for")
    del scorer
    with checks.guarded("the job"):
        whole_job(checks, given, given.minilm(), dump, dtype, rows)


def write_dump(path: Path, rows: int) -> None:
    """Write made-up pairs as one file with a row group for each split."""
    # A block is repeated under other names: to make 100,000 texts takes long.
    from tests.benchmarks.overhead import write_dump as write

    some = mixed(min(rows, 10_000), mean_tokens=30)
    left, right = [], []
    for copy in range(-(-rows // len(some))):
        left += [f"{text} {copy}" for text in some.candidates]
        right += [f"{text} {copy}" for text in some.references]
    write(path, Pairs(left[:rows], right[:rows]), max(rows // SPLITS, 1))


def by_threads(
    checks: Checks,
    what: str,
    scorer: BertScorer,
    dump: Path,
    threads: int,
    parallel: str,
    rows: int,
) -> float:
    """Read, tokenise and score splits; return how busy the device was, from 0 to 1."""
    os.environ["TOKENIZERS_PARALLELISM"] = parallel
    splits = range(pq.ParquetFile(dump).num_row_groups)
    weights = scorer.token_weights(None)

    def one(split: int) -> tuple[int, Work]:
        table = pq.ParquetFile(dump).read_row_group(split).slice(0, -(-rows // SPLITS))
        work = Work()
        tokens = scorer.tokenize(table["candidate"].to_pylist(), table["reference"].to_pylist())
        scorer.score_tokenized(tokens, weights, work)
        return len(table), work

    one(0)
    with ThreadPoolExecutor(threads) as pool, watched_device() as shares, stopwatch() as taken:
        found = list(pool.map(one, splits))
    work = sum((work for _, work in found), Work())
    scored = sum(count for count, _ in found)
    busy = sum(shares) / len(shares) if shares else None
    checks.note(
        what,
        pairs_per_second=scored / taken[0],
        tokens_per_second=work.tokens / taken[0],
        busy_by_nvidia_smi=busy,
        samples=len(shares),
        busy_by_counter=work.busy_seconds / taken[0],
    )
    return work.busy_seconds / taken[0] if busy is None else busy


@contextmanager
def watched_device() -> Iterator[list[float]]:
    """Give a list that fills with the device's utilisation, from 0 to 1, by nvidia-smi.

    That is the share of the last sixth of a second to second in which any kernel ran.
    """
    shares: list[float] = []
    if shutil.which("nvidia-smi") is None:
        yield shares
        return
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    process = subprocess.Popen(
        [*query, "--id=0", "--loop-ms=250"], stdout=subprocess.PIPE, text=True
    )

    def read() -> None:
        for line in process.stdout or ():
            shares.extend(int(text) / 100 for text in line.split() if text.isdigit())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield shares
    finally:
        process.terminate()
        process.wait()
        reader.join(5)


def part_files(output: Path) -> list[Path]:
    """Return the files of a job's parts, in their order; a folder may be named like its input."""
    return sorted(path for path in output.rglob("*.parquet") if path.is_file())


def whole_job(
    checks: Checks, given: Given, model: BenchModel, dump: Path, dtype: str, rows: int
) -> None:
    """Run the command itself, with one worker."""
    if find_spec("apache_beam") is None:
        checks.skip("the job", "Beam is not installed, and its wheels were not brought along")
        return
    output = given.work / "job"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "bertscore_beam", "score", "--input", str(dump), "--output"]
    command += [str(output), "--model", str(model.path), "--num-layers", str(model.shape.layers)]
    command += ["--device", given.device, "--dtype", dtype]
    started = time.perf_counter()
    with watched_device() as shares:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    written = sum(pq.read_metadata(path).num_rows for path in part_files(output))
    checks.check(
        "the job writes every row",
        done.returncode == 0 and written == rows,
        "" if written == rows else f"{written} of {rows} rows; {done.stderr[-300:]!r}",
        pairs_per_second_with_start=rows / seconds,
        seconds=seconds,
        busy_by_nvidia_smi=sum(shares) / len(shares) if shares else None,
    )
