"""A comparison for people, as tables, and for programs, as plain values."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from bertscore_beam.compare import results
from bertscore_beam.compare.settings import FieldDifference
from bertscore_beam.dump.census import WHOLE, Group
from bertscore_beam.dump.columns import shown_interval, shown_number
from bertscore_beam.records.groups import group_name, value_name
from bertscore_beam.run.output import TextTable, format_p
from bertscore_core.stats.caveats import CaveatKind, caveat_cells
from bertscore_core.stats.paired import POWER

_NONE = ""

_PASSED = {True: "passed", False: "not passed", None: "not judged"}

_SHOWN_ROWS = 10
"""Most rows that moved which are printed; the document has more."""

_NAMED = 3
"""Most rows and groups that a short answer names."""


def tables_of(compared: results.Compared) -> tuple[TextTable, ...]:
    """Return the tables of all comparisons, the answer first; of a ranking, only that."""
    if compared.rankings:
        first = compared.comparisons[0]
        rankings = sorted(
            compared.rankings, key=lambda one: first.num_languages > 1 and one.group == WHOLE
        )
        return tuple(table for one in rankings for table in _ranking_tables(one, first))
    measures = len(compared.measures)
    return (
        TextTable("Answer", ("", ""), list(answer_of(compared))),
        *chain.from_iterable(_comparison_tables(one, measures) for one in compared.comparisons),
        *_next_step(compared),
    )


def answer_of(compared: results.Compared) -> Iterator[tuple[str, str]]:
    """Yield the answer first: the gate, and for each comparison what has changed."""
    yield from gate_of(compared)
    yield from changes_of(compared)


def gate_of(compared: results.Compared) -> Iterator[tuple[str, str]]:
    """Yield what the gate says, and why; nothing without one."""
    if compared.drop is not None:
        yield "gate", _PASSED[compared.passed]
        failures = failures_of(compared)
        for words in failures[:_SHOWN_ROWS]:
            yield "reason", words
        if len(failures) > _SHOWN_ROWS:
            yield "reason", f"{len(failures) - _SHOWN_ROWS:,} more: see standard error."
        for comparison in compared.comparisons:
            yield from _notices(comparison)


def changes_of(compared: results.Compared) -> Iterator[tuple[str, str]]:
    """Yield what has changed in each comparison."""
    corrected = "corrected " if len(compared.measures) > 1 else ""
    for comparison in compared.comparisons:
        counts = Counter(comparison.verdict(group) for group in comparison.by_change)
        groups = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        whole = (
            f"{_over(comparison)} against {comparison.against}",
            _change(comparison.whole, comparison, corrected),
        )
        for group in comparison.clearest_languages(_SHOWN_ROWS):
            name = f"{comparison.measure} of {group_name(group.group)}"
            yield name, _change(group, comparison, "corrected ")
        if len(comparison.languages) > _SHOWN_ROWS:
            yield "languages", f"{len(comparison.languages) - _SHOWN_ROWS:,} more, in the table"
        lines = [whole, *([("groups", groups)] if groups else [])]
        yield from lines if comparison.num_languages < 2 else reversed(lines)


def _over(comparison: results.Comparison) -> str:
    """Return the measure of the whole: over several languages it is called that."""
    number = comparison.num_languages
    return comparison.measure if number < 2 else f"{comparison.measure} over {number} languages"


def _change(group: results.GroupComparison, comparison: results.Comparison, corrected: str) -> str:
    """Say what became of a group, with the difference and the p value of any difference."""
    words, result, measure = comparison.verdict(group), group.result, comparison.measure
    if result.interval is None:
        return words
    difference = _number(measure, result.difference, "+")
    difference += f" {_interval(measure, result.interval)}"
    return f"{words}: {difference}, any difference: {corrected}p {format_p(group.p_adjusted)}"


def _notices(comparison: results.Comparison) -> Iterator[tuple[str, str]]:
    """Yield the groups that the gate cannot judge, and what is lower without a proof."""
    gates = [(one.group, one.gate) for one in comparison.judged if one.gate is not None]
    judged = [(group, gate) for group, gate in gates if not gate.failures]
    of_kinds = {
        "not judged": [(group, gate.not_judged) for group, gate in judged if group != WHOLE],
        "notice": [(group, gate.notice) for group, gate in gates],
    }
    for kind, each in of_kinds.items():
        said = [f"{_subject(comparison, group)}: {words}" for group, words in each if words]
        yield from ((kind, words) for words in said[:_SHOWN_ROWS])
        if len(said) > _SHOWN_ROWS:
            yield kind, f"{len(said) - _SHOWN_ROWS:,} more groups"


def _sides(comparison: results.Comparison) -> tuple[str, str]:
    """Return what the two sides are called in tables: of systems their names."""
    return ("run", "against") if comparison.system is None else (comparison.run, comparison.against)


def _next_step(compared: results.Compared) -> Iterator[TextTable]:
    if (command := _next_command(compared)) is not None:
        words = "Next, token by token, the row with the largest loss:"
        yield TextTable("Next step", ("",), [(words,), (command,)])


def _next_command(compared: results.Compared) -> str | None:
    """Return the command that explains the row with the largest loss, of what failed the gate."""
    failed = [one for one in compared.comparisons if one.failures]
    fallen = [one for one in failed or compared.comparisons if one.explain is not None]
    losses = (next(row.change for row in one.moved if row.change < 0) for one in fallen)
    return min(zip(losses, (one.explain for one in fallen), strict=True), default=(0, None))[1]


def evidence_of(compared: results.Compared) -> Iterator[tuple[str, str]]:
    """Yield what a failed gate rests on: rows that are lost, rows that fell, the next command."""
    failed = [one for one in compared.comparisons if one.failures]
    for one in failed[:1]:
        lost = [own for own in one.by_change if "rows lost" in own.failed]
        for group in lost[:_NAMED]:
            inputs = "; ".join(map(str, group.lost[:_NAMED]))
            yield "rows lost", f"{group_name(group.group)} {group.counts.missing:,}: {inputs}"
        fallen = [row for row in one.moved if row.change < 0 and one.explain is not None]
        for row in fallen[:_NAMED]:
            change = _number(one.measure, row.change, "+")
            name = [group_name(row.group)] if one.by else []
            yield "fell", " ".join((change, *name, f"{row.file}:{row.row}"))
    if failed and (command := _next_command(compared)) is not None:
        yield "next", command


def document_of(compared: results.Compared) -> dict[str, Any]:
    """Return all comparisons as plain values."""
    return {
        "passed": compared.passed if compared.comparisons else None,
        "comparisons": [_plain_comparison(comparison) for comparison in compared.comparisons],
        "rankings": [asdict(ranking) for ranking in compared.rankings],
    }


def failures_of(compared: results.Compared) -> tuple[str, ...]:
    """Return why the gate is not passed, one sentence a failure, and which run it cannot judge."""
    return tuple(
        f"compared with {comparison.against}, "
        f"{comparison.measure + ' of ' if len(compared.measures) > 1 else ''}"
        f"{_subject(comparison, group)} {words}."
        for comparison in compared.comparisons
        for group, words in _verdicts(comparison)
    )


def _verdicts(comparison: results.Comparison) -> Iterator[tuple[Group, str]]:
    for group, words in comparison.failures:
        yield group, f"did not pass the gate: {words}"
    if comparison.not_judged is not None:
        yield WHOLE, f"cannot be judged: {comparison.not_judged}"


def _subject(comparison: results.Comparison, group: Group) -> str:
    if group != WHOLE:
        return f"the group {group_name(group)}"
    return "the run" if comparison.system is None else f"{comparison.system} {comparison.run}"


def warnings_in(compared: results.Compared) -> tuple[str, ...]:
    """Return the warnings of all comparisons, each once."""
    others = {comparison.against for comparison in compared.comparisons}
    is_alone = bool(compared.rankings) or len(others) == 1
    words = [
        (comparison.measure, warning if is_alone else f"{comparison.against}: {warning}")
        for comparison in compared.comparisons
        for warning in comparison.warnings
    ]
    return _told_once(words, compared.measures)


def caveats_in(compared: results.Compared) -> tuple[str, ...]:
    """Return the caveats of all comparisons, or rankings, each once: of the first that has it."""
    said: dict[tuple[str, CaveatKind], str] = {}
    for one in compared.rankings or compared.comparisons:
        for kind, words in one.caveats.items():
            said.setdefault((one.measure, kind), words)
    told = ((measure, words) for (measure, _), words in said.items())
    return _told_once(told, compared.measures)


def _told_once(told: Iterable[tuple[str, str]], measures: Collection[str]) -> tuple[str, ...]:
    """Return sentences, each once, from measures with a sentence.

    One that is not told of all measures names its own.
    """
    by_words: dict[str, dict[str, None]] = {}
    for measure, words in told:
        by_words.setdefault(words, {})[measure] = None
    return tuple(
        words if len(own) == len(measures) else f"{', '.join(own)}: {words}"
        for words, own in by_words.items()
    )


def _plain_comparison(comparison: results.Comparison) -> dict[str, Any]:
    plain = asdict(comparison)
    groups = (comparison.whole, *comparison.groups, *comparison.languages)
    each = (plain["whole"], *plain["groups"], *plain["languages"])
    for group, values in zip(groups, each, strict=True):
        values["p_value"] = group.p_value
        values["result"]["repeats"] = group.result.repeats
        if group.gate is not None:
            values["gate"] |= {"judged": group.gate.judged, "failures": group.gate.failures}
        for name in ("missing", "missing_fraction"):
            values["counts"][name] = getattr(group.counts, name)
    return plain


def _table(title: str, rows: Sequence[Sequence[tuple[str, str]]]) -> TextTable:
    names = tuple(name for name, _ in rows[0]) if rows else ()
    return TextTable(title, names, [tuple(cell for _, cell in row) for row in rows])


def _comparison_tables(comparison: results.Comparison, measures: int) -> Iterator[TextTable]:
    if comparison.languages:
        by = ("language", *comparison.by)[: len(comparison.languages[0].group)]
        by_language = replace(
            comparison, by=by, groups=comparison.languages, languages=(), drop=None
        )
        yield _scores_table("Scores by language", by_language, comparison.languages, measures)
    yield TextTable("Comparison", ("", ""), list(_about(comparison, measures)))
    changed = [group for group in comparison.by_change if not group.is_unchanged]
    both = [[comparison.whole], changed]
    ordered = chain(*(both if comparison.num_languages < 2 else reversed(both)))
    yield _scores_table("Scores", comparison, list(ordered), measures)
    yield from _lost_table(comparison)
    yield from _moved_table(comparison)


def _scores_table(
    title: str,
    comparison: results.Comparison,
    shown: Sequence[results.GroupComparison],
    measures: int,
) -> TextTable:
    measure, (run, against) = comparison.measure, _sides(comparison)
    by = comparison.by or ("rows",)
    is_corrected = bool(comparison.groups) or measures > 1
    has_missing = any(group.counts.missing for group in comparison.groups)
    has_caveats = any(group.caveats for group in shown)
    rows = []
    for group in shown:
        row = [
            *_group_cells(group.group, by, comparison.num_languages),
            ("pairs", f"{group.counts.pairs:,}"),
            (run, _number(measure, group.mean)),
            (against, _number(measure, group.against_mean)),
            ("difference", _number(measure, group.result.difference, "+")),
            (f"{comparison.confidence:.0%} interval", _interval(measure, group.result.interval)),
            ("p", format_p(group.p_value)),
        ]
        if is_corrected:
            is_one_test = group is comparison.whole and measures == 1
            row.append(("p corrected", _NONE if is_one_test else format_p(group.p_adjusted)))
        row += [("up", f"{group.counts.up:,}"), ("down", f"{group.counts.down:,}")]
        if has_missing:
            row.append(("lost", f"{group.counts.missing:,}"))
        if comparison.drop is not None:
            row.append(("gate", _gate(group)))
        if has_caveats:
            row.append(("caveats", caveat_cells(group.caveats)))
        rows.append(row)
    if same := len(comparison.groups) - sum(group is not comparison.whole for group in shown):
        first = f"{same:,} {'group' if same == 1 else 'groups'} {comparison.same}"
        rows.append([(name, first if at == 0 else _NONE) for at, (name, _) in enumerate(rows[0])])
    return _table(title, rows)


def _lost_table(comparison: results.Comparison) -> Iterator[TextTable]:
    """Yield the groups that have lost rows, with their inputs: those that failed the gate first."""
    groups = comparison.by_change or (comparison.whole,)
    lost = [
        [
            *_group_cells(group.group, comparison.by or ("rows",), comparison.num_languages),
            ("rows lost", f"{own.rows:,}"),
            ("input", own.input_name),
            ("", "not in this run" if own.is_gone else ""),
        ]
        for group in groups
        for own in group.lost
    ]
    if lost:
        yield _table("Rows lost", lost[:_SHOWN_ROWS])


def _moved_table(comparison: results.Comparison) -> Iterator[TextTable]:
    run, against = _sides(comparison)
    if comparison.moved:
        moved = [
            [
                ("change", _number(comparison.measure, row.change, "+")),
                (run, _number(comparison.measure, row.score)),
                (against, _number(comparison.measure, row.against_score)),
                *_named_cells(comparison, row),
                (f"row of {run}", f"{row.file}:{row.row}"),
                (f"row of {against}", f"{row.against_file}:{row.against_row}"),
            ]
            for row in comparison.moved[:_SHOWN_ROWS]
        ]
        yield _table("Rows that differ most", moved)


def _named_cells(
    comparison: results.Comparison, row: results.MovedRow
) -> Iterator[tuple[str, str]]:
    groups = zip(comparison.by, row.group, strict=True) if comparison.by else ()
    for name, value in {**dict(groups), **row.key}.items():
        yield name, value_name(value)


def _about(comparison: results.Comparison, measures: int) -> Iterator[tuple[str, str]]:
    counts, result = comparison.whole.counts, comparison.whole.result
    measure, (run, against) = comparison.measure, _sides(comparison)
    yield comparison.system or "run", comparison.run
    yield "against", comparison.against
    yield "measure", _over(comparison)
    yield "paired by", ", ".join(comparison.key) or "file and position"
    settings = comparison.settings
    if settings.moving:
        yield "other settings", _fields(settings.moving)
    if settings.harmless:
        yield "settings that differ and move no score", _fields(settings.harmless)
    yield "pairs", f"{counts.pairs:,}"
    for name, count in (
        ("repeats of other pairs, which count once", result.repeats),
        (f"scored only in {against}", counts.lost),
        (f"scored only in {run}", counts.gained),
        ("scored in neither", counts.unscored),
        (f"rows only in {run}", counts.only_run),
        (f"rows only in {against}", counts.only_against),
    ):
        if count:
            yield name, f"{count:,}"
    if result.clusters is not None:
        equal = f"as many as {result.effective_clusters:,.1f} equal ones"
        yield "clusters", f"{result.clusters:,} of {comparison.cluster}, {equal}"
    yield "difference", _number(measure, result.difference, "+")
    yield "standard error", _number(measure, result.error)
    yield f"{result.confidence:.0%} interval", _interval(measure, result.interval)
    if result.detectable is not None:
        seen = f"{_number(measure, result.detectable)} ({POWER:.0%} of the time)"
        yield "smallest difference that these rows can show", seen
    yield "p, t test", format_p(result.p_value)
    if result.randomization_p is not None:
        yield "p, randomization", format_p(result.randomization_p)
        yield "p, bootstrap", format_p(result.bootstrap_p)
        yield (
            f"{result.confidence:.0%} interval, bootstrap",
            _interval(measure, result.bootstrap_interval),
        )
    if (corpus := comparison.whole.corpus) is not None:
        yield (
            "score of the corpus",
            f"{_number(measure, corpus.score)} and {_number(measure, corpus.against_score)}",
        )
        yield "difference of the corpus", _number(measure, corpus.difference, "+")
        yield "p of the corpus, randomization", format_p(corpus.randomization_p)
        yield "p of the corpus, bootstrap", format_p(corpus.bootstrap_p)
        yield f"{result.confidence:.0%} interval of the corpus", _interval(measure, corpus.interval)
    over = [f"{len(comparison.groups):,} groups"] if comparison.groups else []
    over += [f"{measures} measures"] if measures > 1 else []
    if over:
        yield "p corrected for", " of ".join(over)
    moved = counts.up + counts.down
    noise = f"{comparison.settings.noise:g}"
    yield f"differ by more than {noise}", f"{moved:,} ({counts.up:,} up, {counts.down:,} down)"


def _ranking_tables(ranking: results.Ranking, one: results.Comparison) -> Iterator[TextTable]:
    where = f" of {_named(ranking.group, one.by)}" if ranking.group != WHOLE else ""
    where += f" over {one.num_languages} languages" if one.num_languages > 1 else ""
    systems = [
        [
            ("cluster", str(system.cluster)),
            ("rank", "-".join(map(str, sorted({system.first, system.last})))),
            ("system", system.system),
            (f"mean {ranking.measure}", _number(ranking.measure, system.mean)),
            ("significantly better than", str(system.wins)),
        ]
        for system in ranking.systems
    ]
    yield _table(f"Ranking{where}, {ranking.rows:,} rows that all have scored", systems)
    has_caveats = any(pair.caveats for pair in ranking.pairs)
    pairs = [
        [
            ("system", pair.system),
            ("other", pair.other),
            ("difference", _number(ranking.measure, pair.difference, "+")),
            (f"{ranking.confidence:.0%} interval", _interval(ranking.measure, pair.interval)),
            ("p", format_p(pair.p_value)),
            ("p corrected", format_p(pair.p_adjusted)),
            *([("caveats", caveat_cells(pair.caveats))] if has_caveats else []),
        ]
        for pair in ranking.pairs
    ]
    yield _table(f"Pairs of systems{where}", pairs)


def _named(group: Group, by: Sequence[str]) -> str:
    return ", ".join(f"{name} {value_name(value)}" for name, value in zip(by, group, strict=True))


def _group_cells(group: Group, by: Sequence[str], num_languages: int) -> list[tuple[str, str]]:
    whole = "all" if num_languages < 2 else f"all {num_languages} languages"
    values = group if group != WHOLE else (whole, *[_NONE] * (len(by) - 1))
    return list(zip(by, map(value_name, values), strict=True))


def _fields(differences: Sequence[FieldDifference]) -> str:
    return "; ".join(
        f"{field.name}: {field.run} in run, {field.against} in against" for field in differences
    )


def _gate(group: results.GroupComparison) -> str:
    if group.failed:
        return "failed"
    return "passed" if group.gate is not None and group.gate.judged else "not judged"


def _number(measure: str, value: float | None, sign: str = "") -> str:
    return shown_number(measure, value, 6, sign)


def _interval(measure: str, interval: tuple[float, float] | None) -> str:
    return shown_interval(measure, interval, 6, "+")
