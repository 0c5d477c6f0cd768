"""Add up the paired rows of two sides, by group: counts, sums, clusters, and the rows that moved.

Memory is bounded by the number of groups and of clusters, whatever the number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscore_beam.results.comparison import PairCounts
from bertscore_core.paired_sums import ClusterSums, PairedSums

# Sums of clusters that wait to be added up: 24 bytes each.
_WAITING = 1_000_000

_COUNTS = tuple(PairCounts.__dataclass_fields__)
_Entries = npt.NDArray[np.void]
_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupSums:
    """Sums over the rows of a group.

    Attributes:
        counts: What became of its rows.
        pairs: Sums over the differences of its pairs.
        clusters: The same by cluster; None without clusters.
        total: Sum of the scores of RUN over the pairs.
        against_total: The same of AGAINST.
    """

    counts: PairCounts
    pairs: PairedSums
    clusters: ClusterSums | None
    total: float
    against_total: float


class PairedGroups:
    """The sums of two sides, which grow bucket by bucket."""

    def __init__(self, groups: int, noise: float, *, by_cluster: bool, moved_rows: int) -> None:
        """Begin with nothing.

        Args:
            groups: Number of groups.
            noise: How far a score before rescaling may move without a reason.
            by_cluster: Whether rows have clusters.
            moved_rows: How many rows are kept of those that rose most, and of those that fell most.
        """
        self._noise, self._moved_rows = noise, moved_rows
        self._counts = np.zeros((len(_COUNTS), groups), dtype=np.int64)
        self._totals = np.zeros((2, groups))
        # The last one is that of all rows. A group that is alone has no other.
        places = groups + 1 if groups > 1 else 1
        self._pairs = [PairedSums.of(np.zeros(0))] * places
        self._clusters = [_Clusters() for _ in range(places)] if by_cluster else []
        self._risen: list[tuple[_Entries, _Entries]] = []
        self._fallen: list[tuple[_Entries, _Entries]] = []

    def add(self, entries: _Entries, mine: _Rows, theirs: _Rows) -> None:
        """Add rows that are paired.

        Args:
            entries: Rows of both sides.
            mine: Position of the row of RUN in `entries`, negative if it has none. Shape (P,).
            theirs: The same of AGAINST. Shape (P,).
        """
        some = (mine >= 0) | (theirs >= 0)
        mine, theirs = mine[some], theirs[some]
        here, there = mine >= 0, theirs >= 0
        groups = np.where(here, entries["group"][mine], entries["group"][theirs]).astype(np.int64)
        scored = here & ~np.isnan(entries["score"][mine])
        before = there & ~np.isnan(entries["score"][theirs])
        both = here & there
        pairs = scored & before
        self._count("pairs", groups[pairs])
        self._count("lost", groups[both & before & ~scored])
        self._count("gained", groups[both & scored & ~before])
        self._count("unscored", groups[both & ~scored & ~before])
        self._count("only_run", groups[here & ~there])
        self._count("only_against", groups[there & ~here])
        self._count("only_against_scored", groups[before & ~here])
        self._add_pairs(entries[mine[pairs]], entries[theirs[pairs]], groups[pairs])

    def _add_pairs(self, mine: _Entries, theirs: _Entries, groups: _Rows) -> None:
        score, before = (side["score"].astype(np.float64) for side in (mine, theirs))
        differences = score - before
        for row, values in enumerate((score, before)):
            self._totals[row] += np.bincount(groups, values, self._totals.shape[1])
        others = (mine["reference"] != theirs["reference"]) & (mine["reference"] != 0)
        self._count("other_references", groups[others & (theirs["reference"] != 0)])
        raw = mine["raw"].astype(np.float64) - theirs["raw"]
        self._count("up", groups[raw > self._noise])
        self._count("down", groups[raw < -self._noise])
        moves = np.where(np.abs(raw) > self._noise, differences, 0.0)
        self._risen = self._furthest(self._risen, mine, theirs, moves)
        self._fallen = self._furthest(self._fallen, mine, theirs, -moves)
        self._add_sums(-1, differences, mine["cluster"])
        if len(self._pairs) > 1:
            for group, rows in _rows_by_group(groups):
                self._add_sums(group, differences[rows], mine["cluster"][rows])

    def _add_sums(
        self, place: int, differences: npt.NDArray[np.float64], clusters: npt.NDArray[np.uint64]
    ) -> None:
        self._pairs[place] += PairedSums.of(differences)
        if self._clusters:
            self._clusters[place].add(ClusterSums.of(differences, clusters))

    def _count(self, name: str, groups: _Rows) -> None:
        row = self._counts[_COUNTS.index(name)]
        row += np.bincount(groups, minlength=len(row))

    def _furthest(
        self,
        before: list[tuple[_Entries, _Entries]],
        mine: _Entries,
        theirs: _Entries,
        moves: npt.NDArray[Any],
    ) -> list[tuple[_Entries, _Entries]]:
        """Return the rows with the largest moves above 0, of these and those before."""
        furthest = np.argsort(-moves, kind="stable")[: self._moved_rows]
        furthest = furthest[moves[furthest] > 0]
        kept = [*before, *zip(mine[furthest], theirs[furthest], strict=True)]
        return sorted(kept, key=_by_distance)[: self._moved_rows]

    def moved(self) -> Sequence[tuple[_Entries, _Entries]]:
        """Return the rows of both sides that moved furthest beyond the noise, furthest first."""
        return sorted([*self._risen, *self._fallen], key=_by_distance)

    def of(self, group: int | None) -> GroupSums:
        """Return the sums over the rows of a group, over all rows for None."""
        place, some = (-1, slice(None)) if group is None else (group, slice(group, group + 1))
        counts = self._counts[:, some].sum(axis=1).tolist()
        total, against_total = self._totals[:, some].sum(axis=1).tolist()
        return GroupSums(
            counts=PairCounts(**dict(zip(_COUNTS, counts, strict=True))),
            pairs=self._pairs[place],
            clusters=self._clusters[place].sum() if self._clusters else None,
            total=total,
            against_total=against_total,
        )


class _Clusters:
    """Sums by cluster that grow; those of equal clusters are added up from time to time."""

    def __init__(self) -> None:
        self._waiting = [ClusterSums.of(np.zeros(0), np.zeros(0, dtype=np.uint64))]

    def add(self, sums: ClusterSums) -> None:
        self._waiting.append(sums)
        waiting = sum(map(len, self._waiting[1:]))
        if waiting > max(_WAITING, len(self._waiting[0])):
            self._waiting = [self.sum()]

    def sum(self) -> ClusterSums:
        return ClusterSums.merge(self._waiting)


def _by_distance(two: tuple[_Entries, _Entries]) -> tuple[float, int, int]:
    """Order rows by how far they moved; by place, where they moved alike."""
    mine, theirs = two
    return -abs(float(mine["score"]) - float(theirs["score"])), int(mine["file"]), int(mine["row"])


def _rows_by_group(groups: _Rows) -> Iterator[tuple[int, _Rows]]:
    """Yield each group that is there, with its rows in their order."""
    order = np.argsort(groups, kind="stable")
    names, starts = np.unique(groups[order], return_index=True)
    # The piece before the first group is empty. Without any group it is the only one.
    yield from zip(names.tolist(), np.split(order, starts)[1:], strict=True)
