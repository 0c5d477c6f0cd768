"""Part 3: every family in every number format, against float32 on the CPU."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.report import Checks
from tests.golden import texts
from tests.support.tiny_models import FAMILIES, LAYERS, MAX_LENGTH, build_tiny_model, lacks

TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-3, "float16": 1e-3}
"""How far F1 may be from float32 on the CPU."""

QUICK = ("bert", "roberta", "t5")


def run(checks: Checks, given: Given) -> None:
    """Score ragged batches with each family; the differences of all are in the figures."""
    pairs = [pair for pair in texts.FAMILY_PAIRS if pair.candidate and pair.reference]
    left, right = [pair.candidate for pair in pairs], [pair.reference for pair in pairs]
    ends = time.monotonic() + given.seconds - 10
    with TemporaryDirectory() as root:
        for family in QUICK if given.quick else FAMILIES:
            if time.monotonic() > ends:
                checks.check(family, passed=False, why="no time was left for this family")
                continue
            if lacking := lacks(family):
                checks.skip(family, lacking)
                continue
            with checks.guarded(family):
                folder = build_tiny_model(family, Path(root) / family)
                expected = score(folder, "cpu", "float32", left, right)
                for dtype in given.dtypes():
                    with checks.guarded(f"{family}, {dtype}"):
                        found = score(folder, given.device, dtype, left, right)
                        compare(checks, f"{family}, {dtype}", dtype, found, expected)


def score(folder: Path, device: str, dtype: str, left: list[str], right: list[str]) -> np.ndarray:
    """Return F1 of a family's tiny model. Shape (pairs,)."""
    config = ScorerConfig(
        model=str(folder),
        num_layers=LAYERS,
        max_length=MAX_LENGTH,
        device=device,
        backend="torch",
        dtype=dtype,
        # Several batches of different lengths, each with texts of several lengths.
        max_batch_tokens=512,
    )
    return BertScorer(config).score(left, right).f1


def compare(checks: Checks, what: str, dtype: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Check that scores agree; a number that is missing on one side alone does not."""
    same_gaps = bool((np.isnan(found) == np.isnan(expected)).all())
    largest = float(np.nanmax(np.abs(found - expected)))
    limit = TOLERANCES[dtype]
    checks.check(
        what,
        same_gaps and largest <= limit and float(np.nanstd(expected)) > 0,
        f"F1 differs by at most {largest:.2g}; expected {limit:g}",
        largest=largest,
        mean=float(np.nanmean(np.abs(found - expected))),
    )
