"""The standard error of a mean over random pairs of sentences, which knows hosts.

Sentences of one host resemble each other: its topic, its style, its templates. So two pairs that
share a host are not independent, and the error of their mean is larger than the spread of the pairs
says. A pair has two sentences, and so touches two hosts: the pairs are dyads.

**The estimate.** With e_p what the score of pair p is above the mean, the variance of the sum is
the sum of e_p e_q over all p and q that share a host, p = q included; pairs that share none add
nothing on average. (Aronow, Samii and Assenova 2015; Cameron and Miller 2014.) With S_h the sum of
e_p over the pairs that touch host h, the sum of S_h squared counts each product once for every host
that the two share. A pair shares two with itself, so one e_p squared is taken away again:

    variance of the sum = sum over h of S_h^2 - sum over p of e_p^2

Two different pairs that share both hosts are counted twice. In a random matching they are rare, and
the small-sample factors below account for them.

**Buckets.** Hosts are put into `HOST_BUCKETS` buckets by a hash, and S is kept by bucket. Hosts of
a bucket are independent of each other, so their products add nothing on average, only noise: the
standard error itself has a standard error of 9% where hosts do not matter. Where G equal hosts
decide it, that is at least 1 / sqrt(2 (G - 1)): 16% for 20 hosts. In return the sums are small, and
parts of the pairs add up exactly.

**Small samples.** Each e_p is taken from the mean of the same scores, which makes S too small. For
scores mean + effect of one host + effect of the other + noise, all independent, two factors make
the estimate unbiased: S_h^2 is divided by the share of the pairs that do not touch h, and the part
of the hosts multiplied by `_host_factor`; for equal hosts it is G / (G - 1).

**Bounds.** Hosts can only add to the variance, so an estimate below that of independent pairs is
noise, and theirs is returned. So where hosts do not matter the error is a little too large: by 3%
with many hosts, by 10% with 20. With one host, or one that all pairs touch, there is no error: it
is NaN. Few hosts give an error, but a rough one: see `effective_hosts`.

References:
    P. M. Aronow, C. Samii, V. A. Assenova, "Cluster-robust variance estimation for dyadic data",
    Political Analysis 23 (2015). A. C. Cameron, D. L. Miller, "Robust inference for dyadic data"
    (2014). The factors for small samples are worked out here, from the model above.
"""

import numpy as np
import numpy.typing as npt

from bertscore_core.tokens import IntArray

Doubles = npt.NDArray[np.float64]

HOST_BITS = 8
"""Bits of the hash of a host that name its bucket."""
HOST_BUCKETS = 1 << HOST_BITS
"""Number of buckets that hosts may belong to: 0 to 255."""


def host_robust_errors(
    sides: IntArray, counts: IntArray, apart: Doubles, naive: Doubles
) -> Doubles:
    """Return the standard error of the means of pairs that share hosts.

    Args:
        sides: Sentences of each bucket in the pairs. Shape (K,), sum 2 N.
        counts: Pairs that touch each bucket. Shape (K,).
        apart: Sum of score minus mean over the pairs that touch each bucket. Shape (K, ...).
        naive: Standard error of the means if pairs were independent. Shape (...).

    Returns:
        Shape as `naive`; NaN where there is no error, and never below `naive`.
    """
    pairs = int(sides.sum()) // 2
    if pairs < 2 or len(sides) < 2 or (counts == pairs).any():
        return np.full(naive.shape, np.nan)
    factor = _host_factor(sides / (2 * pairs))
    # With independent pairs S^2 / untouched is on average (pairs of the bucket) * (their variance).
    untouched = 1 - counts / pairs
    weights = (1 / untouched).reshape(-1, *[1] * naive.ndim)
    shared = factor * (weights * apart**2).sum(axis=0)
    # Taken away: what independent pairs would give too much. Their variance is naive^2 * pairs.
    own = (factor * counts.sum() - pairs) * pairs * naive**2
    variance = (shared - own) / pairs**2
    return np.asarray(np.sqrt(np.maximum(variance, naive**2)), dtype=np.float64)


def effective_hosts(sides: IntArray) -> float:
    """Return how many hosts of equal size would give the same error, up to `HOST_BUCKETS`.

    Args:
        sides: As for `host_robust_errors`.

    Returns:
        The number; NaN without sentences whose hosts are known.
    """
    total = sides.sum()
    return float(total**2 / (sides.astype(np.float64) ** 2).sum()) if total else float("nan")


def _host_factor(shares: Doubles) -> float:
    """Return how much larger the hosts' part of the variance is than what its estimate shows.

    Args:
        shares: Share of each bucket in the sentences, at least two of them. Shape (K,), sum 1.
    """
    squares = float((shares**2).sum())
    # Of a bucket's effect u, the share (u - sum of v u) remains: 1 - 2 v + sum of v^2 on average.
    remaining = float((shares**2 * (1 - 2 * shares + squares)).sum())
    return squares / remaining
