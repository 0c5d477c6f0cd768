"""Compare finished runs row by row, or systems of one run.

    open, check settings --> read entries --> Spill --> paired buckets --> PairedGroups --> Compared

The runs are only read. Memory is bounded by some parts, one bucket, the groups and the clusters;
the local disk holds 58 bytes for each row meanwhile.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import ConfigError
from bertscore_core.paired import PairedResult, holm, paired_result
from bertscore_core.resampling import RESAMPLES
from pipelines.results.comparable import check_comparable, compare_settings
from pipelines.results.comparison import (
    WHOLE,
    Compared,
    Comparison,
    Group,
    GroupComparison,
    MovedRow,
    Ranking,
    SettingsDifference,
)
from pipelines.results.gate import judge
from pipelines.results.keyed_rows import MOST_GROUPS, LeftOut, Numbers, RowColumns, read_entries
from pipelines.results.paired_groups import GroupSums, PairedGroups
from pipelines.results.pairing import Spill, paired_buckets
from pipelines.results.ranking import CommonRows, rank
from pipelines.results.sides import (
    MOST_SYSTEMS,
    Sides,
    check_columns,
    pairs_of,
    references_to_check,
)
from pipelines.results.warnings import warnings_of
from pipelines.score.finished import open_finished

MOST_RESAMPLED = 100
"""Most groups, over all comparisons, that are resampled: a fifth of a second each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What to compare, and how.

    Attributes:
        run: Output folder of the run.
        against: Output folders of runs to compare it with, each by itself; none with `systems`.
        key: Columns that identify a row; empty to pair rows by file and position.
        by: Columns of groups.
        cluster: Column of clusters; None if rows are independent.
        measure: `f1`, `precision` or `recall`.
        confidence: Of intervals, bounds and the gate.
        fail_if_drop: The drop that the gate looks for; None for no gate.
        max_missing_fraction: Largest share of the rows scored in AGAINST that may have no score in
            RUN, with the gate.
        force: Whether to compare what should not be compared.
        systems: Systems of the run to compare: two, or more for a ranking; empty to rank all. None
            to compare runs.
        system_column: Column of systems.
        seed: Of the tests by resampling.
    """

    run: str
    against: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    cluster: str | None = None
    measure: str = "f1"
    confidence: float = 0.95
    fail_if_drop: float | None = None
    max_missing_fraction: float = 0.01
    force: bool = False
    systems: tuple[str, ...] | None = None
    system_column: str = "system"
    seed: int = 12345

    @property
    def is_ranking(self) -> bool:
        """Whether each system is compared with each other one."""
        return self.systems is not None and len(self.systems) != 2

    @property
    def columns(self) -> RowColumns:
        """The columns that the comparison needs."""
        return RowColumns(
            measure=self.measure,
            key=self.key,
            by=self.by,
            cluster=self.cluster,
            system=None if self.systems is None else self.system_column,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Paired:
    """What reading and pairing gave.

    Attributes:
        names: The sides.
        pairs: The pairs of sides that are compared.
        sums: The sums of each pair.
        common: Sums over the rows that all sides have scored.
        groups: The number of each group.
        files: Names of the input files by number.
        left_out: Rows that could not be paired.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    sums: tuple[PairedGroups, ...]
    common: CommonRows
    groups: dict[Group, int]
    files: tuple[str, ...]
    left_out: LeftOut


def compare_runs(options: CompareOptions) -> Compared:
    """Compare a run with others, or systems within it.

    Raises:
        ConfigError: The runs cannot be compared, or not as asked for; the message says why.
        InputError: A part is damaged.
        OSError: A run cannot be reached.
    """
    sides, settings = _open(options)
    with tempfile.TemporaryDirectory(prefix="bertscore-compare-") as folder:
        paired = _pair(options, sides, settings, Spill(Path(folder), sides.rows))
    comparisons = tuple(
        _comparison(options, paired, number, settings[min(number, len(settings) - 1)])
        for number in range(len(paired.pairs))
    )
    rankings = _rankings(options, paired, comparisons) if options.is_ranking else ()
    return Compared(comparisons=comparisons, rankings=rankings)


def _open(options: CompareOptions) -> tuple[Sides, list[SettingsDifference]]:
    """Open the runs, and check everything that can be checked before rows are read."""
    run = open_finished(options.run, "RUN")
    others = [open_finished(folder, "AGAINST") for folder in options.against]
    settings = [compare_settings(run, other) for other in others or [run]]
    for other, difference in zip(others, settings, strict=False):
        if not options.force:
            check_comparable(difference, run.folder.shown, other.folder.shown)
    runs = (run, *others)
    check_columns(runs, options.columns)
    sides = Sides(
        runs=runs,
        systems=options.systems,
        columns=options.columns,
        references=None if options.key else references_to_check(runs),
    )
    return sides, settings


def _pair(
    options: CompareOptions, sides: Sides, settings: Sequence[SettingsDifference], spill: Spill
) -> _Paired:
    """Read all rows, and add them up by pair of sides."""
    left_out = LeftOut()
    numbers = Numbers(systems={name: code for code, name in enumerate(options.systems or ())})
    rows = _read(sides, numbers, left_out, spill)
    names = _names(options, sides, numbers, rows)
    pairs = pairs_of(len(names), is_all=options.is_ranking)
    groups = numbers.groups or {WHOLE: 0}
    if len(pairs) * len(groups) > MOST_GROUPS:
        raise ConfigError(
            f"there is too much to compare: got {len(pairs):,} comparisons of {len(groups):,} "
            f"groups; expected at most {MOST_GROUPS:,} together. Name fewer columns with --by, or "
            "fewer systems."
        )
    noise = max(one.noise for one in settings)
    by_cluster = options.cluster is not None
    sums = tuple(PairedGroups(len(groups), noise, by_cluster=by_cluster) for _ in pairs)
    common = CommonRows(len(groups), len(names))
    repeated = np.zeros((2, len(names)), dtype=np.int64)
    for bucket in paired_buckets(spill, len(names)):
        repeated += (bucket.repeated_keys, bucket.repeated)
        for (one, other), added in zip(pairs, sums, strict=True):
            added.add(bucket.entries, bucket.places[:, one], bucket.places[:, other])
        if options.is_ranking:
            common.add(bucket)
    _check_unique(repeated, names, options)
    return _Paired(
        names=names,
        pairs=tuple(pairs),
        sums=sums,
        common=common,
        groups=groups,
        files=tuple(numbers.files),
        left_out=left_out,
    )


def _read(sides: Sides, numbers: Numbers, left_out: LeftOut, spill: Spill) -> npt.NDArray[np.int64]:
    """Put all rows on the disk; return the number of rows of each side."""
    rows = np.zeros(MOST_GROUPS + 1, dtype=np.int64)
    wanted = len(sides.systems or ())
    for side, run in enumerate(sides.runs):
        for entries in read_entries(
            run, sides.columns, numbers, left_out, side=side, references=sides.references
        ):
            kept = entries[entries["side"] < wanted] if wanted else entries
            rows += np.bincount(kept["side"], minlength=len(rows))
            spill.add(kept)
    return rows


def _names(
    options: CompareOptions, sides: Sides, numbers: Numbers, rows: npt.NDArray[np.int64]
) -> tuple[str, ...]:
    """Return the names of the sides.

    Raises:
        ConfigError: A system has no row, or there are too few or too many.
    """
    if options.systems is None:
        return tuple(run.folder.shown for run in sides.runs)
    names = options.systems or tuple(numbers.systems)
    there = [name for name, code in numbers.systems.items() if code >= len(names) or rows[code]]
    gone = [name for name in names if name not in there]
    if gone or not 2 <= len(names) <= MOST_SYSTEMS:
        raise ConfigError(
            f"systems cannot be compared: got {', '.join(map(repr, gone or names)) or 'none'}"
            f"{' without a row that has a key' if gone else ''}; expected from 2 to {MOST_SYSTEMS} "
            f"of those in the column {options.system_column!r}: "
            f"{', '.join(map(repr, there[:20])) or 'it has none'}. Correct --systems."
        )
    return names


def _check_unique(
    repeated: npt.NDArray[np.int64], names: Sequence[str], options: CompareOptions
) -> None:
    """Check that no side has a key twice.

    Raises:
        ConfigError: One has.
    """
    if repeated.any():
        counts = [
            f"{keys:,} keys are there more than once in {name!r}, in {rows:,} rows"
            for name, (keys, rows) in zip(names, repeated.T.tolist(), strict=True)
            if keys
        ]
        raise ConfigError(
            f"--key {' '.join(options.key)} does not identify a row: got {'; '.join(counts)}; "
            "expected each key once. Name more columns, such as that of the system."
        )


def _comparison(
    options: CompareOptions, paired: _Paired, number: int, settings: SettingsDifference
) -> Comparison:
    """Return the result of one pair of sides."""
    one, other = (paired.names[side] for side in paired.pairs[number])
    sums = paired.sums[number]
    _check_pairs(options, sums.whole(), one, other)
    ordered = sorted(paired.groups, key=lambda group: [(v is None, v or "") for v in group])
    groups = [] if not options.by else ordered
    many = len(paired.pairs) * (1 + len(groups)) > MOST_RESAMPLED
    whole = _group(options, WHOLE, sums.whole(), many=len(paired.pairs) > MOST_RESAMPLED)
    compared = [
        _group(options, group, sums.group(paired.groups[group]), many=many) for group in groups
    ]
    adjusted = holm([one_group.p_value for one_group in compared])
    compared = [replace(g, p_adjusted=p) for g, p in zip(compared, adjusted, strict=True)]
    whole, *compared = _judged(options, [replace(whole, p_adjusted=whole.p_value), *compared])
    return Comparison(
        run=one,
        against=other,
        measure=options.measure,
        key=options.key,
        by=options.by,
        cluster=options.cluster,
        confidence=options.confidence,
        drop=options.fail_if_drop,
        settings=settings,
        whole=whole,
        groups=tuple(compared),
        moved=_moved(paired, sums),
        warnings=warnings_of(
            whole, compared, settings, paired.left_out, is_keyed=bool(options.key)
        ),
    )


def _group(
    options: CompareOptions, group: Group, sums: GroupSums, *, many: bool
) -> GroupComparison:
    result: PairedResult = paired_result(
        sums.pairs,
        sums.clusters,
        confidence=options.confidence,
        resamples=0 if many else RESAMPLES,
        seed=options.seed,
    )
    pairs = sums.counts.pairs
    return GroupComparison(
        group=group,
        counts=sums.counts,
        mean=sums.total / pairs if pairs else None,
        against_mean=sums.against_total / pairs if pairs else None,
        result=result,
        p_adjusted=None,
    )


def _judged(options: CompareOptions, groups: list[GroupComparison]) -> list[GroupComparison]:
    """Return the whole and its groups with what the gate says of each."""
    if options.fail_if_drop is None:
        return groups
    gates = judge(
        [one.result for one in groups],
        [one.counts for one in groups],
        drop=options.fail_if_drop,
        confidence=options.confidence,
        most_missing=options.max_missing_fraction,
    )
    return [replace(one, gate=gate) for one, gate in zip(groups, gates, strict=True)]


def _check_pairs(options: CompareOptions, whole: GroupSums, one: str, other: str) -> None:
    """Check that there are pairs, and that pairs by position have the same references.

    Raises:
        ConfigError: There are none, or some have other references.
    """
    counts = whole.counts
    if not counts.pairs and not options.is_ranking:
        both = counts.lost + counts.gained + counts.unscored
        raise ConfigError(
            f"{one!r} and {other!r} cannot be compared: got no row with scores on both sides "
            f"({both:,} rows are on both sides, {counts.only_run:,} only in the first, "
            f"{counts.only_against:,} only in the second); expected some. Check --key."
        )
    if counts.other_references and not options.key and not options.force:
        raise ConfigError(
            f"rows cannot be paired by file and position: got {counts.other_references:,} of "
            f"{counts.pairs:,} rows with other references in {one!r} than in {other!r}; expected "
            "the same. Name the columns that identify a row with --key, or use --force."
        )


def _moved(paired: _Paired, sums: PairedGroups) -> tuple[MovedRow, ...]:
    values = list(paired.groups)
    return tuple(
        MovedRow(
            change=float(mine["score"]) - float(theirs["score"]),
            score=float(mine["score"]),
            against_score=float(theirs["score"]),
            file=paired.files[mine["file"]],
            row=int(mine["row"]),
            against_file=paired.files[theirs["file"]],
            against_row=int(theirs["row"]),
            group=values[mine["group"]],
        )
        for mine, theirs in sums.moved()
    )


def _rankings(
    options: CompareOptions, paired: _Paired, comparisons: Sequence[Comparison]
) -> tuple[Ranking, ...]:
    """Return the ranking of the whole, and of each group that all systems have rows of."""
    wanted: list[tuple[Group, int | None]] = [(WHOLE, None)]
    wanted += [(one.group, paired.groups[one.group]) for one in comparisons[0].groups]
    rankings = []
    for place, (group, number) in enumerate(wanted):
        compared = {
            pair: one.whole if not place else one.groups[place - 1]
            for pair, one in zip(paired.pairs, comparisons, strict=True)
        }
        ranking = rank(group, paired.names, paired.common.of(number), compared, options.confidence)
        rankings += [] if ranking is None else [ranking]
    return tuple(rankings)
