"""The sides of a comparison: read, paired, added up by group, and ranked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison import (
    WHOLE,
    Group,
    GroupComparison,
    PairCounts,
    RankedPair,
    RankedSystem,
    Ranking,
)
from bertscore_beam.compare.keyed_rows import (
    ABSENT,
    Entries,
    Numbers,
    RowReader,
    pair_entries,
    row_buckets,
)
from bertscore_beam.dump import MOST_GROUPS
from bertscore_beam.files import Buckets
from bertscore_beam.metrics import corpus_score
from bertscore_beam.records import FinishedRun
from bertscore_core.errors import ConfigError
from bertscore_core.stats import (
    ClusterSums,
    CorpusResult,
    PairedSums,
    compare_corpora,
    holm,
    paired_result,
)

MOST_SYSTEMS = 100
"""Most systems that are ranked: 4,950 pairs."""

_Value = TypeVar("_Value")


# Rank the systems of a run, with clusters of systems that cannot be told apart.
#
# As in the shared tasks of WMT: systems are ordered by their means, each pair of them is tested,
# and a line is drawn where every system above is significantly better than every system below. The
# p values are corrected for the number of pairs by Holm's method. The tables of WMT do not do that,
# so they have more lines, some of them by chance.


class CommonRows:
    """Sums over the rows that all systems have scored, by group."""

    def __init__(self, groups: int, systems: int) -> None:
        self._rows = np.zeros(groups, dtype=np.int64)
        self._totals = np.zeros((groups, systems))

    def add(self, entries: Entries, places: Numbers) -> None:
        """Add the rows of a bucket; see `pair_entries`."""
        scores = entries["score"].astype(np.float64)[places]
        scores[places == ABSENT] = np.nan
        common = ~np.isnan(scores).any(axis=1)
        groups = entries["group"][places[common, 0]].astype(np.int64)
        self._rows += np.bincount(groups, minlength=len(self._rows))
        for system, values in enumerate(scores[common].T):
            self._totals[:, system] += np.bincount(groups, values, len(self._rows))

    def of(self, group: int | None) -> tuple[int, npt.NDArray[np.float64]]:
        """Return the number of common rows of a group, of all for None, and the systems' means."""
        rows = int(self._rows.sum() if group is None else self._rows[group])
        totals = self._totals.sum(axis=0) if group is None else self._totals[group]
        return rows, totals / rows if rows else np.full(len(totals), np.nan)


def rank(
    group: Group,
    systems: Sequence[str],
    common: tuple[int, npt.NDArray[np.float64]],
    compared: Mapping[tuple[int, int], GroupComparison],
    confidence: float,
) -> Ranking | None:
    """Rank systems by their means and by the tests of their pairs; None without a common row.

    Args:
        group: The group.
        systems: Their names.
        common: Number of the rows that all have scored, and the means over them.
        compared: The comparison of each pair of systems, by their positions.
        confidence: 1 - confidence is the level of the tests.
    """
    rows, means = common
    if not rows:
        return None
    p_values = holm([comparison.p_value for comparison in compared.values()])
    better = np.zeros((len(systems), len(systems)), dtype=np.bool_)
    pairs = []
    for ((left, right), comparison), p in zip(compared.items(), p_values, strict=True):
        if p is not None and p < 1 - confidence:
            is_first = (comparison.result.difference or 0.0) > 0
            better[(left, right) if is_first else (right, left)] = True
        pairs.append(
            RankedPair(
                system=systems[left],
                other=systems[right],
                difference=comparison.result.difference,
                interval=comparison.result.interval,
                p_value=comparison.p_value,
                p_adjusted=p,
            )
        )
    order = np.argsort(-means, kind="stable")
    better = better[np.ix_(order, order)]
    ranked, cluster = [], 1
    for place, number in enumerate(order.tolist()):
        if place and better[:place, place:].all():
            cluster += 1
        wins, losses = int(better[place].sum()), int(better[:, place].sum())
        ranked.append(
            RankedSystem(
                system=systems[number],
                mean=float(means[number]),
                first=1 + losses,
                last=len(systems) - wins,
                cluster=cluster,
                wins=wins,
            )
        )
    by_flips = any(pair.result.randomization_p is not None for pair in compared.values())
    return Ranking(
        group=group,
        rows=rows,
        confidence=confidence,
        test="randomization" if by_flips else "t test",
        systems=tuple(ranked),
        pairs=tuple(pairs),
    )


# Add up the paired rows of two sides, by group: counts, sums, clusters, and the rows that moved.
#
# Memory is bounded by the number of groups and of clusters, whatever the number of rows.

# Sums of clusters that wait to be added up: 24 bytes each.
_WAITING = 1_000_000

_COUNTS = tuple(PairCounts.__dataclass_fields__)
_Moved = list[tuple[Entries, Entries]]


class PairedGroups:
    """The sums of two sides, which grow bucket by bucket."""

    def __init__(
        self,
        groups: int,
        noise: float,
        *,
        by_cluster: bool,
        moved_rows: int,
        corpus: str | None = None,
    ) -> None:
        """Begin with nothing; moves up to the noise need no reason.

        `corpus` is the metric by which all rows of a group are compared as a corpus, if any.
        """
        self._corpus = corpus
        self._corpora: list[tuple[Numbers, Numbers, Numbers]] = []
        self._noise, self._moved_rows = noise, moved_rows
        self._counts = np.zeros((len(_COUNTS), groups), dtype=np.int64)
        self._totals = np.zeros((2, groups))
        # The last one is that of all rows. A group that is alone has no other.
        places = groups + 1 if groups > 1 else 1
        self._pairs = [PairedSums.of(np.zeros(0))] * places
        self._clusters = [_Clusters() for _ in range(places)] if by_cluster else []
        self._risen: _Moved = []
        self._fallen: _Moved = []

    def add(self, entries: Entries, mine: Numbers, theirs: Numbers) -> None:
        """Add rows that are paired: positions in `entries`, `ABSENT` where a side has none."""
        present = (mine >= 0) | (theirs >= 0)
        mine, theirs = mine[present], theirs[present]
        in_run, in_against = mine >= 0, theirs >= 0
        groups = np.where(in_run, entries["group"][mine], entries["group"][theirs]).astype(np.int64)
        scored = in_run & ~np.isnan(entries["score"][mine])
        before = in_against & ~np.isnan(entries["score"][theirs])
        both = in_run & in_against
        pairs = scored & before
        self._count("pairs", groups[pairs])
        self._count("lost", groups[both & before & ~scored])
        self._count("gained", groups[both & scored & ~before])
        self._count("unscored", groups[both & ~scored & ~before])
        self._count("only_run", groups[in_run & ~in_against])
        self._count("only_against", groups[in_against & ~in_run])
        self._count("only_against_scored", groups[before & ~in_run])
        self._add_pairs(entries[mine[pairs]], entries[theirs[pairs]], groups[pairs])

    def _add_pairs(self, mine: Entries, theirs: Entries, groups: Numbers) -> None:
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
        if self._corpus is not None:
            self._corpora.append((groups, mine["counts"], theirs["counts"]))
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

    def _count(self, name: str, groups: Numbers) -> None:
        row = self._counts[_COUNTS.index(name)]
        row += np.bincount(groups, minlength=len(row))

    def _furthest(
        self,
        before: _Moved,
        mine: Entries,
        theirs: Entries,
        moves: npt.NDArray[Any],
    ) -> _Moved:
        furthest = np.argsort(-moves, kind="stable")[: self._moved_rows]
        furthest = furthest[moves[furthest] > 0]
        candidates = [*before, *zip(mine[furthest], theirs[furthest], strict=True)]
        return sorted(candidates, key=_by_distance)[: self._moved_rows]

    def moved(self) -> _Moved:
        """Return the rows of both sides that moved furthest beyond the noise, furthest first."""
        return sorted([*self._risen, *self._fallen], key=_by_distance)

    def counts(self, group: int | None) -> PairCounts:
        """Return what became of the rows of a group; of all rows for None."""
        counts = self._counts.sum(axis=1) if group is None else self._counts[:, group]
        return PairCounts(**dict(zip(_COUNTS, counts.tolist(), strict=True)))

    def compared(
        self, name: Group, group: int | None, *, confidence: float, resamples: int, seed: int
    ) -> GroupComparison:
        """Return the comparison of a group, or of all rows for None; no p value is corrected."""
        place = -1 if group is None else group
        counts = self.counts(group)
        totals = self._totals.sum(axis=1) if group is None else self._totals[:, group]
        mean, against = (totals / counts.pairs).tolist() if counts.pairs else (None, None)
        return GroupComparison(
            group=name,
            counts=counts,
            mean=mean,
            against_mean=against,
            result=paired_result(
                self._pairs[place],
                self._clusters[place].sum() if self._clusters else None,
                confidence=confidence,
                resamples=resamples,
                seed=seed,
            ),
            p_adjusted=None,
            corpus=self._compared_corpora(group, confidence, resamples, seed),
        )

    def _compared_corpora(
        self, group: int | None, confidence: float, resamples: int, seed: int
    ) -> CorpusResult | None:
        name = self._corpus
        if name is None or not self._corpora:
            return None
        chosen = [groups >= 0 if group is None else groups == group for groups, *_ in self._corpora]
        mine, theirs = (
            np.concatenate(
                [own[place][rows] for own, rows in zip(self._corpora, chosen, strict=True)]
            ).astype(np.float64)
            for place in (1, 2)
        )

        def score(sums: npt.NDArray[np.float64]) -> float:
            own = corpus_score(name, sums.astype(np.int64).tolist())
            return 0.0 - own if name == "ter" else own

        return compare_corpora(
            mine, theirs, score, confidence=confidence, resample=resamples > 0, seed=seed
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


def _by_distance(two: tuple[Entries, Entries]) -> tuple[float, int, int]:
    mine, theirs = two
    return -abs(float(mine["score"]) - float(theirs["score"])), int(mine["file"]), int(mine["row"])


def _rows_by_group(groups: Numbers) -> Iterator[tuple[int, Numbers]]:
    order = np.argsort(groups, kind="stable")
    names, starts = np.unique(groups[order], return_index=True)
    # The piece before the first group is empty. Without any group it is the only one.
    yield from zip(names.tolist(), np.split(order, starts)[1:], strict=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paired:
    """What reading and pairing gave: the sums of each pair of sides, and over the common rows."""

    names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    sums: tuple[PairedGroups, ...]
    common: CommonRows
    groups: dict[Group, int]
    reader: RowReader


def pair_sides(
    options: CompareOptions,
    measure: str,
    runs: Sequence[FinishedRun],
    references: str | None,
    noises: Sequence[float],
) -> Paired:
    """Read all rows, put them on the disk, and add them up by pair of sides.

    Without systems each run is a side. `references` is the column of references to digest; None if
    that is not needed. `noises` has a number for each AGAINST, or one for all systems.
    """
    reader = RowReader(options, measure)
    rows = np.zeros(MOST_GROUPS + 1, dtype=np.int64)
    wanted = len(options.systems or ())
    with closing(row_buckets(sum(run.rows for run in runs))) as buckets:
        for side, run in enumerate(runs):
            for entries in reader.read(run, side=side, references=references):
                own = entries[entries["side"] < wanted] if wanted else entries
                rows += np.bincount(own["side"], minlength=len(rows))
                buckets.add(own)
        names = _names(options, runs, reader, rows)
        return _pair(options, measure, names, noises, reader, buckets)


def _names(
    options: CompareOptions, runs: Sequence[FinishedRun], reader: RowReader, rows: Numbers
) -> tuple[str, ...]:
    if options.systems is None:
        return tuple(run.folder.shown for run in runs)
    names = options.systems or tuple(reader.systems)
    present = [name for name, code in reader.systems.items() if code >= len(names) or rows[code]]
    gone = [name for name in names if name not in present]
    if gone or not 2 <= len(names) <= MOST_SYSTEMS:
        raise ConfigError(
            f"systems cannot be compared: got {', '.join(map(repr, gone or names)) or 'none'}"
            f"{' without a row that has a key' if gone else ''}; expected from 2 to {MOST_SYSTEMS} "
            f"of those in the column {options.system_column!r}: "
            f"{', '.join(map(repr, present[:20])) or 'it has none'}. Correct --systems."
        )
    return names


def _pair(
    options: CompareOptions,
    measure: str,
    names: tuple[str, ...],
    noises: Sequence[float],
    reader: RowReader,
    buckets: Buckets,
) -> Paired:
    sides = range(len(names))
    # The first side is compared with every other; to rank systems, each with each.
    pairs = (
        tuple(combinations(sides, 2)) if options.is_ranking else tuple((0, n) for n in sides[1:])
    )
    groups, named = reader.groups or {WHOLE: 0}, reader.entry.names or ()
    if len(pairs) * len(groups) > MOST_GROUPS:
        raise ConfigError(
            f"there is too much to compare: got {len(pairs):,} comparisons of {len(groups):,} "
            f"groups; expected at most {MOST_GROUPS:,} together. Name fewer columns with --by, or "
            "fewer systems."
        )
    sums = tuple(
        PairedGroups(
            len(groups),
            of_pair(noises, number),
            by_cluster=options.cluster is not None,
            moved_rows=options.moved_rows,
            # Of many systems the counts may not fit in memory.
            corpus=None if options.is_ranking or "counts" not in named else measure,
        )
        for number in range(len(pairs))
    )
    common = CommonRows(len(groups), len(names))
    repeated = np.zeros((2, len(names)), dtype=np.int64)
    for _, entries in buckets.take(reader.entry):
        places, counts = pair_entries(entries, len(names))
        repeated += ((counts > 1).sum(axis=0), (counts * (counts > 1)).sum(axis=0))
        for (side, other), added in zip(pairs, sums, strict=True):
            added.add(entries, places[:, side], places[:, other])
        if options.is_ranking:
            common.add(entries, places)
    _check_unique(repeated, names, options)
    return Paired(names=names, pairs=pairs, sums=sums, common=common, groups=groups, reader=reader)


def _check_unique(repeated: Numbers, names: Sequence[str], options: CompareOptions) -> None:
    if repeated.any():
        counts = [
            f"{keys:,} keys that are there more than once in {name!r}, in {rows:,} rows"
            for name, (keys, rows) in zip(names, repeated.T.tolist(), strict=True)
            if keys
        ]
        raise ConfigError(
            f"--key {' '.join(options.key)} does not identify a row: got {'; '.join(counts)}; "
            f"expected each key once. Name more columns, such as that of the "
            f"{'system' if options.systems is None else 'test set'}."
        )


def of_pair(values: Sequence[_Value], number: int) -> _Value:
    """Return what belongs to a pair: of runs there is one for each AGAINST, of systems one."""
    return values[min(number, len(values) - 1)]
