"""Statistics of many scores of random pairs: means, spreads and errors.

Scores are rounded to steps of 2**-36 and added up as integers. So the same scores give the same
bits, however they are cut into parts and in whatever order the parts are merged. A sum of floats
would not. Sums are also kept by host, since pairs that share a host resemble each other: see
`_host_robust_errors`.

    part 1 + part 2 + ... = Moments  ->  means, errors  ->  Baseline
"""

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from bertscore_core.baseline import Baseline
from bertscore_core.errors import InputError, load_json
from bertscore_core.stats.score_statistics import SLACK, Doubles, effective_number, is_clipped
from bertscore_core.sums import Sums, summed_by_key
from bertscore_core.tokens import FloatArray, IntArray

# The standard error of a mean over random pairs of sentences, which knows hosts.
#
# Sentences of one host resemble each other: its topic, its style, its templates. So two pairs that
# share a host are not independent, and the error of their mean is larger than the spread of the
# pairs says. A pair has two sentences, and so touches two hosts: the pairs are dyads.
#
# **The estimate.** With e_p what the score of pair p is above the mean, the variance of the sum is
# the sum of e_p e_q over all p and q that share a host, p = q included; pairs that share none add
# nothing on average. (Aronow, Samii and Assenova 2015; Cameron and Miller 2014.) With S_h the sum
# of e_p over the pairs that touch host h, the sum of S_h squared counts each product once for every
# host that the two share. A pair shares two with itself, so one e_p squared is taken away again:
#
#     variance of the sum = sum over h of S_h^2 - sum over p of e_p^2
#
# Two different pairs that share both hosts are counted twice. In a random matching they are rare,
# and the small-sample factors below account for them.
#
# **Buckets.** Hosts are put into `HOST_BUCKETS` buckets by a hash, and S is kept by bucket. Hosts
# of a bucket are independent of each other, so their products add nothing on average, only noise:
# the standard error itself has a standard error of 9% where hosts do not matter. Where G equal
# hosts decide it, that is at least 1 / sqrt(2 (G - 1)): 16% for 20 hosts. In return the sums are
# small, and parts of the pairs add up exactly.
#
# **Small samples.** Each e_p is taken from the mean of the same scores, which makes S too small.
# For scores mean + effect of one host + effect of the other + noise, all independent, two factors
# make the estimate unbiased: S_h^2 is divided by the share of the pairs that do not touch h, and
# the part of the hosts multiplied by `_host_factor`; for equal hosts it is G / (G - 1).
#
# **Bounds.** Hosts can only add to the variance, so an estimate below that of independent pairs is
# noise, and theirs is returned. So where hosts do not matter the error is a little too large: by 3%
# with many hosts, by 10% with 20. With one host, or one that all pairs touch, there is no error: it
# is NaN. Few hosts give an error, but a rough one: see `effective_hosts`.
#
# References:
#     P. M. Aronow, C. Samii, V. A. Assenova, "Cluster-robust variance estimation for dyadic data",
#     Political Analysis 23 (2015). A. C. Cameron, D. L. Miller, "Robust inference for dyadic data"
#     (2014). The factors for small samples are worked out here, from the model above.

HOST_BITS = 8
"""Bits of the hash of a host that name its bucket."""
HOST_BUCKETS = 1 << HOST_BITS
"""Number of buckets that hosts may belong to: 0 to 255."""


def _host_robust_errors(moments: "Moments") -> Doubles:
    """Return the standard error of the means of pairs that share hosts, never below the naive one.

    Shape (L + 1, 3); NaN where there is no error.
    """
    present = np.flatnonzero(moments.host_sides)
    counts, pairs, naive = moments.host_pairs[present], moments.num_pairs, moments.naive_errors
    if pairs < 2 or len(present) < 2 or (counts == pairs).any():
        return np.full(naive.shape, np.nan)
    apart = moments.host_sums[present] / _SCALE - counts[:, None, None] * moments.means
    factor = _host_factor(moments.host_sides[present] / (2 * pairs))
    # With independent pairs S^2 / untouched is on average (pairs of the bucket) * (their variance).
    untouched = 1 - counts / pairs
    shared = factor * (apart**2 / untouched[:, None, None]).sum(axis=0)
    # Taken away: what independent pairs would give too much. Their variance is naive^2 * pairs.
    own = (factor * counts.sum() - pairs) * pairs * naive**2
    variance = (shared - own) / pairs**2
    return np.asarray(np.sqrt(np.maximum(variance, naive**2)), dtype=np.float64)


def _host_factor(shares: Doubles) -> float:
    """Return how much larger the hosts' part of the variance is than what its estimate shows."""
    squares = float((shares**2).sum())
    # Of a bucket's effect u, the share (u - sum of v u) remains: 1 - 2 v + sum of v^2 on average.
    remaining = float((shares**2 * (1 - 2 * shares + squares)).sum())
    return squares / remaining


def _host_sums(steps: IntArray, hosts: npt.NDArray[np.integer] | None) -> dict[str, IntArray]:
    """Add up the steps of pairs, (L + 1, N, 3), by the buckets of their hosts, (N, 2)."""
    sums = _zeros(len(steps), _OF_HOSTS)
    if hosts is not None:
        number = steps.shape[1]
        _check_hosts(hosts, number)
        first, second = hosts.T
        across = np.flatnonzero(first != second)  # a pair within one bucket touches it once
        which = np.concatenate([np.arange(number), across])
        buckets, *columns = summed_by_key(
            np.concatenate([first, second[across]]),
            np.where(first == second, 2, 1)[which],
            np.ones(len(which), dtype=np.int64),
            steps.transpose(1, 0, 2)[which],
        )
        for name, column in zip(_OF_HOSTS, columns, strict=True):
            sums[name][buckets] = column
    return sums


def _check_hosts(hosts: npt.NDArray[np.integer], pairs: int) -> None:
    if hosts.shape != (pairs, 2):
        raise InputError(
            f"scores and hosts do not fit: got hosts of shape {hosts.shape} for {pairs} pairs; "
            "expected (pairs, 2)."
        )
    if not np.issubdtype(hosts.dtype, np.integer) or ((hosts < 0) | (hosts >= HOST_BUCKETS)).any():
        raise InputError(
            f"got a bucket of hosts beyond 0 to {HOST_BUCKETS - 1}; expected whole numbers in that "
            "range."
        )


_FORMAT = "bertscore-moments/3"

MAX_PAIRS = 2**26
"""Largest number of pairs whose sums fit 64 bits: 2**26 * 2**36 = 2**62, and a bit for rounding."""

_SCALE = 2.0**36

_OF_PAIRS = ("pairs", "sums", "squares", "clipped")
_OF_HOSTS = ("host_sides", "host_pairs", "host_sums")


def _zeros(rows: int, names: Sequence[str]) -> dict[str, IntArray]:
    shapes = {
        "pairs": (),
        "sums": (rows, 3),
        "squares": (rows, 4),
        "clipped": (rows,),
        "host_sides": (HOST_BUCKETS,),
        "host_pairs": (HOST_BUCKETS,),
        "host_sums": (HOST_BUCKETS, rows, 3),
    }
    return {name: np.zeros(shapes[name], dtype=np.int64) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments(Sums):
    """Sums over the scores of some pairs, for every layer and measure.

    Attributes:
        pairs: Number of pairs. Shape ().
        sums: Precision, recall and F1 added up, in steps. Shape (L + 1, 3), int64.
        squares: Squares of precision, recall, F1 and of half of precision minus recall, added up,
            in steps. Shape (L + 1, 4), int64.
        clipped: Number of F1 values that `is_clipped` names; see `of`. Shape (L + 1,), int64.
        host_sides: Sentences of each bucket of hosts: a pair with both from one bucket counts
            twice. Shape (HOST_BUCKETS,); 0 where hosts are not known.
        host_pairs: Pairs that touch each bucket: such a pair counts once. Shape (HOST_BUCKETS,).
        host_sums: `sums` over these pairs. Shape (HOST_BUCKETS, L + 1, 3).
    """

    pairs: IntArray
    sums: IntArray
    squares: IntArray
    clipped: IntArray
    host_sides: IntArray
    host_pairs: IntArray
    host_sums: IntArray

    @classmethod
    def zero(cls, rows: int) -> Self:
        """Return the moments of no pairs, of L + 1 layers: the neutral element of `+`."""
        return cls(**_zeros(rows, cls.__slots__))

    @classmethod
    def of(cls, scores: FloatArray, hosts: npt.NDArray[np.integer] | None = None) -> "Moments":
        """Add up the scores of N pairs.

        F1 has no bound where precision and recall cancel, so that a single pair could outweigh all
        others. Values beyond [-1, 1] are clipped to -1 or 1.

        Args:
            scores: Precision, recall and F1, not rescaled. Shape (L + 1, N, 3).
            hosts: Bucket of the host of candidate and reference, 0 to `HOST_BUCKETS` - 1. Shape (N,
                2). None if hosts are not known: then pairs count as independent.

        Raises:
            InputError: a score is NaN, precision or recall are beyond [-1, 1], shapes do not fit, a
                bucket is out of range, or there are more than `MAX_PAIRS` pairs.
        """
        _check(scores)
        values = scores.astype(np.float64)
        beyond = is_clipped(values[..., 2])
        np.clip(values[..., 2], -1, 1, out=values[..., 2])
        # Rounded once for each score, so the sums do not depend on how pairs are split.
        steps = np.rint(values * _SCALE).astype(np.int64)
        half_gap = (values[..., 0] - values[..., 1])[..., None] / 2  # half: within [-1, 1], too
        squares = np.rint(np.concatenate([values, half_gap], axis=-1) ** 2 * _SCALE)
        return cls(
            pairs=np.array(steps.shape[1], dtype=np.int64),
            sums=steps.sum(axis=1),
            squares=squares.astype(np.int64).sum(axis=1),
            clipped=beyond.sum(axis=1, dtype=np.int64),
            **_host_sums(steps, hosts),
        )

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Add up the moments of disjoint sets of pairs. Only one of them is in memory at a time.

        Raises:
            InputError: there are none, they differ in layers, hosts are known of some only, or they
                have too many pairs.
        """
        total: Self | None = None
        for part in parts:
            if total is None:
                total = cls.zero(part.rows)
            if part.rows != total.rows:
                raise InputError(
                    f"moments of {total.rows} and of {part.rows} layers cannot be added; expected "
                    "those of one model. Take the parts of one run."
                )
            names = cls.__slots__
            total = cls(**{name: getattr(total, name) + getattr(part, name) for name in names})
            _check_number(total.num_pairs)
        if total is None:
            raise InputError("got no moments to add up; expected at least one part.")
        if total.host_sides.sum() not in (0, 2 * total.num_pairs):
            raise InputError(
                "moments of pairs with and without hosts cannot be added; expected the hosts of "
                "all or of none. Take the parts of one run."
            )
        return total

    @property
    def rows(self) -> int:
        """Layers scored, the embeddings included: L + 1."""
        return len(self.squares)

    @property
    def num_pairs(self) -> int:
        """Pairs added up, N."""
        return int(self.pairs)

    @property
    def means(self) -> Doubles:
        """Mean of precision, recall and F1. Shape (L + 1, 3); NaN without pairs."""
        if not self.num_pairs:
            return np.full(self.sums.shape, np.nan)
        return np.asarray(self.sums / (self.num_pairs * _SCALE), dtype=np.float64)

    @property
    def deviations(self) -> Doubles:
        """Sample standard deviation over pairs. Shape (L + 1, 3); NaN below two pairs."""
        return _deviation(self.squares[:, :3], self.means, self.num_pairs)

    @property
    def naive_errors(self) -> Doubles:
        """Standard error of the means if pairs were independent. Shape (L + 1, 3)."""
        return self.deviations / math.sqrt(max(self.num_pairs, 1))

    @property
    def standard_errors(self) -> Doubles:
        """Standard error of the means. Shape (L + 1, 3); NaN where there is none.

        It allows for pairs that share a host, and is `naive_errors` where hosts are not known.
        """
        return _host_robust_errors(self) if self.knows_hosts else self.naive_errors

    @property
    def knows_hosts(self) -> bool:
        """Whether the hosts of the sentences are known."""
        return bool(self.host_sides.any())

    @property
    def effective_hosts(self) -> float:
        """How many hosts of equal size would give the same error, at most `HOST_BUCKETS`.

        NaN if hosts are not known.
        """
        return effective_number(self.host_sides) or math.nan

    @property
    def gaps(self) -> Doubles:
        """Mean of precision minus recall, 0 on average for random pairs. Shape (L + 1,)."""
        means = self.means
        return np.asarray(means[:, 0] - means[:, 1], dtype=np.float64)

    @property
    def gap_errors(self) -> Doubles:
        """Standard error of `gaps`. Shape (L + 1,).

        Hosts do not matter: chance decides which of two sentences is the candidate.
        """
        halves = _deviation(self.squares[:, 3], self.gaps / 2, self.num_pairs)
        return 2 * halves / math.sqrt(max(self.num_pairs, 1))

    def baseline(self, name: str) -> Baseline:
        """Return the means as a table to rescale with.

        Raises:
            InputError: there are no pairs.
        """
        if not self.num_pairs:
            raise InputError(f"baseline {name} has no pairs to average; expected at least one.")
        return Baseline(name=name, rows=self.means)

    def to_bytes(self) -> bytes:
        """Return the moments as an .npz archive; equal moments give equal bytes."""
        head = json.dumps({"format": _FORMAT, "scale": _SCALE}).encode()
        buckets = np.flatnonzero(self.host_sides)
        arrays = {name: getattr(self, name) for name in _OF_PAIRS} | {"host_buckets": buckets}
        arrays |= {name: getattr(self, name)[buckets] for name in _OF_HOSTS}
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            head=np.frombuffer(head, dtype=np.uint8),
            # Little-endian, so that the bytes are the same on every platform.
            **{name: array.astype("<i8") for name, array in arrays.items()},
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "the given bytes") -> "Moments":
        """Read moments written by `to_bytes`.

        Raises:
            InputError: The bytes are not such an archive, or are damaged.
        """
        try:
            if data[:2] != b"PK":
                raise ValueError("it is no .npz archive")
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                head = load_json(archive["head"].tobytes())
                if head["format"] != _FORMAT:
                    raise ValueError(f"format {head['format']}")
                moments = cls.zero(len(archive["squares"]))
                buckets = archive["host_buckets"]
                for name in cls.__slots__:
                    sums, places = getattr(moments, name), buckets if name in _OF_HOSTS else ...
                    if archive[name].shape != sums[places].shape:
                        raise ValueError(f"{name} has another shape")
                    sums[places] = archive[name]
            if not (
                (np.diff(buckets) > 0).all()
                and (buckets >= 0).all()
                and (moments.host_pairs <= moments.host_sides).all()
                and moments.host_sides.sum() in (0, 2 * moments.pairs)
            ):
                raise ValueError("its sums do not belong together")
        except Exception as error:
            raise InputError(
                f"{source} holds no sums of scores ({error}); expected a file written by "
                "`bertscore-beam baseline`. Delete it and run that command again."
            ) from error
        return moments


def _check(scores: FloatArray) -> None:
    if scores.ndim != 3 or scores.shape[2] != 3:
        raise InputError(
            f"scores do not fit: got shape {scores.shape}; expected (layers, pairs, 3)."
        )
    pairs = scores.shape[1]
    _check_number(pairs)
    # Comparisons with NaN are false, so NaN is not within.
    within = (np.abs(scores[..., :2]) <= 1 + SLACK).all(axis=(0, 2))
    wrong = np.flatnonzero(~within | np.isnan(scores[..., 2]).any(axis=0))
    if len(wrong):
        raise InputError(
            f"{len(wrong)} of {pairs} pairs have scores that are not numbers, or precision or "
            f"recall beyond 1, such as pair {wrong[0]}; expected raw scores from -1 to 1. Leave "
            "out texts without a token of weight, and do not rescale."
        )


def _check_number(pairs: int) -> None:
    if pairs > MAX_PAIRS:
        raise InputError(
            f"{pairs} pairs are more than can be added up exactly; expected at most {MAX_PAIRS}. "
            "Take fewer pairs."
        )


def _deviation(squares: IntArray, means: Doubles, pairs: int) -> Doubles:
    if pairs < 2:
        return np.full(means.shape, np.nan)
    variance = (squares / _SCALE - pairs * means**2) / (pairs - 1)  # rounding may make it < 0
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)), dtype=np.float64)
