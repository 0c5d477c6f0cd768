"""The sides of a comparison: read, paired, added up by group, and ranked."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from bertscore_beam.compare import results
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.keyed_rows import (
    ENTRY,
    Clipped,
    Entries,
    RowReader,
    pair_entries,
    row_buckets,
)
from bertscore_beam.compare.repeats import GOLDEN, Keys
from bertscore_beam.compare.settings import SettingsDifference
from bertscore_beam.dump.census import MOST_GROUPS, Group
from bertscore_beam.files.buckets import Buckets
from bertscore_beam.metrics.table import corpus_score
from bertscore_beam.records.finished import FinishedRun
from bertscore_core.errors import ConfigError
from bertscore_core.specification import NOISE
from bertscore_core.stats.caveats import caveats_of_difference
from bertscore_core.stats.paired import (
    ClusterSums,
    CorpusResult,
    PairedSums,
    compare_corpora,
    differences_of,
    paired_result,
)
from bertscore_core.stats.score_statistics import Doubles, UnknownTokens
from bertscore_core.sums import ExactSums, SumsByName, exact_sums
from bertscore_core.tokens import IntArray

MOST_SYSTEMS = 100
"""Most systems that are ranked: 4,950 pairs."""

# Add up the paired rows of two sides, by group: counts, sums, clusters, and the rows that moved.
#
# Memory is bounded by the number of groups and of clusters, whatever the number of rows.

_BLOCK = 32
"""Rows of a file that are kept or left out together, to see whether neighbours move together."""
_STRETCH = 512
"""Rows of a file whose mean is taken out."""
_MOST_NEIGHBOURS = 200_000
"""Most rows that are kept for it: a sample of blocks."""
_LEAST_CORRELATION, _NEIGHBOUR_ERRORS = 0.1, 4.0
"""A smaller correlation of neighbours is not shown, nor one of fewer standard errors."""

_COUNTS = tuple(results.PairCounts.__dataclass_fields__)
_MOVED = np.dtype(
    [
        ("change", "<f8"),
        ("group", "<u4"),
        *((name, ENTRY[name]) for name in ("file", "row", "score")),
        *((f"against_{name}", ENTRY[name]) for name in ("file", "row", "score")),
    ]
)
"""A row that moved by more than the noise: 52 bytes."""

_MOST_INPUTS = 10
"""Most inputs of lost rows that a group names."""
_NO_SCORES = ExactSums(steps=(0, 0))
_NO_PAIRS = PairedSums.of(np.zeros(0))
_NO_CLUSTERS = ClusterSums.of(np.zeros(0), np.zeros(0, dtype=np.uint64))


class PairedGroups:
    """The sums of two sides, which grow bucket by bucket.

    Attributes:
        sides: Positions of the two among all sides.
        names: What the two are called.
        moved: The rows of each group that rose most, and those that fell most. Shape (M,).
        settings: How their settings differ: moves up to its noise need no reason.
    """

    def __init__(
        self,
        options: CompareOptions,
        sides: tuple[int, int],
        names: Sequence[str],
        settings: SettingsDifference,
        groups: int,
        corpus: str | None,
    ) -> None:
        """Begin with nothing.

        `corpus` is the metric by which all rows of a group are compared as a corpus, if any.
        """
        self.sides, self.settings = sides, settings
        self.names = names[sides[0]], names[sides[1]]
        self._options, self._corpus = options, corpus
        self._corpora: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
        self._counts = np.zeros((len(_COUNTS), groups), dtype=np.int64)
        self._totals = [_NO_SCORES] * groups
        self._pairs = SumsByName[int, PairedSums]()
        self._clusters = SumsByName[int, ClusterSums]()
        self._missing = SumsByName[int, ClusterSums]()
        self._unknown = SumsByName[int, UnknownTokens]()
        self._lost = defaultdict[int, Counter[int]](Counter)  # by group and input
        self.moved = np.zeros(0, dtype=_MOVED)
        self._in_order = _RowsInOrder()

    def add(self, entries: Entries, clipped: Clipped, mine: IntArray, theirs: IntArray) -> None:
        """Add rows that are paired: positions in `entries`, `ABSENT` where a side has none.

        `clipped` are the scores of the entries as means take them.
        """
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
        self._add_pairs(entries, clipped, (mine[pairs], theirs[pairs]), groups[pairs])
        missing = theirs[before & ~scored]
        lost = np.column_stack([groups[before & ~scored], entries["file"][missing]])
        for (group, file), rows in zip(*np.unique(lost, axis=0, return_counts=True), strict=True):
            self._lost[int(group)][int(file)] += int(rows)
        clusters, of_groups = entries["cluster"][missing], groups[before & ~scored]
        of_groups, clusters = of_groups[clusters != 0], clusters[clusters != 0]
        for group in np.unique(of_groups).tolist():
            lost = clusters[of_groups == group]
            self._missing.add(group, ClusterSums.of(np.ones(len(lost)), lost))

    def _add_pairs(
        self,
        entries: Entries,
        clipped: Clipped,
        places: tuple[IntArray, IntArray],
        groups: IntArray,
    ) -> None:
        mine, theirs = (entries[side] for side in places)
        now, before = map(clipped.at, places)
        noise = self.settings.noise
        differences, exponent = differences_of(now.scores, before.scores)
        scores = np.column_stack([now.scores, before.scores])
        totals = exact_sums(scores, groups, len(self._totals))
        self._totals = [*map(ExactSums.merge, zip(self._totals, totals, strict=True))]
        self._count("clipped", groups[now.is_clipped | before.is_clipped])
        others = (mine["reference"] != theirs["reference"]) & (mine["reference"] != 0)
        self._count("other_references", groups[others & (theirs["reference"] != 0)])
        with np.errstate(over="ignore"):  # infinity is beyond any noise, too
            raw = now.raw - before.raw
        self._count("up", groups[raw > noise])
        self._count("down", groups[raw < -noise])
        # Coarser formats have more noise, but not to one side: only what the last bits of float32
        # give counts as nothing, so that a fall of all rows is found in every format.
        is_moved = np.abs(raw) > min(noise, NOISE)
        differences = np.where(is_moved, differences, 0.0)
        moves = np.zeros(len(raw))
        with np.errstate(over="ignore"):
            np.subtract(mine["score"], theirs["score"], out=moves, where=np.abs(raw) > noise)
        if self._options.moved_rows:
            far = np.flatnonzero(moves)
            moved = np.zeros(len(far), dtype=_MOVED)
            moved["change"], moved["group"] = moves[far], groups[far]
            for name in ("file", "row", "score"):
                moved[name], moved[f"against_{name}"] = mine[name][far], theirs[name][far]
            self.moved = _furthest(np.append(self.moved, moved), self._options.moved_rows)
        if self._corpus is not None:
            self._corpora.append((groups, mine["label"], mine["counts"], theirs["counts"]))
        clusters = self._clusters_of(mine, theirs)
        is_alone = clusters == 0
        if self._options.cluster is None and not self._options.is_ranking:
            self._in_order.add(mine[is_alone], differences[is_alone])
        for group, rows in enumerate(self._rows_by_group(groups)):
            if not len(rows):
                continue
            for read in (mine[rows], theirs[rows]):
                counted = read["text_tokens"], read["unknown_tokens"]
                self._unknown.add(group, UnknownTokens.of(*counted))
            alone, rows = rows[is_alone[rows]], rows[~is_alone[rows]]
            sums = PairedSums.of(differences[alone], is_moved[alone], exponent)
            self._pairs.add(group, sums)
            if len(rows):
                of_clusters = clusters[rows], is_moved[rows]
                self._clusters.add(group, ClusterSums.of(differences[rows], *of_clusters, exponent))

    def _clusters_of(self, mine: Entries, theirs: Entries) -> Keys:
        """Return the cluster of each pair; 0 for one that counts by itself. Shape (N,)."""
        own: Keys = mine["cluster"]
        if self._options.cluster is not None:
            return own
        other = theirs["cluster"]
        both = (own != 0) & (other != 0)  # a repeat has the texts of another on both sides
        return np.where(both, own << np.uint64(32) | other, np.uint64(0))

    @property
    def neighbours(self) -> float | None:
        """Rank correlation of rows of a group that follow each other; None if they are unrelated.

        None with clusters, too.
        """
        return self._in_order.correlation()

    def _count(self, name: str, groups: IntArray) -> None:
        row = self._counts[_COUNTS.index(name)]
        row += np.bincount(groups, minlength=len(row))

    def counts(self, groups: slice) -> results.PairCounts:
        """Return what became of the rows of some groups."""
        counts = self._counts[:, groups].sum(axis=1)
        return results.PairCounts(**dict(zip(_COUNTS, counts.tolist(), strict=True)))

    def lost(self, groups: slice) -> list[tuple[int, int]]:
        """Return the inputs that lost most rows of some groups, and how many, most first."""
        rows = Counter[int]()
        for group in range(self._counts.shape[1])[groups]:
            rows.update(self._lost.get(group, {}))
        return rows.most_common(_MOST_INPUTS)

    def compared(self, name: Group, groups: slice, resamples: int) -> results.GroupComparison:
        """Return the comparison of a group, or of all of them; no p value is corrected."""
        options = self._options
        how: dict[str, Any] = {"confidence": options.confidence, "seed": options.seed}
        counts, numbers = self.counts(groups), range(self._counts.shape[1])[groups]
        mean, against = None, None
        if counts.pairs:
            mean, against = ExactSums.merge(self._totals[groups]).over(counts.pairs)
        clusters, missing = (
            ClusterSums.merge([_NO_CLUSTERS, *sums.parts(numbers)])
            for sums in (self._clusters, self._missing)
        )
        lost_together = 1.0
        if len(missing):
            alone = counts.missing - missing.counts.sum()
            lost_together = float((missing.counts @ missing.counts + alone) / counts.missing)
        result = paired_result(
            PairedSums.merge([_NO_PAIRS, *self._pairs.parts(numbers)]),
            clusters,
            resamples=resamples,
            **how,
        )
        if options.cluster is None:  # units of repeats are rows
            result = replace(result, clusters=None, effective_clusters=None)
        unknown = UnknownTokens.merge(self._unknown.parts(numbers))
        corpus, ways = self._compared_corpora(groups, resample=resamples > 0, **how)
        return results.GroupComparison(
            group=name,
            counts=counts,
            mean=mean,
            against_mean=against,
            result=result,
            p_adjusted=None,
            caveats=caveats_of_difference(result, counts.clipped, unknown, ways),
            lost_together=lost_together,
            corpus=corpus,
        )

    @cached_property
    def _corpus_rows(self) -> tuple[IntArray, IntArray, IntArray, list[IntArray]]:
        """The labels and counts of all pairs, of both sides, and which of them each group has."""
        groups, labels, mine, theirs = map(np.concatenate, zip(*self._corpora, strict=True))
        self._corpora.clear()
        return labels, mine, theirs, self._rows_by_group(groups)

    def _rows_by_group(self, groups: IntArray) -> list[IntArray]:
        ends = np.cumsum(np.bincount(groups, minlength=self._counts.shape[1]))
        return np.split(np.argsort(groups, kind="stable"), ends[:-1])

    def _compared_corpora(self, groups: slice, **how: Any) -> tuple[CorpusResult | None, int]:
        """Return the comparison of a corpus, and how many ways its texts are cut in."""
        name = self._corpus
        if name is None or not self._counts.any():
            return None, 1
        labels, *sides, of_groups = self._corpus_rows
        rows = np.sort(np.concatenate(of_groups[groups]))  # as they were read
        if (ways := len(np.unique(labels[rows]))) > 1:
            return None, ways
        mine, theirs = (counts[rows].astype(np.float64) for counts in sides)

        def score(sums: Doubles) -> float:
            own = corpus_score(name, sums.astype(np.int64).tolist())
            return 0.0 - own if name == "ter" else own

        return compare_corpora(mine, theirs, score, **how), 1


def _furthest(moved: Entries, most: int) -> Entries:
    """Return the rows of each group that rose most and fell most, at most so many of each kind."""
    kinds = moved["group"].astype(np.int64) * 2 + (moved["change"] > 0)
    order = np.lexsort((moved["row"], moved["file"], -np.abs(moved["change"]), kinds))
    kinds = kinds[order]
    return moved[order[np.arange(len(order)) - np.searchsorted(kinds, kinds) < most]]


class _RowsInOrder:
    """A sample of rows, in blocks of neighbours, that tells whether neighbours move together."""

    def __init__(self) -> None:
        self._share = 1.0
        self._rows: list[tuple[Entries, Doubles]] = []

    def add(self, entries: Entries, differences: Doubles) -> None:
        """Add rows with their differences, and keep some."""
        self._rows.append(self._sample(entries[["group", "file", "row"]], differences))
        while sum(len(rows) for rows, _ in self._rows) > _MOST_NEIGHBOURS:
            self._share /= 2
            self._rows = [self._sample(*rows) for rows in self._rows]

    def _sample(self, entries: Entries, differences: Doubles) -> tuple[Entries, Doubles]:
        block = entries["row"] // _BLOCK + (entries["file"].astype(np.int64) << 40)
        chosen = (block.astype(np.uint64) * GOLDEN) / 2.0**64 < self._share
        return entries[chosen], differences[chosen]

    def correlation(self) -> float | None:
        """Return the rank correlation of neighbours, if it is not chance and is worth a word."""
        from scipy.stats import rankdata  # here, since it takes half a second

        if not any(len(rows) for rows, _ in self._rows):
            return None
        entries, differences = map(np.concatenate, zip(*self._rows, strict=True))
        order = np.lexsort((entries["row"], entries["file"], entries["group"]))
        entries = entries[order]
        entries["row"] //= _BLOCK
        follows = entries[1:] == entries[:-1]
        # That a group or a long stretch has changed more than others does not show documents.
        entries["row"] //= _STRETCH // _BLOCK
        stretches = np.cumsum(np.append(True, entries[1:] != entries[:-1])) - 1
        ranks = rankdata(differences[order])
        ranks -= (np.bincount(stretches, ranks) / np.bincount(stretches))[stretches]
        number, spread = int(follows.sum()), float(np.mean(ranks**2))
        if not number or not spread:
            return None
        together = float(np.mean((ranks[1:] * ranks[:-1])[follows])) / spread
        is_chance = together * math.sqrt(number) < _NEIGHBOUR_ERRORS
        return None if is_chance or together < _LEAST_CORRELATION else together


class Paired(NamedTuple):
    """What reading and pairing gave: the sums of each pair of sides.

    `common` has, of each group, the number of the rows that all systems have scored, and the sums
    of their scores by system.
    """

    names: tuple[str, ...]
    sums: tuple[PairedGroups, ...]
    common: Sequence[tuple[int, ExactSums]]
    reader: RowReader
    without_system: int


def pair_sides(
    options: CompareOptions,
    measure: str,
    runs: Sequence[FinishedRun],
    references: str | None,
    settings: Sequence[SettingsDifference],
) -> Paired:
    """Read all rows, put them on the disk, and add them up by pair of sides.

    Without systems each run is a side. `references` is the column of references to digest; None if
    that is not needed. `settings` has one for each AGAINST, or one for all systems.
    """
    reader = RowReader(options, measure, runs)
    rows = np.zeros(MOST_GROUPS + 1, dtype=np.int64)
    wanted = len(options.systems or ()) or len(rows)
    total = sum(run.rows for run in runs)
    with closing(row_buckets(total)) as buckets, closing(reader):
        for side, run in enumerate(runs):
            for entries in reader.read(run, side=side, references=references):
                rows += np.bincount(entries["side"], minlength=len(rows))
                buckets.add(entries[entries["side"] < wanted])
        names, sides = tuple(run.folder.shown for run in runs), [*range(len(runs))]
        if options.systems is not None:
            codes = {
                name: code
                for (name,), code in reader.systems.items()
                if name is not None and rows[code]
            }
            names = options.systems or tuple(codes)
            _check_systems(options, names, [*codes])
            sides = [codes[name] for name in names]
        sums, common = _add_up(options, names, sides, settings, reader, buckets)
    without = reader.systems.get((None,))
    return Paired(names, sums, common, reader, 0 if without is None else int(rows[without]))


def _check_systems(options: CompareOptions, names: Sequence[str], present: Sequence[str]) -> None:
    gone = [name for name in names if name not in present]
    if gone or not 2 <= len(names) <= MOST_SYSTEMS:
        raise ConfigError(
            f"systems cannot be compared: got {', '.join(map(repr, gone or names)) or 'none'}"
            f"{' without a row that has a key' if gone else ''}; expected from 2 to {MOST_SYSTEMS} "
            f"of those in the column {options.system_column!r}: "
            f"{', '.join(map(repr, present[:20])) or 'it has none'}. Correct --systems."
        )


def _add_up(
    options: CompareOptions,
    names: Sequence[str],
    sides: Sequence[int],
    settings: Sequence[SettingsDifference],
    reader: RowReader,
    buckets: Buckets,
) -> tuple[tuple[PairedGroups, ...], list[tuple[int, ExactSums]]]:
    # The first side is compared with every other; to rank systems, each with each.
    pairs = [*combinations(range(len(names)), 2)]
    if not options.is_ranking:
        pairs = pairs[: len(names) - 1]
    groups = len(reader.groups)
    if len(pairs) * groups > MOST_GROUPS:
        raise ConfigError(
            f"there is too much to compare: got {len(pairs):,} comparisons of {groups:,} "
            f"groups; expected at most {MOST_GROUPS:,} together. Name fewer columns with --by, or "
            "fewer systems."
        )
    # Of many systems the counts may not fit in memory.
    has_corpus = not options.is_ranking and "counts" in (reader.entry.names or ())
    of_pairs = [*settings] * (len(pairs) // len(settings))
    corpus = reader.measure if has_corpus else None
    sums = tuple(
        PairedGroups(options, pair, names, own, groups, corpus)
        for pair, own in zip(pairs, of_pairs, strict=True)
    )
    rows_of_all = np.zeros(groups, dtype=np.int64)
    of_systems = [ExactSums(steps=(0,) * len(names))] * groups
    doubled = np.zeros((2, len(names)), dtype=np.int64)
    repeated = None if reader.repeats is None else reader.repeats.found()
    for entries in buckets.take(reader.entry):
        if repeated is not None:
            entries["cluster"] = repeated.numbers_of(entries["cluster"])
        by_side = pair_entries(entries, 1 + max(*sides, int(entries["side"].max())))
        places, counts = (own[:, sides] for own in by_side)
        doubled += ((counts > 1).sum(axis=0), (counts * (counts > 1)).sum(axis=0))
        clipped = reader.for_means(entries)
        for paired in sums:
            paired.add(entries, clipped, *places[:, paired.sides].T)
        if options.is_ranking:
            scores = np.where(places < 0, np.nan, clipped.scores[places])
            rows = ~np.isnan(scores).any(axis=1)
            of_group = entries["group"][places[rows, 0]].astype(np.int64)
            rows_of_all += np.bincount(of_group, minlength=groups)
            more = exact_sums(scores[rows], of_group, groups)
            of_systems = [*map(ExactSums.merge, zip(of_systems, more, strict=True))]
    _check_unique(doubled, names, options)
    return sums, [*zip(rows_of_all.tolist(), of_systems, strict=True)]


def _check_unique(doubled: IntArray, names: Sequence[str], options: CompareOptions) -> None:
    if doubled.any():
        counts = [
            f"{keys:,} keys that are there more than once in {name!r}, in {rows:,} rows"
            for name, (keys, rows) in zip(names, doubled.T.tolist(), strict=True)
            if keys
        ]
        raise ConfigError(
            f"--key {' '.join(options.key)} does not identify a row: got {'; '.join(counts)}; "
            f"expected each key once. Name more columns, such as that of the "
            f"{'system' if options.systems is None else 'test set'}."
        )
