"""Check what holds for the scores of independent random pairs."""

from dataclasses import dataclass

import numpy as np

from bertscore_core.moments import Moments

FEW_PAIRS = 1_000
"""With fewer pairs the checks are not made, since they would say too little."""
CHECKS = (
    "precision equals recall",
    "f1 is a little below the mean of both",
    "groups differ as much as single pairs say",
)

_LARGEST_GAP = 4.0
"""Standard errors that a difference of expectation zero may have: more of them 1 in 16,000."""
_JACKKNIFE_RANGE = (0.6, 1.6)
"""Range of the median ratio of jackknife to naive error for independent pairs. Of 64 groups one
layer's ratio has a standard deviation of 9%."""
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
    """Check what holds for the scores of independent random pairs.

    Random pairs are exchangeable, so precision and recall have one expectation, and groups of pairs
    differ as much as their spread says.

    Returns:
        Each of `CHECKS`, made or not.
    """
    if moments.num_pairs < FEW_PAIRS:
        reason = f"too few pairs: {moments.num_pairs:,}"
        return [_not_made(name, reason) for name in CHECKS]
    checks = (_check_gap, _check_f1, _check_groups)
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


def _check_groups(name: str, moments: Moments) -> Check:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = moments.jackknife_errors / moments.standard_errors
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios):
        return _not_made(name, "no layer has an error of both kinds")
    ratio = float(np.median(ratios))
    low, high = _JACKKNIFE_RANGE
    return Check(
        name=name,
        passed=low <= ratio <= high,
        found=f"jackknife error {ratio:.2f} of the naive one in the median",
        expected=f"{low:g} to {high:g}",
    )


def _not_made(name: str, reason: str) -> Check:
    return Check(
        name=name,
        passed=None,
        found=f"not looked at: {reason}",
        expected=f"at least {FEW_PAIRS:,} pairs that differ",
    )
