"""Check what holds for the scores of random pairs."""

from dataclasses import dataclass

import numpy as np

from bertscore_core.moments import Moments

FEW_PAIRS = 1_000
"""With fewer pairs the checks are not made, since they would say too little."""
CHECKS = (
    "precision equals recall",
    "f1 is a little below the mean of both",
    "enough hosts for an error",
)

_LARGEST_GAP = 4.0
"""Standard errors that a difference of expectation zero may have: more of them 1 in 16,000."""
_FEWEST_HOSTS = 20.0
"""Hosts of equal size below which the standard error is itself uncertain: by a sixth at 20."""
_LARGEST_MEAN_DROP = 0.02
"""Most that F1 is below the mean of precision and recall; published tables have at most 0.009."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that holds for a sound baseline.

    Attributes:
        name: What is checked.
        passed: Whether it holds; None where it was not checked.
        found: What was found, or why it was not checked.
        expected: What was expected.
    """

    name: str
    passed: bool | None
    found: str
    expected: str


def check_moments(moments: Moments) -> list[Check]:
    """Check what holds for the scores of random pairs.

    Random pairs are exchangeable, so precision and recall have one expectation. Their standard
    error is worked out from differences between hosts, so there must be some.

    Returns:
        Each of `CHECKS`, made or not.
    """
    if moments.num_pairs < FEW_PAIRS:
        reason = f"too few pairs: {moments.num_pairs:,}"
        return [_not_made(name, reason, f"at least {FEW_PAIRS:,} pairs") for name in CHECKS]
    checks = (_check_gap, _check_f1, _check_hosts)
    return [check(name, moments) for name, check in zip(CHECKS, checks, strict=True)]


def _check_gap(name: str, moments: Moments) -> Check:
    # A layer's difference and its error may both be zero, as for the embeddings of single tokens.
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.nan_to_num(np.abs(moments.gaps) / moments.gap_errors).max()
    return Check(
        name=name,
        passed=bool(gap <= _LARGEST_GAP),
        found=f"{gap:.1f} standard errors apart at most",
        expected=f"at most {_LARGEST_GAP:g}",
    )


def _check_f1(name: str, moments: Moments) -> Check:
    means = moments.means
    drop = (means[:, :2].mean(axis=1) - means[:, 2]).max()
    lift = (means[:, 2] - means[:, :2].mean(axis=1)).max()
    return Check(
        name=name,
        passed=bool(lift <= 1e-6 and drop <= _LARGEST_MEAN_DROP),
        found=f"{drop:.4f} below their mean at most, {max(lift, 0.0):.1g} above it",
        expected=f"at most {_LARGEST_MEAN_DROP:g} below, never above",
    )


def _check_hosts(name: str, moments: Moments) -> Check:
    if not moments.knows_hosts:
        return _not_made(name, "hosts are not known", "sentences with their hosts")
    hosts = moments.effective_hosts
    return Check(
        name=name,
        passed=hosts >= _FEWEST_HOSTS,
        found=f"as good as {hosts:.1f} hosts of equal size",
        expected=f"at least {_FEWEST_HOSTS:g}",
    )


def _not_made(name: str, reason: str, needed: str) -> Check:
    return Check(name=name, passed=None, found=f"not looked at: {reason}", expected=needed)
