"""What the reader of a comparison has to know besides its numbers."""

from collections.abc import Sequence

from bertscore_beam.results.comparable import in_words
from bertscore_beam.results.comparison import GroupComparison, PairCounts, SettingsDifference
from bertscore_beam.results.keyed_rows import LeftOut

FEW_PAIRS = 10
"""Fewer give a rough error."""
FEW_CLUSTERS = 15
"""Fewer effective clusters give a rough error. With at least this many, a gate at 5% fired on 3.7%
to 5.8% of simulated nights, however unequal the clusters were. With fewer it fired on up to 7%, or
on hardly any if one cluster had most rows."""


def warnings_of(
    whole: GroupComparison,
    groups: Sequence[GroupComparison],
    settings: SettingsDifference,
    left_out: LeftOut,
    *,
    is_keyed: bool,
) -> tuple[str, ...]:
    """Return the warnings of a comparison, as sentences.

    Args:
        whole: All rows.
        groups: Each group.
        settings: How the settings differ.
        left_out: Rows that could not be paired.
        is_keyed: Whether rows were paired by key.
    """
    counts = whole.counts
    found = []
    if settings.moving:
        found.append(
            "The scores were made with other settings, so that their difference is not that of "
            f"the texts alone: {in_words(settings.moving)}."
        )
    if not counts.pairs:
        found.append(f"There is no difference: {unpaired_words(counts)}")
    if counts.missing:
        found.append(
            f"{counts.missing:,} rows that were scored before have no score now "
            f"({counts.missing_fraction:.2%} of them). The difference says nothing of them."
        )
    if counts.other_references:
        what = "references of another length" if is_keyed else "other references"
        found.append(
            f"{counts.other_references:,} pairs have {what}: they differ by more than the "
            "candidates."
        )
    if left_out.without_key:
        found.append(
            f"{left_out.without_key:,} rows have a null or NaN in a column of the key, and are not "
            "compared."
        )
    if left_out.without_system:
        found.append(f"{left_out.without_system:,} rows name no system, and are not compared.")
    return (*found, *(_rough(whole, groups) if counts.pairs else ()))


def unpaired_words(counts: PairCounts) -> str:
    """Say that two sides have no pair, and what became of their rows."""
    both = counts.lost + counts.gained + counts.unscored
    return (
        f"got no row with scores on both sides ({both:,} rows are on both sides, "
        f"{counts.only_run:,} only in the first, {counts.only_against:,} only in the second); "
        "expected at least one. Check --key."
    )


def _rough(whole: GroupComparison, groups: Sequence[GroupComparison]) -> list[str]:
    """Return warnings of errors that cannot be computed, or not well."""
    found = []
    is_by_row = whole.result.clusters is None
    units, least = ("pairs", FEW_PAIRS) if is_by_row else ("effective clusters", FEW_CLUSTERS)
    if _units(whole) < least:
        found.append(f"There are only {_units(whole):.1f} {units}: the error is rough.")
    few = sum(_units(one) < least for one in groups)
    if few:
        found.append(
            f"{few:,} of {len(groups):,} groups have fewer than {least} {units}: their errors are "
            "rough or unknown."
        )
    return found


def _units(group: GroupComparison) -> float:
    result = group.result
    if result.effective_clusters is None:
        return float(result.pairs)
    return result.effective_clusters
