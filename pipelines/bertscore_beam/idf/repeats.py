"""How often the references of a corpus repeat, estimated in a few kilobytes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.digests import digest_words

_KEPT = 1024
# Two systems on the same references give 2. Short answers such as "yes" repeat in any corpus.
_MANY = 1.5
_FEWEST_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeats:
    """Rows counted, and the smallest digests of their references: exact up to 1,024 distinct ones.

    Attributes:
        smallest: The smallest distinct digests, ascending. Shape (at most 1,024,), uint64.

    References:
        Bar-Yossef et al. 2002, Counting distinct elements in a data stream: the estimate from the
        k smallest values, with a relative error of about 1 / sqrt(k), here 3%.
    """

    rows: int
    smallest: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, references: Sequence[Sequence[str]]) -> "Repeats":
        """Look at the references of some rows."""
        digests = np.unique(digest_words(references)[:, 0])
        return cls(rows=len(references), smallest=digests[:_KEPT])

    @classmethod
    def merge(cls, parts: Iterable["Repeats"]) -> "Repeats":
        """Put together what was seen in several places; any order gives the same."""
        seen = list(parts)
        none = np.zeros(0, dtype=np.uint64)
        digests = np.unique(np.concatenate([none, *(part.smallest for part in seen)]))
        return cls(rows=sum(part.rows for part in seen), smallest=digests[:_KEPT])

    @property
    def distinct(self) -> int:
        """About how many rows have references of their own."""
        if len(self.smallest) < _KEPT:
            return len(self.smallest)
        return min(self.rows, round((_KEPT - 1) / (float(self.smallest[-1]) / 2**64)))


def repeats_warning(rows: int, distinct: int, *, keyed: bool, sampled: bool = False) -> str | None:
    """Say that references repeat much, and what to do; None if they do not.

    `distinct` rows have references of their own. `sampled` says that only a part was looked at.
    """
    if rows < max(_FEWEST_ROWS, _MANY * distinct):
        return None
    where = "in a sample, " if sampled else ""
    cure = (
        "Check that the key is the same for the same references"
        if keyed
        else "If the dump has several systems on one test set, name the columns that identify a "
        "reference with --idf-key, so that each counts once"
    )
    return (
        f"references repeat: {where}{rows:,} rows have about {distinct:,} different references, "
        f"{1 - distinct / rows:.0%} are repeats, and idf counts each of them. {cure}."
    )
