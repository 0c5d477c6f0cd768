"""A job, its work by threads, and what it does when the GPU fails."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

from bertscore_core import BertScorer
from bertscore_core.work import Work
from tests.benchmarks.command import ends_of_parts, steady_seconds, write_pair_groups
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.harness import Recorder
from tests.benchmarks.models import BenchModel
from tests.benchmarks.texts import mixed
from tests.support.dumps import read_output
from tests.support.dying import CUDA, dying_environment

LEAST_BUSY = 0.9
"""Share of the time in which the device must be at work, for the model that keeps it busy."""

SPLITS = 20


def write_rows(dump: Path, rows: int) -> None:
    """Write a dump of distinct texts: a block under other names, since to make texts takes long."""
    some = mixed(min(rows, 10_000), mean_tokens=30)
    names = range(-(-rows // len(some[0])))
    left, right = ([f"{text} {name}" for name in names for text in side][:rows] for side in some)
    write_pair_groups(dump, (left, right), max(rows // SPLITS, 1))


def job(recorder: Recorder, given: Given) -> None:
    """Run the command itself, start included, with each model; say how busy the device was."""
    rows = 150_000 if given.on_gpu and not given.quick else 100
    dump, output = given.work / "rows.parquet", given.work / "job"
    write_rows(dump, rows)
    for model in dict.fromkeys((given.large(), given.minilm())):
        what = f"the job, {model.name}, {given.half}, {rows} rows"
        with recorder.guarded(what):
            before, begun = os.times(), time.perf_counter()
            done = run_job(given, model, dump, output, "--dtype", given.half)
            seconds, after = time.perf_counter() - begun, os.times()
            written = 0 if done.returncode else len(read_output(output))
            passed = written == rows
            why = None if passed else f"{written} of {rows} rows; {_why(done)}"
            figures = figures_of(output) if passed else {}
            cpu = sum(after[2:4]) - sum(before[2:4])  # of children that have ended
            figures |= {"pairs_per_second": rows / seconds, "cpu_us_per_pair": 1e6 * cpu / rows}
            recorder.check(what, passed, why, seconds=[seconds], **figures)


def figures_of(output: Path) -> dict[str, float]:
    """Return what a run says of its device, and its rate from the first part to the last."""
    summary = json.loads((output / "_summary.json").read_text(encoding="utf-8"))
    names = [name for name in summary if name.startswith(("device_", "host_"))]
    ends = ends_of_parts(output)
    steady = {} if len(ends) < 2 else {"steady_pairs_per_second": 1 / steady_seconds(ends, 1)}
    return {name: summary[name] for name in (*names, "scoring_seconds")} | steady


def threads(recorder: Recorder, given: Given) -> None:
    """Score a dump with 1, 2 and 4 threads that share a scorer, as a worker of a cluster does."""
    large_rows, rows = (20, 100) if given.quick else (60_000, 100_000)
    if not given.on_gpu and not given.quick:
        large_rows, rows = 400, 2_000
    dtype = "float16" if given.on_gpu else "float32"
    dump = given.work / "rows-of-threads.parquet"
    write_rows(dump, rows)
    model = given.large()
    scorer = given.scorer(model, dtype)
    best = 0.0
    ends = time.monotonic() + given.seconds - 20
    for parallel in ("true", "false"):
        for number in (1, 2, 4):
            what = f"{model.name}, {number} threads, tokenizers parallel {parallel}"
            if time.monotonic() > ends:
                recorder.skip(what, "no time was left")
                continue
            os.environ["TOKENIZERS_PARALLELISM"] = parallel
            with recorder.guarded(what):
                best = max(best, by_threads(recorder, what, scorer, dump, number, large_rows))
    if given.on_gpu:
        why = f"{best:.0%} of the time at best; expected at least {LEAST_BUSY:.0%}"
        recorder.check("the device is kept busy", best >= LEAST_BUSY, why, busy=best)
    else:
        recorder.skip("the device is kept busy")


def by_threads(
    recorder: Recorder, what: str, scorer: BertScorer, dump: Path, number: int, rows: int
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
    started = time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        found = list(pool.map(score_split, splits))
    seconds = time.perf_counter() - started
    work = sum((work for _, work in found), Work())
    rates = {"tokens_per_second": work.tokens / seconds, "busy": work.busy_seconds / seconds}
    pairs = sum(count for count, _ in found)
    recorder.add(what=what, pairs_per_second=pairs / seconds, **rates)
    return rates["busy"]


def run_job(
    given: Given, model: BenchModel, dump: Path, output: Path, *flags: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command."""
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


def faults(recorder: Recorder, given: Given) -> None:
    """Break the device in the middle of a job that may be restarted: the night goes on."""
    folder = given.work / "poison"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    dump, plain, broken = (folder / name for name in ("rows.parquet", "plain", "broken"))
    write_pair_groups(dump, mixed(30), 10)
    flags = ("--split-rows", "10", "--json")
    undisturbed = run_job(given, given.minilm(), dump, plain, *flags)
    fine = undisturbed.returncode == 0
    recorder.check("a job that nothing happens to", fine, _why(undisturbed))
    dying = dying_environment(folder, broken, [CUDA])
    flags += ("--restarts", "2")
    done = run_job(given, given.minilm(), dump, broken, *flags, **dying)
    summary = broken / "_summary.json"
    restarts = json.loads(summary.read_text()).get("restarts", 0) if summary.exists() else 0
    recorder.check(
        "a broken device: the process leaves and the run goes on",
        done.returncode == 0 and (folder / "death-0").exists() and restarts == 1,
        f"{restarts} restarts, expected 1; {_why(done)}",
    )
    same = read_output(broken).equals(read_output(plain))
    recorder.check("a broken device: the same scores", same)


def _why(done: "subprocess.CompletedProcess[str]") -> str:
    """Say how a job has ended, in its own words if it has failed."""
    said = f"; {done.stderr[-300:]!r}" if done.returncode else ""
    return f"status {done.returncode}{said}"
