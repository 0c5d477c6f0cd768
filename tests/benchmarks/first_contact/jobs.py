"""Parts 7 and 8: a job's work by threads, the job itself, and what it does when the GPU fails."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from bertscore_core import BertScorer
from bertscore_core.tokens import Work
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.first_contact.report import Checks, stopwatch
from tests.benchmarks.overhead import write_dump
from tests.benchmarks.texts import Pairs, mixed
from tests.support.dumps import read_output
from tests.support.dying import CUDA, dying_environment

LEAST_BUSY = 0.9
"""Share of the time in which the device must be at work, for the model that keeps it busy."""

SPLITS = 20

TOLERANCE = 1e-5
"""How far F1 in float32 may move with other batches."""

_NO_BEAM = "Beam is not installed, and its wheels were not brought along"


def threads(checks: Checks, given: Given) -> None:
    """Score a dump with 1, 2 and 4 threads that share a scorer, as a worker of a cluster does."""
    large_rows, rows = (20, 100) if given.quick else (60_000, 100_000)
    if not given.on_gpu and not given.quick:
        large_rows, rows = 400, 2_000
    dtype = "float16" if given.on_gpu else "float32"
    dump = given.work / "rows.parquet"
    # A block is repeated under other names: to make 100,000 texts takes long.
    some = mixed(min(rows, 10_000), mean_tokens=30)
    names = range(-(-rows // len(some)))
    sides = ([f"{text} {name}" for name in names for text in side][:rows] for side in some.sides)
    write_dump(dump, Pairs(*sides), max(rows // SPLITS, 1))
    model = given.large()
    scorer = given.scorer(model, dtype)
    best = 0.0
    ends = time.monotonic() + given.seconds - 35
    for parallel in ("true", "false"):
        for number in (1, 2, 4):
            what = f"{model.name}, {number} threads, tokenizers parallel {parallel}"
            if time.monotonic() > ends:
                checks.skip(what, "no time was left")
                continue
            os.environ["TOKENIZERS_PARALLELISM"] = parallel
            with checks.guarded(what):
                best = max(best, by_threads(checks, what, scorer, dump, number, large_rows))
    if given.on_gpu:
        why = f"{best:.0%} of the time at best; expected at least {LEAST_BUSY:.0%}"
        checks.check("the device is kept busy", best >= LEAST_BUSY, why, busy=best)
    else:
        checks.without_gpu("the device is kept busy")
    del scorer
    with checks.guarded("the job"):
        whole_job(checks, given, dump, dtype, rows)


def by_threads(
    checks: Checks, what: str, scorer: BertScorer, dump: Path, number: int, rows: int
) -> float:
    """Read, tokenise and score splits; return how busy the device was, from 0 to 1."""
    splits = range(pq.ParquetFile(dump).num_row_groups)
    weights = scorer.token_weights(None)

    def score_split(split: int) -> tuple[int, Work]:
        table = pq.ParquetFile(dump).read_row_group(split).slice(0, -(-rows // SPLITS))
        work = Work()
        tokens = scorer.tokenize(table["candidate"].to_pylist(), table["reference"].to_pylist())
        scorer.score_tokenized(tokens, weights, work)
        return len(table), work

    score_split(0)
    with ThreadPoolExecutor(number) as pool, stopwatch() as taken:
        found = list(pool.map(score_split, splits))
    work = sum((work for _, work in found), Work())
    busy = work.busy_seconds / taken[0]
    checks.note(
        what,
        pairs_per_second=sum(count for count, _ in found) / taken[0],
        tokens_per_second=work.tokens / taken[0],
        busy=busy,
    )
    return busy


def run_job(
    given: Given, dump: Path, output: Path, *flags: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command on the small model."""
    model = given.minilm()
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "bertscore_beam", "score", "--input", str(dump), "--output"]
    command += [str(output), "--model", str(model.path), "--num-layers", str(model.shape.layers)]
    return subprocess.run(
        [*command, "--device", given.device, *flags],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def whole_job(checks: Checks, given: Given, dump: Path, dtype: str, rows: int) -> None:
    """Run the command itself, with one worker."""
    if find_spec("apache_beam") is None:
        checks.skip("the job", _NO_BEAM)
        return
    output = given.work / "job"
    with stopwatch() as taken:
        done = run_job(given, dump, output, "--dtype", dtype)
    written = 0 if done.returncode else len(read_output(output))
    checks.check(
        "the job writes every row",
        written == rows,
        "" if written == rows else f"{written} of {rows} rows; {_why(done)}",
        pairs_per_second_with_start=rows / taken[0],
        seconds=taken[0],
    )


def faults(checks: Checks, given: Given) -> None:
    """Too little memory gives the same scores, and a broken device does not end the night."""
    with checks.guarded("too little memory"):
        too_little_memory(checks, given)
    with checks.guarded("a broken device"):
        broken_device(checks, given)


def too_little_memory(checks: Checks, given: Given) -> None:
    """Score with all memory, then with so little that batches must be halved."""
    if not given.on_gpu:
        checks.without_gpu("too little memory")
        return
    scorer = given.scorer(given.minilm(), "float32", max_batch_tokens=1 << 18)
    tokens = scorer.tokenize(*mixed(40_000, mean_tokens=30).sides)
    weights = scorer.token_weights(None)
    free = Work()
    torch.cuda.reset_peak_memory_stats()
    expected = scorer.score_tokenized(tokens, weights, free).f1
    peak = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    squeezed = Work()
    torch.cuda.set_per_process_memory_fraction(peak / 3 / total)
    try:
        found = scorer.score_tokenized(tokens, weights, squeezed).f1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    apart = float(np.abs(found - expected).max())
    checks.check(
        "too little memory: the same scores in smaller batches",
        apart <= TOLERANCE and squeezed.retries > 0 and free.retries == 0,
        f"F1 differs by {apart:.2g} (expected {TOLERANCE:g}) after {squeezed.retries} retries",
        peak_mb=peak / 1e6,
        allowed_mb=peak / 3e6,
        retries=squeezed.retries,
        batches=squeezed.batches,
    )


def broken_device(checks: Checks, given: Given) -> None:
    """Break the device in the middle of a job that may be restarted."""
    if find_spec("apache_beam") is None:
        checks.skip("a broken device", _NO_BEAM)
        return
    folder = given.work / "poison"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    dump, plain, broken = (folder / name for name in ("rows.parquet", "plain", "broken"))
    write_dump(dump, mixed(30), 10)
    flags = ("--split-rows", "10", "--json")
    undisturbed = run_job(given, dump, plain, *flags)
    checks.check("a job that nothing happens to", undisturbed.returncode == 0, _why(undisturbed))
    dying = dying_environment(folder, broken, [CUDA])
    done = run_job(given, dump, broken, *flags, "--restarts", "2", **dying)
    summary = broken / "_summary.json"
    restarts = json.loads(summary.read_text()).get("restarts", 0) if summary.exists() else 0
    checks.check(
        "a broken device: the process leaves and the run goes on",
        done.returncode == 0 and (folder / "death-0").exists() and restarts == 1,
        f"{restarts} restarts, expected 1; {_why(done)}",
    )
    same = read_output(broken).equals(read_output(plain))
    checks.check("a broken device: the same scores", same)


def _why(done: "subprocess.CompletedProcess[str]") -> str:
    """Say how a job has ended, in its own words if it has failed."""
    said = f"; {done.stderr[-300:]!r}" if done.returncode else ""
    return f"status {done.returncode}{said}"
