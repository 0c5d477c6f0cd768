"""The sides of a comparison: read, paired, added up by group, and ranked."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bertscore_beam.compare import results
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.keyed_rows import (
    Entries,
    Grouping,
    RowReader,
    pair_entries,
    row_buckets,
)
from bertscore_beam.compare.repeats import GOLDEN, Keys
from bertscore_beam.compare.settings import SettingsDifference
from bertscore_beam.dump.census import MOST_GROUPS, WHOLE, Group
from bertscore_beam.files.buckets import Buckets, rows_by_value
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
from bertscore_core.sums import ExactSums, Sums, SumsByName, exact_sums
from bertscore_core.tokens import BoolArray, IntArray

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

_MOST_INPUTS = 10
"""Most inputs of lost rows that a group names."""
_NO_COUNTS, _NO_SCORES, _NO_TOKENS = results.PairCounts(), ExactSums(steps=(0, 0)), UnknownTokens()
_NO_PAIRS = PairedSums.of(np.zeros(0))
_NO_CLUSTERS = ClusterSums.of(np.zeros(0), np.zeros(0, dtype=np.uint64))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums(Sums):
    """What is added up of the rows of a group.

    Attributes:
        totals: Sums of the scores of the pairs, in RUN and in AGAINST.
        alone: Differences of the pairs that count by themselves.
        clusters: Differences of all others.
        missing: A 1 for each row of a cluster that only AGAINST has scored.
        unknown: Tokens of the pairs, on both sides.
        reasoning: How many pairs are scored with a model's reasoning, in RUN and in AGAINST.
        lost: How many rows only AGAINST has scored, by the number of their input.
    """

    counts: results.PairCounts = _NO_COUNTS
    totals: ExactSums = _NO_SCORES
    alone: PairedSums = _NO_PAIRS
    clusters: ClusterSums = _NO_CLUSTERS
    missing: ClusterSums = _NO_CLUSTERS
    unknown: UnknownTokens = _NO_TOKENS
    reasoning: tuple[int, int] = (0, 0)
    lost: Mapping[int, int] = field(default_factory=dict)


class _Joined(NamedTuple):
    """Rows of two sides, one next to the other. N of each.

    Numbers are 0 but for pairs, and the differences are divided by 2**exponent. The cluster of a
    pair that counts by itself is 0.
    """

    mine: Entries
    theirs: Entries
    kinds: dict[str, BoolArray]
    cells: IntArray
    scores: Doubles
    differences: Doubles
    exponent: int
    is_moved: BoolArray
    clusters: Keys


class PairedGroups:
    """The sums of two sides, which grow bucket by bucket.

    Attributes:
        sides: Positions of the two among all sides.
        names: What the two are called.
        settings: How their settings differ: moves up to its noise need no reason.
        groupings: The groups of `--by`, then those by language, if these are compared as well.
        moved: The rows of each of the first that rose most, and those that fell most. Shape (M,).
    """

    def __init__(
        self,
        reader: RowReader,
        sides: tuple[int, int],
        names: Sequence[str],
        settings: SettingsDifference,
        groupings: Sequence[Grouping],
    ) -> None:
        """Begin with nothing. The reader has read all rows."""
        self.sides, self.settings, self.groupings = sides, settings, groupings
        self.names = names[sides[0]], names[sides[1]]
        self._reader, self._options, self._files = reader, reader.options, [*reader.files]
        # Of many systems the counts may not fit in memory.
        self._has_corpus = reader.has_counts and not self._options.is_ranking
        self._corpora: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
        self._sums = [SumsByName[int, GroupSums]() for _ in groupings]
        sides_of_row = [("run", reader.entry), ("against", reader.entry)]
        self.moved = np.zeros(0, dtype=[("change", "<f8"), ("group", "<u4"), *sides_of_row])
        self._in_order = _RowsInOrder()

    def add(self, entries: Entries, mine: IntArray, theirs: IntArray) -> None:
        """Add rows that are paired: positions in `entries`, `ABSENT` where a side has none."""
        present = (mine >= 0) | (theirs >= 0)
        rows = self._joined(entries, mine[present], theirs[present])
        for sums, grouping in zip(self._sums, self.groupings, strict=True):
            _add(sums, rows, grouping.of_cells[rows.cells], len(grouping.names))
        self._keep(rows)

    def _joined(self, entries: Entries, mine: IntArray, theirs: IntArray) -> _Joined:
        run, against, noise = entries[mine], entries[theirs], self.settings.noise
        in_run, in_against = mine >= 0, theirs >= 0
        scored = in_run & ~np.isnan(run["score"])
        before = in_against & ~np.isnan(against["score"])
        both, pairs = in_run & in_against, scored & before
        means, raws, clipped = zip(*map(self._reader.for_means, (run, against)), strict=True)
        scores = np.where(pairs, means, 0.0)
        with np.errstate(over="ignore"):  # infinity is beyond any noise, too
            raw = np.subtract(*np.where(pairs, raws, 0.0))
        # Coarser formats have more noise, but not to one side: only what the last bits of float32
        # give counts as nothing, so that a fall of all rows is found in every format.
        is_moved = np.abs(raw) > min(noise, NOISE)
        differences, exponent = differences_of(*scores)
        is_known = (run["reference"] != 0) & (against["reference"] != 0)
        return _Joined(
            mine=run,
            theirs=against,
            kinds={
                "pairs": pairs,
                "lost": both & before & ~scored,
                "gained": both & scored & ~before,
                "unscored": both & ~scored & ~before,
                "only_run": in_run & ~in_against,
                "only_against": in_against & ~in_run,
                "only_against_scored": before & ~in_run,
                "up": raw > noise,
                "down": raw < -noise,
                "clipped": pairs & np.any(clipped, axis=0),
                "other_references": pairs & is_known & (run["reference"] != against["reference"]),
            },
            cells=np.where(in_run, run["group"], against["group"]),
            scores=scores.T,
            differences=np.where(is_moved, differences, 0.0),
            exponent=exponent,
            is_moved=is_moved,
            clusters=self._clusters_of(run, against),
        )

    def _clusters_of(self, mine: Entries, theirs: Entries) -> Keys:
        """Return the cluster of each pair; 0 for one that counts by itself. Shape (N,)."""
        own: Keys = mine["cluster"]
        if self._options.cluster is not None:
            return own
        other = theirs["cluster"]
        both = (own != 0) & (other != 0)  # a repeat has the texts of another on both sides
        return np.where(both, own << np.uint64(32) | other, np.uint64(0))

    def _keep(self, rows: _Joined) -> None:
        """Keep the rows that moved most, a sample of neighbours, and the counts of a corpus."""
        pairs, groups = rows.kinds["pairs"], self.groupings[0].of_cells[rows.cells]
        if self._options.moved_rows:
            with np.errstate(over="ignore", invalid="ignore"):
                change = rows.mine["score"] - rows.theirs["score"]
            far = (rows.kinds["up"] | rows.kinds["down"]) & (change != 0)
            moved = np.zeros(np.count_nonzero(far), dtype=self.moved.dtype)
            columns = change, groups, rows.mine, rows.theirs
            for name, column in zip(moved.dtype.names or (), columns, strict=True):
                moved[name] = column[far]
            self.moved = _furthest(np.append(self.moved, moved), self._options.moved_rows)
        if self._has_corpus:
            mine, theirs = rows.mine[pairs], rows.theirs[pairs]
            counts = mine["counts"], theirs["counts"]
            self._corpora.append((rows.cells[pairs], mine["label"], *counts))
        if self._options.cluster is None and not self._options.is_ranking:
            alone = pairs & (rows.clusters == 0)
            self._in_order.add(rows.mine[alone], groups[alone], rows.differences[alone])

    @property
    def neighbours(self) -> float | None:
        """Rank correlation of rows of a group that follow each other; None if they are unrelated.

        None with clusters, too.
        """
        return self._in_order.correlation()

    def compared(self, name: Group, resamples: int, grouping: int = 0) -> results.GroupComparison:
        """Return the comparison of a group, or of all rows; no p value is corrected."""
        options, known = self._options, self.groupings[grouping].names
        numbers = [*known.values()] if name == WHOLE else [known[name]]
        sums = GroupSums.merge(self._sums[grouping].parts(numbers))
        counts, missing = sums.counts, sums.missing
        how: dict[str, Any] = {"confidence": options.confidence, "seed": options.seed}
        mean, against = sums.totals.over(counts.pairs) if counts.pairs else (None, None)
        lost_together = 1.0
        if len(missing):
            alone = counts.missing - missing.counts.sum()
            lost_together = float((missing.counts @ missing.counts + alone) / counts.missing)
        result = paired_result(sums.alone, sums.clusters, resamples=resamples, **how)
        if options.cluster is None:  # units of repeats are rows
            result = replace(result, clusters=None, effective_clusters=None)
        corpus, ways = self._compared_corpora(grouping, numbers, resample=resamples > 0, **how)
        lost = sorted(sums.lost.items(), key=lambda own: -own[1])[:_MOST_INPUTS]
        return results.GroupComparison(
            group=name,
            counts=counts,
            mean=mean,
            against_mean=against,
            result=result,
            p_adjusted=None,
            caveats=caveats_of_difference(
                result,
                counts.clipped,
                sums.unknown,
                ways,
                reasoning=max(sums.reasoning) / max(counts.pairs, 1),
            ),
            lost_together=lost_together,
            corpus=corpus,
            measure=self._reader.measure,
            lost=tuple(
                results.LostRows(
                    input_name=self._files[file],
                    rows=rows,
                    is_gone=self._files[file] not in self._reader.inputs,
                )
                for file, rows in lost
            ),
        )

    @cached_property
    def _corpus_rows(self) -> tuple[list[IntArray], list[list[IntArray]]]:
        """The labels and counts of all pairs, of both sides, and the pairs of each group."""
        cells, *rows = map(np.concatenate, zip(*self._corpora, strict=True))
        self._corpora.clear()
        return rows, [_rows_by_group(own.of_cells[cells], len(own.names)) for own in self.groupings]

    def _compared_corpora(
        self, grouping: int, groups: Sequence[int], **how: Any
    ) -> tuple[CorpusResult | None, int]:
        """Return the comparison of a corpus, and how many ways its texts are cut in."""
        name = self._reader.measure
        if not self._has_corpus or not self._sums[grouping]:
            return None, 1
        (labels, *sides), of_groups = self._corpus_rows
        rows = np.sort(np.concatenate([of_groups[grouping][own] for own in groups]))  # as read
        if (ways := len(np.unique(labels[rows]))) > 1:
            return None, ways
        mine, theirs = (counts[rows].astype(np.float64) for counts in sides)

        def score(sums: Doubles) -> float:
            own = corpus_score(name, sums.astype(np.int64).tolist())
            return 0.0 - own if name == "ter" else own

        return compare_corpora(mine, theirs, score, **how), 1


def _add(sums: SumsByName[int, GroupSums], rows: _Joined, groups: IntArray, number: int) -> None:
    """Add rows to the sums of their groups. Shape of the groups: (N,)."""
    counts = [np.bincount(groups[own], minlength=number) for own in rows.kinds.values()]
    pairs, missing = rows.kinds["pairs"], rows.kinds["lost"] | rows.kinds["only_against_scored"]
    totals = exact_sums(rows.scores, groups, number)
    both = [side[pairs] for side in (rows.mine, rows.theirs)]
    tokens = [
        np.append(*(side[name] for side in both)) for name in ("text_tokens", "unknown_tokens")
    ]
    unknown = UnknownTokens.by_group(tokens[0], tokens[1], np.tile(groups[pairs], 2), number)
    thinks = [side["reasoning"] & pairs for side in (rows.mine, rows.theirs)]
    reasoning = np.stack([np.bincount(groups[own], minlength=number) for own in thinks], axis=1)
    for group, own in rows_by_value(groups):
        paired, lost = own[pairs[own]], rows.theirs[own[missing[own]]]
        is_alone = rows.clusters[paired] == 0
        alone, paired = paired[is_alone], paired[~is_alone]
        more = GroupSums(
            counts=results.PairCounts(
                **{name: int(of[group]) for name, of in zip(rows.kinds, counts, strict=True)}
            ),
            totals=totals[group],
            alone=PairedSums.of(rows.differences[alone], rows.is_moved[alone], rows.exponent),
            unknown=unknown[group],
            reasoning=tuple(reasoning[group].tolist()),
            lost=Counter(lost["file"].tolist()),
        )
        if len(paired):
            how = rows.clusters[paired], rows.is_moved[paired], rows.exponent
            more = replace(more, clusters=ClusterSums.of(rows.differences[paired], *how))
        if len(clusters := lost["cluster"][lost["cluster"] != 0]):
            more = replace(more, missing=ClusterSums.of(np.ones(len(clusters)), clusters))
        sums.add(group, more)


def _rows_by_group(groups: IntArray, number: int) -> list[IntArray]:
    ends = np.cumsum(np.bincount(groups, minlength=number))
    return np.split(np.argsort(groups, kind="stable"), ends[:-1])


def _furthest(moved: Entries, most: int) -> Entries:
    """Return the rows of each group that rose most and fell most, at most so many of each kind."""
    kinds = moved["group"].astype(np.int64) * 2 + (moved["change"] > 0)
    order = furthest_first(moved, kinds)
    kinds = kinds[order]
    return moved[order[np.arange(len(order)) - np.searchsorted(kinds, kinds) < most]]


def furthest_first(moved: Entries, ranks: npt.ArrayLike = 0) -> IntArray:
    """Return the order of rows: by rank, those that moved furthest first, then by place."""
    places = moved["run"]["row"], moved["run"]["file"], -np.abs(moved["change"])
    return np.lexsort((*places, np.broadcast_to(ranks, len(moved))))


class _RowsInOrder:
    """A sample of rows, in blocks of neighbours, that tells whether neighbours move together."""

    def __init__(self) -> None:
        self._share = 1.0
        self._rows: list[tuple[Entries, Doubles]] = []

    def add(self, entries: Entries, groups: IntArray, differences: Doubles) -> None:
        """Add rows with their groups and differences, and keep some."""
        chosen = self._chosen(entries)
        rows = entries[["group", "file", "row"]][chosen]
        rows["group"] = groups[chosen]
        self._rows.append((rows, differences[chosen]))
        while sum(len(rows) for rows, _ in self._rows) > _MOST_NEIGHBOURS:
            self._share /= 2
            chosen_rows = [(self._chosen(rows), rows, own) for rows, own in self._rows]
            self._rows = [(rows[chosen], own[chosen]) for chosen, rows, own in chosen_rows]

    def _chosen(self, entries: Entries) -> BoolArray:
        block = entries["row"] // _BLOCK + (entries["file"].astype(np.int64) << 40)
        return np.asarray((block.astype(np.uint64) * GOLDEN) / 2.0**64 < self._share)

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

    `common` has, by group, the number of the rows that all systems have scored, and the sums of
    their scores by system.
    """

    names: tuple[str, ...]
    sums: tuple[PairedGroups, ...]
    common: Mapping[Group, tuple[int, ExactSums]]
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
) -> tuple[tuple[PairedGroups, ...], dict[Group, tuple[int, ExactSums]]]:
    # The first side is compared with every other; to rank systems, each with each.
    pairs = [*combinations(range(len(names)), 2)]
    if not options.is_ranking:
        pairs = pairs[: len(names) - 1]
    groupings = reader.groupings(len(pairs))
    known, of_cells = groupings[0]
    groups = len(known)
    if len(pairs) * groups > MOST_GROUPS:
        raise ConfigError(
            f"there is too much to compare: got {len(pairs):,} comparisons of {groups:,} "
            f"groups; expected at most {MOST_GROUPS:,} together. Name fewer columns with --by, or "
            "fewer systems."
        )
    of_pairs = [*settings] * (len(pairs) // len(settings))
    sums = tuple(
        PairedGroups(reader, pair, names, own, groupings)
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
        for paired in sums:
            paired.add(entries, *places[:, paired.sides].T)
        if options.is_ranking:
            scores = np.where(places < 0, np.nan, reader.for_means(entries)[0][places])
            rows = ~np.isnan(scores).any(axis=1)
            of_group = of_cells[entries["group"][places[rows, 0]]]
            rows_of_all += np.bincount(of_group, minlength=groups)
            more = exact_sums(scores[rows], of_group, groups)
            of_systems = [*map(ExactSums.merge, zip(of_systems, more, strict=True))]
    _check_unique(doubled, names, options)
    common = zip(rows_of_all.tolist(), of_systems, strict=True)
    return sums, dict(zip(known, common, strict=True))


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
