"""The checks that a table's description lists."""

import numpy as np
import pytest

from bertscore_core.moments import GROUPS, Moments
from pipelines.baseline.checks import CHECKS, FEW_PAIRS, check_moments


def moments(pairs: int, spread: float = 0.03) -> Moments:
    rng = np.random.default_rng(0)
    precision, recall = rng.normal(0.5, spread, (2, 4, pairs))
    f1 = 2 * precision * recall / (precision + recall)
    scores = np.stack([precision, recall, f1], axis=-1)
    return Moments.of(scores.astype(np.float32), rng.integers(0, GROUPS, pairs))


def test_every_check_is_made_of_enough_pairs():
    checks = check_moments(moments(FEW_PAIRS))
    assert [(check.name, check.passed) for check in checks] == [(name, True) for name in CHECKS]


@pytest.mark.parametrize("pairs", [1, FEW_PAIRS - 1])
def test_checks_of_too_few_pairs_are_listed_as_not_made(pairs):
    checks = check_moments(moments(pairs))
    assert [(check.name, check.passed) for check in checks] == [(name, None) for name in CHECKS]
    assert {check.found for check in checks} == {f"not looked at: too few pairs: {pairs:,}"}


def test_check_that_finds_no_spread_is_listed_as_not_made():
    checks = check_moments(moments(FEW_PAIRS, spread=0.0))
    assert [check.name for check in checks] == list(CHECKS)
    assert checks[-1].passed is None
    assert "no layer has an error" in checks[-1].found
