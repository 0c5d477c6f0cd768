"""Compare finished runs row by row, or systems of one run.

    open, check settings --> RowReader --> buckets, paired --> PairedGroups --> Compared

The runs are only read. Memory is bounded by some parts, one bucket, the groups and the clusters;
the local disk holds 74 bytes for each row meanwhile. The counts of a metric of corpora are on the
disk and in memory.
"""

import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from bertscore_beam.compare import results
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.gate import judge
from bertscore_beam.compare.keyed_rows import Entries, RowReader
from bertscore_beam.compare.paired_sides import Paired, PairedGroups, furthest_first, pair_sides
from bertscore_beam.compare.ranking import rankings_of
from bertscore_beam.compare.settings import (
    SettingsDifference,
    check_comparable,
    check_same_metrics,
    compare_settings,
    describe_differences,
)
from bertscore_beam.dump.census import WHOLE
from bertscore_beam.dump.columns import METRICS, SCORES, check_choosing_columns, is_of_bertscore
from bertscore_beam.dump.keys import keys_of
from bertscore_beam.dump.paths import column_of
from bertscore_beam.files.listing import real_path
from bertscore_beam.files.paths import resolve
from bertscore_beam.records.finished import (
    FinishedRun,
    RowPlace,
    input_schemas,
    open_finished,
    read_rows,
)
from bertscore_beam.records.groups import group_order
from bertscore_core.errors import ConfigError, InputError
from bertscore_core.stats.paired import RESAMPLES, holm


def _warnings_of(
    whole: results.GroupComparison,
    options: CompareOptions,
    paired: Paired,
    sums: PairedGroups,
    too_strict: Sequence[str],
) -> tuple[str, ...]:
    """Return the warnings of a comparison, as sentences."""
    counts, settings, neighbours = whole.counts, sums.settings, sums.neighbours
    without_key, without_system = paired.reader.without_key, paired.without_system
    what = "references of another length" if options.key else "other references"
    sentences = (
        (
            settings.moving,
            "The scores were made with different settings, so their difference does not come from "
            f"the texts alone: {describe_differences(settings.moving)}.",
        ),
        (not counts.pairs, f"There is no difference: {counts.unpaired_warning}"),
        (
            counts.missing and options.fail_if_drop is None,  # which says it itself
            f"{counts.missing:,} rows that the other side has scored have no score here "
            f"({counts.missing_fraction:.2%} of them). They are not part of the difference.",
        ),
        (
            counts.other_references,
            f"{counts.other_references:,} pairs have {what}: they differ by more than the "
            "candidates.",
        ),
        (
            without_key,
            f"{without_key:,} rows have a null or NaN in a column of the key, and are not "
            "compared.",
        ),
        (without_system, f"{without_system:,} rows name no system, and are not compared."),
        (
            too_strict,
            f"The p values of {' and of '.join(too_strict)} come from the t test: after correction "
            f"for the number of tests, none from {RESAMPLES:,} random swaps could be below "
            f"{1 - options.confidence:g}.",
        ),
        (
            neighbours is not None,
            "Rows next to each other move together, as rows of one document do (rank correlation "
            f"{neighbours or 0.0:.2f}): errors and p values are too small, and the gate fires too "
            "often. Name the column of the documents with --cluster.",
        ),
    )
    return tuple(sentence for applies, sentence in sentences if applies)


_MOST_RESAMPLED = 100
"""Most groups, over all comparisons, that are resampled: a fifth of a second each."""


def compare_runs(options: CompareOptions) -> results.Compared:
    """Compare a run with others, or systems within it.

    Raises:
        ConfigError: The runs cannot be compared, or not as asked for; the message says why.
        InputError: A part is damaged.
        OSError: A run cannot be reached.
    """
    run = open_finished(options.run)
    return compare_finished(options, run, [open_finished(folder) for folder in options.against])


def compare_finished(
    options: CompareOptions, run: FinishedRun, others: Sequence[FinishedRun]
) -> results.Compared:
    """Do what `compare_runs` does with runs that have been opened."""
    for other in others:
        if _place(other) == _place(run):
            raise ConfigError(
                f"a run cannot be compared with itself: got {run.folder.shown!r} twice; expected "
                "another one. Name that, or compare systems within the run with --systems."
            )
    settings = [compare_settings(run, other) for other in others or [run]]
    if not any(
        map(is_of_bertscore, options.measure)
    ):  # they move with neither model nor number format
        settings = [SettingsDifference(noise=0.0)] * len(settings)
    if not options.force:
        for other, difference in zip(others, settings, strict=False):
            check_comparable(difference, run.folder.shown, other.folder.shown)
            known = {*METRICS, *run.metrics, *other.metrics}
            names = [name for name in options.measure if name in known]
            check_same_metrics(run, other, names)
    runs = (run, *others)
    _check_columns(options, runs)
    references = None if options.key else _references_to_check(runs)
    return _compare(options, runs, references, settings)


def _compare(
    options: CompareOptions,
    runs: Sequence[FinishedRun],
    references: str | None,
    settings: Sequence[SettingsDifference],
) -> results.Compared:
    """Compare runs that may be compared; see `pair_sides`."""
    comparisons: list[results.Comparison] = []
    rankings: list[results.Ranking] = []
    moved: list[tuple[Entries, RowReader]] = []
    # Each measure takes a reading of its own: the local disk holds one of them at a time.
    for measure in options.measure:
        # The noise is that of BERTScore: other measures do not move with the number format.
        has_noise = is_of_bertscore(measure)
        of_measure = [one if has_noise else replace(one, noise=0.0) for one in settings]
        paired = pair_sides(options, measure, runs, references, of_measure)
        own = [_comparison(options, measure, paired, sums) for sums in paired.sums]
        comparisons += own
        moved += [(sums.moved, paired.reader) for sums in paired.sums]
        rankings += rankings_of(options, measure, paired, own) if options.is_ranking else ()
    corrected = _corrected(comparisons, len(options.measure))
    if options.fail_if_drop is not None:
        check_paired(results.Compared(comparisons=corrected, drop=options.fail_if_drop))
        corrected = judge(corrected, options)
    shown = map(partial(_with_moved, options, runs[0]), corrected, moved)
    return results.Compared(
        comparisons=tuple(shown), rankings=tuple(rankings), drop=options.fail_if_drop
    )


def _corrected(
    comparisons: Sequence[results.Comparison], measures: int
) -> tuple[results.Comparison, ...]:
    """Correct the p values of each pair of sides: of wholes, of groups, and of languages."""
    pairs = len(comparisons) // measures
    corrected = list(comparisons)
    for number in range(pairs):
        same = comparisons[number::pairs]
        wholes = _by_holm(one.whole for one in same)
        groups = _by_holm(group for one in same for group in one.groups)
        languages = _by_holm(group for one in same for group in one.languages)
        corrected[number::pairs] = [
            replace(
                one,
                whole=next(wholes),
                groups=tuple(islice(groups, len(one.groups))),
                languages=tuple(islice(languages, len(one.languages))),
            )
            for one in same
        ]
    return tuple(corrected)


def _by_holm(groups: Iterable[results.GroupComparison]) -> Iterator[results.GroupComparison]:
    groups = list(groups)
    p_values = holm([group.p_value for group in groups])
    return (replace(one, p_adjusted=p) for one, p in zip(groups, p_values, strict=True))


def _place(run: FinishedRun) -> str:
    return real_path(*resolve(run.folder.root))


def _check_columns(options: CompareOptions, runs: Sequence[FinishedRun]) -> None:
    named = options.choosing_columns
    for run in runs if named else ():
        for schema in input_schemas(run):
            try:
                check_choosing_columns(schema, named)
            except InputError as error:
                raise ConfigError(f"the run in {run.folder.shown!r}: {error}") from error


def _references_to_check(runs: Sequence[FinishedRun]) -> str | None:
    """Check that runs paired by position have the same inputs, and tell what is left to check.

    Returns:
        The column of references, where it takes the texts to see whether they are the same; None
        if digests of the parts say so already.
    """
    first, *others = runs
    mine = _rows_by_input(first)
    for theirs in map(_rows_by_input, others):
        if mine != theirs:
            name = min(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
            got, expected = (
                f"{rows[name]:,} rows" if name in rows else "no such file"
                for rows in (mine, theirs)
            )
            raise ConfigError(
                "rows cannot be paired by file and position: the runs have other inputs. Of "
                f"{name!r}: got {got}; expected {expected}, as in the other. Name the columns that "
                "identify a row with --key."
            )
    digests = _reference_digests(first)
    if all(digests.values()) and all(_reference_digests(other) == digests for other in others):
        return None
    return first.notes.identity["reference_column"]


def _rows_by_input(run: FinishedRun) -> dict[str, int]:
    rows: dict[str, int] = {}
    for record in run.records:
        rows[record.input_name] = rows.get(record.input_name, 0) + record.num_rows
    return rows


def _reference_digests(run: FinishedRun) -> dict[str, str]:
    """Return the digest of the references of each part; "" if it has none."""
    return {record.part_name: record.digests.references for record in run.records}


def _comparison(
    options: CompareOptions, measure: str, paired: Paired, sums: PairedGroups
) -> results.Comparison:
    known = paired.reader.languages
    by, *by_language = (own.names for own in sums.groupings)
    names = sorted(by, key=group_order) if options.by else []
    resamples, too_strict = _resamples(options, len(paired.sums), len(names))
    whole = sums.compared(WHOLE, resamples[0])
    _check_references(options, whole.counts, sums.names)
    languages: list[results.GroupComparison] = []
    for groups in by_language:
        own, _ = _resamples(options, len(paired.sums), len(groups))
        chosen = sorted((one for one in groups if one[0] in known), key=group_order)
        languages += [sums.compared(one, own[1], grouping=1) for one in chosen]
    return results.Comparison(
        run=sums.names[0],
        against=sums.names[1],
        measure=measure,
        key=options.key,
        by=options.by,
        cluster=options.cluster,
        confidence=options.confidence,
        drop=options.fail_if_drop,
        settings=sums.settings,
        whole=whole,
        groups=tuple(sums.compared(name, resamples[1]) for name in names),
        system=None if options.systems is None else options.system_column,
        warnings=_warnings_of(whole, options, paired, sums, too_strict),
        languages=tuple(languages),
        num_languages=max(1, len(known)),
    )


def _resamples(
    options: CompareOptions, pairs: int, groups: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return how often all rows and each group are resampled, and which have too many tests.

    A p value from random swaps is never below 1 / (swaps + 1), and is multiplied by the number of
    tests. Where that cannot be below 1 - confidence, the t test decides. All rows are resampled
    even where there are too many groups for it.
    """
    number_of_tests = {
        "all rows": max(len(options.measure), pairs if options.is_ranking else 1),
        "groups": max(len(options.measure) * groups, pairs if options.is_ranking and groups else 0),
    }
    too_strict = [
        name
        for name, tests in number_of_tests.items()
        if tests / (RESAMPLES + 1) >= 1 - options.confidence
    ]
    resampled = zip(number_of_tests, (pairs, pairs * (groups + 1)), strict=True)
    return tuple(
        RESAMPLES if many <= _MOST_RESAMPLED and name not in too_strict else 0
        for name, many in resampled
    ), tuple(too_strict)


def check_paired(compared: results.Compared) -> None:
    """Check that each comparison has a pair: without one there is no difference to show.

    With a gate a row that is on both sides is enough: it tells whether all have lost their scores.

    Raises:
        ConfigError: One has none.
    """
    for comparison in compared.comparisons:
        counts = comparison.whole.counts
        if not (counts.pairs if compared.drop is None else counts.shared):
            raise ConfigError(
                f"{comparison.run!r} and {comparison.against!r} cannot be compared: "
                f"{counts.unpaired_warning}"
            )


def _check_references(
    options: CompareOptions, counts: results.PairCounts, names: tuple[str, str]
) -> None:
    side, other = names
    if counts.other_references and not options.key and not options.force:
        raise ConfigError(
            f"rows cannot be paired by file and position: got {counts.other_references:,} of "
            f"{counts.pairs:,} rows with other references in {side!r} than in {other!r}; expected "
            "the same. Name the columns that identify a row with --key, or use --force."
        )


def _with_moved(
    options: CompareOptions,
    run: FinishedRun,
    comparison: results.Comparison,
    moved: tuple[Entries, RowReader],
) -> results.Comparison:
    """Add the rows that a verdict rests on, and the command that explains the first."""
    key = () if options.is_ranking else options.key
    (rows, reader), blamed = moved, {*comparison.blamed}
    files, groups = [*reader.files], [*reader.groupings(1)[0].names]
    is_whole = blamed == {WHOLE}
    is_blamed = np.array([is_whole or one in blamed for one in groups], dtype=np.bool_)
    rank = ~is_blamed[rows["group"]]
    order = furthest_first(rows, rank)
    rows, rank = rows[order], rank[order]
    fell = rows["change"] < 0
    chosen = np.append(rows[fell][: options.moved_rows], rows[~fell][: options.moved_rows])
    if not blamed:
        chosen = chosen[furthest_first(chosen)]
    places = [RowPlace(files[row["file"]], int(row["row"])) for row in chosen["run"]]
    named = read_rows(run, places, key) if key else [None] * len(places)
    shown = tuple(
        results.MovedRow(
            change=_change(float(row["run"]["score"]), float(row["against"]["score"])),
            score=float(row["run"]["score"]),
            against_score=float(row["against"]["score"]),
            file=place.input_name,
            row=place.row,
            against_file=files[row["against"]["file"]],
            against_row=int(row["against"]["row"]),
            group=groups[row["group"]],
            key={name: keys_of(column_of(own, name)).of_rows[0] for name in key},
        )
        for row, place, own in zip(chosen, places, named, strict=True)
    )
    explain = None
    fallen = next((row for row in shown if row.change < 0), None)
    is_evidence = not comparison.failures or (blamed and fell.any() and not rank[fell][0])
    if (
        fallen is not None
        and is_evidence
        and comparison.measure in SCORES
        and not options.is_ranking
    ):
        place = f"--row={fallen.file}:{fallen.row}"
        explain = shlex.join(("bertscore-beam", "explain", run.folder.shown, place))
    return replace(comparison, moved=shown, explain=explain)


def _change(score: float, against: float) -> float:
    """Return a difference; the largest double instead of one that is beyond it."""
    change = score - against
    is_beyond = math.isinf(change) and math.isfinite(score) and math.isfinite(against)
    return math.copysign(sys.float_info.max, change) if is_beyond else change
