"""A comparison for people, as tables, and for programs, as plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from bertscore_beam.compare.comparison import (
    WHOLE,
    Compared,
    Comparison,
    FieldDifference,
    Group,
    GroupComparison,
    Ranking,
)
from bertscore_beam.run import Shown

_NONE = ""

_SHOWN_ROWS = 10
"""Most rows that moved which are printed; the document has more."""


def tables_of(compared: Compared) -> tuple[Shown, ...]:
    """Return the tables of all comparisons; of a ranking, only that."""
    if compared.rankings:
        by = compared.comparisons[0].by
        return tuple(
            chain.from_iterable(_ranking_tables(ranking, by) for ranking in compared.rankings)
        )
    return tuple(chain.from_iterable(map(_comparison_tables, compared.comparisons)))


def document_of(compared: Compared) -> dict[str, Any]:
    """Return all comparisons as plain values."""
    return {
        "passed": compared.passed,
        "comparisons": [_plain_comparison(comparison) for comparison in compared.comparisons],
        "rankings": [asdict(ranking) for ranking in compared.rankings],
    }


def failures_of(compared: Compared) -> tuple[str, ...]:
    """Return why the gate is not passed, one sentence a failure."""
    return tuple(
        f"compared with {comparison.against}, "
        f"{'the run' if group == WHOLE else 'the group ' + ', '.join(map(str, group))} did not "
        f"pass the gate: {words}."
        for comparison in compared.comparisons
        for group, words in comparison.failures
    )


def warnings_in(compared: Compared) -> tuple[str, ...]:
    """Return the warnings of all comparisons; of a ranking, each once."""
    is_alone = bool(compared.rankings) or len(compared.comparisons) == 1
    words = [
        warning if is_alone else f"{comparison.against}: {warning}"
        for comparison in compared.comparisons
        for warning in comparison.warnings
    ]
    return tuple(dict.fromkeys(words))


def _plain_comparison(comparison: Comparison) -> dict[str, Any]:
    plain = asdict(comparison)
    groups = (comparison.whole, *comparison.groups)
    for group, values in zip(groups, (plain["whole"], *plain["groups"]), strict=True):
        values["p_value"] = group.p_value
        values["counts"] |= {
            "missing": group.counts.missing,
            "missing_fraction": group.counts.missing_fraction,
        }
    return plain


def _table(title: str, rows: Sequence[Sequence[tuple[str, str]]]) -> Shown:
    names = tuple(name for name, _ in rows[0]) if rows else ()
    return Shown(title, names, [tuple(cell for _, cell in row) for row in rows])


def _comparison_tables(comparison: Comparison) -> Iterator[Shown]:
    yield Shown("Comparison", ("", ""), list(_about(comparison)))
    rows = []
    for group in (comparison.whole, *comparison.groups):
        row = [
            *_group_cells(group.group, comparison.by or ("rows",)),
            ("pairs", f"{group.counts.pairs:,}"),
            ("run", _number(group.mean)),
            ("against", _number(group.against_mean)),
            ("difference", _number(group.result.difference, signed=True)),
            (f"{comparison.confidence:.0%} interval", _interval(group.result.interval)),
            ("p", _p(group.p_value)),
        ]
        if comparison.groups:
            row.append(("p corrected", _p(group.p_adjusted) if group.group else _NONE))
        row += [("up", f"{group.counts.up:,}"), ("down", f"{group.counts.down:,}")]
        if comparison.drop is not None:
            row.append(("gate", _gate(group)))
        rows.append(row)
    yield _table("Scores", rows)
    if comparison.moved:
        moved = [
            [
                ("change", _number(row.change, signed=True)),
                ("run", _number(row.score)),
                ("against", _number(row.against_score)),
                ("row of run", f"{row.file}:{row.row}"),
                ("row of against", f"{row.against_file}:{row.against_row}"),
                *(_group_cells(row.group, comparison.by) if comparison.by else ()),
            ]
            for row in comparison.moved[:_SHOWN_ROWS]
        ]
        yield _table("Rows that moved furthest", moved)


def _about(comparison: Comparison) -> Iterator[tuple[str, str]]:
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
    yield "difference", _number(result.difference, signed=True)
    yield "standard error", _number(result.error)
    yield f"{result.confidence:.0%} interval", _interval(result.interval)
    yield "p, t test", _p(result.p_value)
    if result.randomization_p is not None:
        yield "p, randomization", _p(result.randomization_p)
        yield "p, bootstrap", _p(result.bootstrap_p)
        yield f"{result.confidence:.0%} interval, bootstrap", _interval(result.bootstrap_interval)
    moved = counts.up + counts.down
    noise = f"{comparison.settings.noise:g}"
    yield f"moved by more than {noise}", f"{moved:,} ({counts.up:,} up, {counts.down:,} down)"


def _ranking_tables(ranking: Ranking, by: Sequence[str]) -> Iterator[Shown]:
    where = "" if ranking.group == WHOLE else f" of {_named(ranking.group, by)}"
    systems = [
        [
            ("cluster", str(system.cluster)),
            (
                "rank",
                f"{system.first}-{system.last}"
                if system.first < system.last
                else str(system.first),
            ),
            ("system", system.system),
            ("mean", _number(system.mean)),
            ("significantly better than", str(system.wins)),
        ]
        for system in ranking.systems
    ]
    yield _table(f"Ranking{where}, {ranking.rows:,} rows that all have scored", systems)
    pairs = [
        [
            ("system", pair.system),
            ("other", pair.other),
            ("difference", _number(pair.difference, signed=True)),
            (f"{ranking.confidence:.0%} interval", _interval(pair.interval)),
            ("p", _p(pair.p_value)),
            ("p corrected", _p(pair.p_adjusted)),
        ]
        for pair in ranking.pairs
    ]
    yield _table(f"Pairs of systems{where}", pairs)


def _named(group: Group, by: Sequence[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(by, group, strict=True))


def _group_cells(group: Group, by: Sequence[str]) -> list[tuple[str, str]]:
    values = group if group != WHOLE else ("all", *[_NONE] * (len(by) - 1))
    return [
        (name, "null" if value is None else value) for name, value in zip(by, values, strict=True)
    ]


def _fields(differences: Sequence[FieldDifference]) -> str:
    return "; ".join(
        f"{field.name}: {field.run} in run, {field.against} in against" for field in differences
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
