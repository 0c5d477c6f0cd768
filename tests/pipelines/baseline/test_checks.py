"""The checks that a table's description lists."""

import numpy as np
import pytest

from bertscore_beam.baseline import CHECKS, FEW_PAIRS, check_moments
from bertscore_core.stats import Moments


def moments(pairs: int, hosts: int | None = 200, shifts: tuple[float, ...] = (0, 0, 0)) -> Moments:
    rng = np.random.default_rng(0)
    precision, recall = rng.normal(0.5, 0.03, (2, 4, pairs))
    f1 = 2 * precision * recall / (precision + recall)
    scores = (np.stack([precision, recall, f1], axis=-1) + shifts).astype(np.float32)
    return Moments.of(scores, None if hosts is None else rng.integers(0, hosts, (pairs, 2)))


def test_every_check_is_made_of_enough_pairs():
    checks = check_moments(moments(FEW_PAIRS))
    assert [(check.name, check.passed) for check in checks] == [(name, True) for name in CHECKS]


@pytest.mark.parametrize("pairs", [1, FEW_PAIRS - 1])
def test_checks_of_too_few_pairs_are_listed_as_not_made(pairs):
    checks = check_moments(moments(pairs))
    assert [(check.name, check.passed) for check in checks] == [(name, None) for name in CHECKS]
    assert {check.found for check in checks} == {f"not looked at: too few pairs: {pairs:,}"}


@pytest.mark.parametrize(
    ("hosts", "passed", "found"),
    [
        (None, None, "not looked at: hosts are not known"),
        (1, False, "as good as 1.0 hosts"),
        (10, False, "as good as 10.0 hosts"),
        (100, True, "as good as 9"),
    ],
)
def test_few_hosts_are_said(hosts, passed, found):
    *others, about_hosts = check_moments(moments(FEW_PAIRS, hosts))
    assert all(check.passed for check in others)
    assert about_hosts.passed is passed
    assert about_hosts.found.startswith(found)


@pytest.mark.parametrize(
    ("shifts", "failed"),
    [
        ((0.02, 0, 0.01), 0),  # precision above recall
        ((0, 0.02, 0.01), 0),
        ((0, 0, 0.01), 1),  # F1 above the mean of both
        ((0, 0, -0.03), 1),
    ],
)
def test_scores_that_random_pairs_cannot_have_fail_a_check(shifts, failed):
    checks = check_moments(moments(FEW_PAIRS, shifts=shifts))
    assert [check.passed for check in checks].index(False) == failed
