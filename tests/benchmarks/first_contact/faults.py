"""Part 8: too little memory gives the same scores, and a broken device does not end the night."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from bertscore_core.tokens import Work
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.first_contact.report import Checks
from tests.benchmarks.first_contact.threads import part_files
from tests.benchmarks.overhead import write_dump
from tests.benchmarks.texts import mixed
from tests.support.dying import CUDA, dying_environment

TOLERANCE = 1e-5
"""How far F1 in float32 may move with other batches."""


def run(checks: Checks, given: Given) -> None:
    """Look at both."""
    with checks.guarded("too little memory"):
        too_little_memory(checks, given)
    with checks.guarded("a broken device"):
        broken_device(checks, given)


def too_little_memory(checks: Checks, given: Given) -> None:
    """Score with all memory, then with so little that batches must be halved."""
    if not given.on_gpu:
        checks.skip("too little memory", "no CUDA device was asked for")
        return
    scorer = given.scorer(given.minilm(), "float32", max_batch_tokens=1 << 18)
    pairs = mixed(40_000, mean_tokens=30)
    tokens = scorer.tokenize(pairs.candidates, pairs.references)
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
        checks.skip(
            "a broken device", "Beam is not installed, and its wheels were not brought along"
        )
        return
    folder = given.work / "poison"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows = 30
    write_dump(folder / "rows.parquet", mixed(rows), 10)
    plain = score(given, folder, "plain", {}, [])
    checks.check("a job that nothing happens to", plain.returncode == 0, _why(plain))
    dying = dying_environment(folder, folder / "broken", [CUDA])
    done = score(given, folder, "broken", dying, ["--restarts", "2"])
    summary = folder / "broken" / "_summary.json"
    restarts = json.loads(summary.read_text()).get("restarts", 0) if summary.exists() else 0
    checks.check(
        "a broken device: the process leaves and the run goes on",
        done.returncode == 0 and (folder / "death-0").exists() and restarts == 1,
        f"{restarts} restarts, expected 1; {_why(done)}",
    )
    same = scores_of(folder / "plain") == scores_of(folder / "broken")
    checks.check("a broken device: the same scores", same and plain.returncode == 0)


def score(
    given: Given, folder: Path, name: str, environment: dict[str, str], flags: list[str]
) -> "subprocess.CompletedProcess[str]":
    """Run a small job."""
    model = given.minilm()
    command = [sys.executable, "-m", "bertscore_beam", "score"]
    command += ["--input", str(folder / "rows.parquet")]
    command += ["--output", str(folder / name), "--model", str(model.path), "--split-rows", "10"]
    command += ["--num-layers", str(model.shape.layers), "--device", given.device, "--json"]
    return subprocess.run(
        [*command, *flags],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def scores_of(output: Path) -> list[dict[str, object]]:
    """Return the rows that a job has written, in the order of its parts."""
    return [row for path in part_files(output) for row in pq.read_table(path).to_pylist()]


def _why(done: "subprocess.CompletedProcess[str]") -> str:
    """Say how a job has ended, in its own words if it has failed."""
    said = f"; {done.stderr[-300:]!r}" if done.returncode else ""
    return f"status {done.returncode}{said}"
