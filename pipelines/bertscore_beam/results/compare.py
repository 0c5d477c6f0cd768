"""Compare finished runs row by row, or systems of one run.

    open, check settings --> read entries --> Spill --> paired buckets --> PairedGroups --> Compared

The runs are only read. Memory is bounded by some parts, one bucket, the groups and the clusters;
the local disk holds 58 bytes for each row meanwhile.
"""

from collections.abc import Sequence
from dataclasses import replace

from bertscore_beam.results.comparable import check_comparable, compare_settings
from bertscore_beam.results.compare_options import CompareOptions
from bertscore_beam.results.comparison import (
    WHOLE,
    Compared,
    Comparison,
    Group,
    GroupComparison,
    MovedRow,
    PairCounts,
    Ranking,
    SettingsDifference,
)
from bertscore_beam.results.gate import judge
from bertscore_beam.results.paired_groups import GroupSums, PairedGroups
from bertscore_beam.results.paired_sides import Paired, pair_sides
from bertscore_beam.results.ranking import rank
from bertscore_beam.results.sides import Sides, check_columns, of_pair, references_to_check
from bertscore_beam.results.warnings import unpaired_words, warnings_of
from bertscore_beam.score.finished import open_finished
from bertscore_core.errors import ConfigError
from bertscore_core.paired import PairedResult, check_student, holm, paired_result
from bertscore_core.resampling import RESAMPLES

MOST_RESAMPLED = 100
"""Most groups, over all comparisons, that are resampled: a fifth of a second each."""


def compare_runs(options: CompareOptions) -> Compared:
    """Compare a run with others, or systems within it.

    Raises:
        ConfigError: The runs cannot be compared, or not as asked for; the message says why.
        InputError: A part is damaged.
        OSError: A run cannot be reached.
    """
    sides, settings = _open(options)
    paired = pair_sides(options, sides, [one.noise for one in settings])
    comparisons = tuple(
        _comparison(options, paired, number, of_pair(settings, number))
        for number in range(len(paired.pairs))
    )
    rankings = _rankings(options, paired, comparisons) if options.is_ranking else ()
    return Compared(comparisons=comparisons, rankings=rankings)


def _open(options: CompareOptions) -> tuple[Sides, list[SettingsDifference]]:
    """Open the runs, and check everything that can be checked before rows are read."""
    check_student()
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


def _comparison(
    options: CompareOptions, paired: Paired, number: int, settings: SettingsDifference
) -> Comparison:
    """Return the result of one pair of sides."""
    one, other = (paired.names[side] for side in paired.pairs[number])
    sums = paired.sums[number]
    everything = sums.of(None)
    _check_references(options, everything.counts, one, other)
    ordered = sorted(paired.groups, key=lambda group: [(v is None, v or "") for v in group])
    groups = [] if not options.by else ordered
    many = len(paired.pairs) * (1 + len(groups)) > MOST_RESAMPLED
    whole = _group(options, WHOLE, everything, many=len(paired.pairs) > MOST_RESAMPLED)
    compared = [
        _group(options, group, sums.of(paired.groups[group]), many=many) for group in groups
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


def check_paired(compared: Compared) -> None:
    """Check that each comparison has a pair: without one there is no difference to show.

    Raises:
        ConfigError: One has none.
    """
    for one in compared.comparisons:
        if not one.whole.counts.pairs:
            raise ConfigError(
                f"{one.run!r} and {one.against!r} cannot be compared: "
                f"{unpaired_words(one.whole.counts)}"
            )


def _check_references(options: CompareOptions, counts: PairCounts, one: str, other: str) -> None:
    """Check that pairs by position have the same references.

    Raises:
        ConfigError: Some have other references.
    """
    if counts.other_references and not options.key and not options.force:
        raise ConfigError(
            f"rows cannot be paired by file and position: got {counts.other_references:,} of "
            f"{counts.pairs:,} rows with other references in {one!r} than in {other!r}; expected "
            "the same. Name the columns that identify a row with --key, or use --force."
        )


def _moved(paired: Paired, sums: PairedGroups) -> tuple[MovedRow, ...]:
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
    options: CompareOptions, paired: Paired, comparisons: Sequence[Comparison]
) -> tuple[Ranking, ...]:
    """Return the ranking of the whole, and of each group that all systems have rows of.

    Raises:
        ConfigError: No row was scored by all systems.
    """
    if not paired.common.of(None)[0]:
        raise ConfigError(
            f"{len(paired.names)} systems cannot be ranked: got no row that all of them have "
            "scored; expected some. Check --key, or name the systems to rank with --systems."
        )
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
