"""A comparison for people, as tables, and for programs, as plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bertscore_beam.results.comparison import (
    WHOLE,
    Compared,
    Comparison,
    FieldDifference,
    Group,
    GroupComparison,
    Ranking,
)
from bertscore_beam.run.outcome import Shown
from bertscore_core.paired import PairedResult

_NONE = ""

_SHOWN_ROWS = 10
"""Most rows that moved which are printed; the document has more."""


def tables_of(compared: Compared) -> tuple[Shown, ...]:
    """Return the tables of all comparisons; of a ranking, only that."""
    if compared.rankings:
        by = compared.comparisons[0].by
        return tuple(table for one in compared.rankings for table in _ranking_tables(one, by))
    return tuple(table for one in compared.comparisons for table in _comparison_tables(one))


def document_of(compared: Compared) -> dict[str, Any]:
    """Return all comparisons as plain values."""
    return {
        "passed": compared.passed,
        "comparisons": [_plain_comparison(one) for one in compared.comparisons],
        "rankings": [asdict(one) for one in compared.rankings],
    }


def failures_of(compared: Compared) -> tuple[str, ...]:
    """Return why the gate is not passed, one sentence a failure."""
    return tuple(
        f"compared with {one.against}, {_subject(group)} did not pass the gate: {words}."
        for one in compared.comparisons
        for group, words in one.failures
    )


def warnings_in(compared: Compared) -> tuple[str, ...]:
    """Return the warnings of all comparisons; of a ranking, each once."""
    if compared.rankings or len(compared.comparisons) == 1:
        return tuple(dict.fromkeys(w for one in compared.comparisons for w in one.warnings))
    return tuple(f"{one.against}: {w}" for one in compared.comparisons for w in one.warnings)


def _plain_comparison(comparison: Comparison) -> dict[str, Any]:
    plain = asdict(comparison)
    for group, values in zip(
        (comparison.whole, *comparison.groups), (plain["whole"], *plain["groups"]), strict=True
    ):
        values["p_value"] = group.p_value
        values["counts"]["missing"] = group.counts.missing
        values["counts"]["missing_fraction"] = group.counts.missing_fraction
    return plain


def _comparison_tables(comparison: Comparison) -> Iterator[Shown]:
    yield Shown("Comparison", ("", ""), list(_about(comparison)))
    groups = [comparison.whole, *comparison.groups]
    gated = comparison.drop is not None
    columns = (
        *(comparison.by or ("rows",)),
        "pairs",
        "run",
        "against",
        "difference",
        f"{comparison.confidence:.0%} interval",
        "p",
        *(("p corrected",) if comparison.groups else ()),
        "up",
        "down",
        *(("gate",) if gated else ()),
    )
    width = max(1, len(comparison.by))
    rows = [
        (
            *_group_cells(one.group, width),
            f"{one.counts.pairs:,}",
            _number(one.mean),
            _number(one.against_mean),
            _number(one.result.difference, signed=True),
            _interval(one.result.interval),
            _p(one.p_value),
            *((_p(one.p_adjusted) if one.group else _NONE,) if comparison.groups else ()),
            f"{one.counts.up:,}",
            f"{one.counts.down:,}",
            *((_gate(one),) if gated else ()),
        )
        for one in groups
    ]
    yield Shown("Scores", columns, rows)
    if comparison.moved:
        yield Shown("Rows that moved furthest", *_moved(comparison))


def _about(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield what was compared, and what the rows became."""
    counts, result = comparison.whole.counts, comparison.whole.result
    yield "run", comparison.run
    yield "against", comparison.against
    yield "measure", comparison.measure
    yield "paired by", ", ".join(comparison.key) or "file and position"
    settings = comparison.settings
    if settings.moving:
        yield "other settings", _fields(settings.moving)
    if settings.harmless:
        yield "settings that differ and move no score", _fields(settings.harmless)
    yield "pairs", f"{counts.pairs:,}"
    for name, count in (
        ("scored only in against", counts.lost),
        ("scored only in run", counts.gained),
        ("scored in neither", counts.unscored),
        ("rows only in run", counts.only_run),
        ("rows only in against", counts.only_against),
    ):
        if count:
            yield name, f"{count:,}"
    if result.clusters is not None:
        yield (
            "clusters",
            f"{result.clusters:,} of {comparison.cluster}, as many as "
            f"{result.effective_clusters:,.1f} equal ones",
        )
    yield from _tests(result)
    moved = counts.up + counts.down
    noise = f"{comparison.settings.noise:g}"
    yield f"moved by more than {noise}", f"{moved:,} ({counts.up:,} up, {counts.down:,} down)"


def _tests(result: PairedResult) -> Iterator[tuple[str, str]]:
    """Yield the tests of the whole."""
    yield "difference", _number(result.difference, signed=True)
    yield "standard error", _number(result.error)
    yield f"{result.confidence:.0%} interval", _interval(result.interval)
    yield "p, t test", _p(result.p_value)
    if result.randomization_p is not None:
        yield "p, randomization", _p(result.randomization_p)
        yield "p, bootstrap", _p(result.bootstrap_p)
        yield f"{result.confidence:.0%} interval, bootstrap", _interval(result.bootstrap_interval)


def _moved(comparison: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and rows of the table of rows that moved."""
    columns = ("change", "run", "against", "row of run", "row of against", *comparison.by)
    rows = [
        (
            _number(one.change, signed=True),
            _number(one.score),
            _number(one.against_score),
            f"{one.file}:{one.row}",
            f"{one.against_file}:{one.against_row}",
            *(_group_cells(one.group, len(comparison.by)) if comparison.by else ()),
        )
        for one in comparison.moved[:_SHOWN_ROWS]
    ]
    return columns, rows


def _ranking_tables(ranking: Ranking, by: Sequence[str]) -> Iterator[Shown]:
    where = "" if ranking.group == WHOLE else f" of {_named(ranking.group, by)}"
    systems: list[tuple[str, ...]] = [
        (
            str(one.cluster),
            f"{one.first}-{one.last}" if one.first < one.last else str(one.first),
            one.system,
            _number(one.mean),
            str(one.wins),
        )
        for one in ranking.systems
    ]
    yield Shown(
        f"Ranking{where}, {ranking.rows:,} rows that all have scored",
        ("cluster", "rank", "system", "mean", "significantly better than"),
        systems,
    )
    pairs: list[tuple[str, ...]] = [
        (
            one.system,
            one.other,
            _number(one.difference, signed=True),
            _interval(one.interval),
            _p(one.p_value),
            _p(one.p_adjusted),
        )
        for one in ranking.pairs
    ]
    columns = (
        "system",
        "other",
        "difference",
        f"{ranking.confidence:.0%} interval",
        "p",
        "p corrected",
    )
    yield Shown(f"Pairs of systems{where}", columns, pairs)


def _named(group: Group, by: Sequence[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(by, group, strict=True))


def _subject(group: Group) -> str:
    if group == WHOLE:
        return "the run"
    return f"the group {', '.join(map(str, group))}"


def _group_cells(group: Group, width: int) -> tuple[str, ...]:
    if group == WHOLE:
        return ("all", *[_NONE] * (width - 1))
    return tuple("null" if value is None else value for value in group)


def _fields(differences: Sequence[FieldDifference]) -> str:
    return "; ".join(
        f"{one.field}{'' if one.language is None else f' ({one.language})'}: {one.run} in run, "
        f"{one.against} in against"
        for one in differences
    )


def _gate(group: GroupComparison) -> str:
    if group.gate is None or group.gate.p_value is None:
        return "not judged" if group.gate is None or not group.gate.failures else "failed"
    return "failed" if group.gate.failures else "passed"


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return _NONE
    return f"{value:+.6f}" if signed else f"{value:.6f}"


def _interval(interval: tuple[float, float] | None) -> str:
    return _NONE if interval is None else f"[{interval[0]:+.6f}, {interval[1]:+.6f}]"


def _p(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"
