"""The page of a report: one HTML file that loads nothing and runs no script.

Jinja escapes every value. The policy in its head forbids every request, every script, and every
style but the page's own.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bertscore_beam.compare.results import Compared, Comparison, GroupComparison
from bertscore_beam.dump.census import WHOLE
from bertscore_beam.pages import cards, charts, words
from bertscore_beam.pages.report_data import ChosenRow, ReportData
from bertscore_beam.pages.report_options import MEASURE
from bertscore_beam.records.groups import QUANTILES
from bertscore_beam.records.show_groups import shown_metrics
from bertscore_beam.records.summary import error_metrics
from bertscore_beam.run.output import escape_line, format_duration
from bertscore_core.stats.caveats import CaveatKind, caveat_cells

MOST_ROWS = 1000
"""Most groups in one table: 10,000 of them would make a page that browsers are slow to show."""

_MOST_NAMED = 5
"""Most groups of each kind that the answer names."""

_MOST_SHORT = 12
"""Most rows of a table that does not scroll."""

_MOST_OPEN = 5
"""Most single rows, or segments, of each kind that are not folded."""

_MOST_IN_CARD = 3
"""Most rows of a segment that are not folded."""

_TEMPLATES = Path(__file__).parent / "template"


def render(data: ReportData) -> str:
    """Return the page of a report."""
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    measure, raw_measure = "rescaled F1" if data.rescaled else "raw F1", "raw F1"
    environment = _environment()
    runs = [data.run, *(one.against for one in data.comparisons), *(one.run for one in data.nights)]
    run_names = words.run_names(runs)
    return environment.get_template("page.html.jinja").render(
        data=data,
        style=Markup(style),  # noqa: S704 (our own file)
        policy=_policy(style),
        sections=_sections(data, measure, raw_measure),
        charts=charts.charts_of(data, measure, raw_measure, run_names),
        run_names=run_names,
        version=version("bertscore-beam"),
        total=data.total.values,
        over=data.over_languages,
        quantiles=QUANTILES,
        metrics=shown_metrics(data.total.values, error_metrics(data.summary.content)),
        measure=measure,
        raw_measure=raw_measure,
        titles={"f1": measure}
        | {one: measure.replace("F1", one) for one in ("precision", "recall")},
        most_rows=MOST_ROWS,
        most_named=_MOST_NAMED,
        most_open=_MOST_OPEN,
        most_in_card=_MOST_IN_CARD,
        most_short=_MOST_SHORT,
        headline=_headline(data),
        changed=_changed(data),
        standing=_standing,
        gate_words=_gate_words,
        caveats=list(caveat_sentences(data)),
        signs=_SIGNS,
        segments_of=cards.segments_of,
        marked_texts=cards.marked_texts,
        own_key=lambda row: _own_key(data, row),
        settings=_settings(data.signatures),
        trend_groups=charts.trend_groups(data),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = ("by_number", "interval", "number", "probability", "score", "size")
    environment.filters |= {name: getattr(words, name) for name in own}
    environment.filters |= {
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "caveats": caveat_cells,
        "cut_text": cards.cut_text,
        "line": escape_line,
        "seconds": lambda value: words.NOT_KNOWN if value is None else format_duration(value),
        "value": words.shown_value,
    }
    environment.globals |= {
        "all_rows": words.ALL_ROWS,
        "at_most": _at_most,
        "hidden_rows": _hidden_rows,
        "share": words.share,
    }
    return environment


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _sections(data: ReportData, measure: str, raw: str) -> list[tuple[str, str, str]]:
    """Return the sections: name, short title, heading."""
    languages = ("languages", "Languages", f"Languages by {measure}", bool(data.languages))
    is_compared, has_several = data.against is not None, bool(data.scored_languages)
    sections = [
        ("moved", "Fell and rose", f"What fell and rose most in {measure}", is_compared),
        ("change", "Change", f"Change of {measure}", is_compared),
        *([languages] if has_several else []),
        ("scores", "Scores", f"Scores: {measure}", True),
        ("ranking", "Ranking", f"Ranking by {measure}", data.ranking is not None),
        ("trend", "Trend", f"Trend of {measure}", len(data.nights) > 1),
        ("distribution", "Distribution", f"Distribution of {raw}", True),
        ("lengths", "Length", f"Lengths by {measure}", bool(data.lengths)),
        *([] if has_several else [languages]),
        ("rejects", "Rejected and cut", "Rejected and cut", True),
        ("rows", "Lowest and highest", f"Lowest and highest {measure}", True),
        ("cost", "Cost", "Cost", True),
        ("settings", "How it was made", "How it was made", True),
    ]
    return [(name, title, heading) for name, title, heading, is_shown in sections if is_shown]


def _settings(signatures: Mapping[str | None, str]) -> dict[str, Sequence[Any]]:
    """Return fields of signatures with their meaning: those shared, and those of a language."""
    fields = {name: words.signature_sentences(text) for name, text in signatures.items()}
    first, *others = (dict.fromkeys(own) for own in fields.values()) if fields else ({},)
    shared = [field for field in first if all(field in other for other in others)]
    own = [(name, field) for name, each in fields.items() for field in each if field not in shared]
    return {"shared": shared, "own": own}


def _headline(data: ReportData) -> tuple[str, str, str]:
    """Return the answer: good, bad or neither, in a word or two, and what these mean."""
    against = data.against
    if against is None:
        return "", "", ""
    if against.drop is not None:
        failed = {kind for one in data.changes for own in one.judged for kind in own.failed}
        words = " and ".join(kind for kind in ("worse", "rows lost") if kind in failed)
        return {
            False: ("bad", words.capitalize(), "the gate is not passed"),
            None: ("bad", "Not judged", "there are too few rows to tell"),
            True: ("good", "Passed", f"no drop of more than {against.drop:g} is shown"),
        }[Compared(comparisons=data.changes).passed]
    sides = [(one, group) for one in data.changes for group in one.judged]
    found = {
        word: {group.group for one, group in sides if one.verdict(group) == word}
        for word in ("worse", "better")
    }
    worse, better = (len(own - {WHOLE}) for own in found.values())
    of_groups = f"{worse or better:,} of {len(against.groups):,} groups" if worse or better else ""
    if found["worse"]:
        return "bad", "Worse", of_groups + (f", {better:,} better" if worse and better else "")
    if found["better"]:
        return "good", "Better", of_groups
    word = against.verdict(against.whole)
    return "", f"{word[0].upper()}{word[1:]}", ""


_SIGNS = {
    "worse": "worse",
    "worse and rows lost": "worse",
    "rows lost": "lost",
    "lower": "lower",
    "better": "better",
}
"""What has changed, in the order in which it is shown, and the colour of each."""


def _changed(data: ReportData) -> dict[str, list[tuple[Comparison, GroupComparison]]]:
    """Return what has changed by its verdict: what failed the gate first, and no whole else."""
    changed: dict[str, list[tuple[Comparison, GroupComparison]]] = {word: [] for word in _SIGNS}
    for against in data.changes:
        for group in (against.whole, *against.by_change):
            word = against.verdict(group)
            if word in changed and (group.failed or group is not against.whole):
                changed[word].append((against, group))
    return {word: own for word, own in changed.items() if own}


def _gate_words(group: GroupComparison) -> str:
    """Return what the gate says of a group; nothing of one that it does not look at."""
    gate = group.gate
    if gate is None:
        return ""
    return "; ".join(gate.failures) or gate.not_judged or gate.notice or "passed"


def caveat_sentences(data: ReportData) -> Iterator[str]:
    """Yield each caveat once, with what has it: a change, or the means."""
    sides = [
        ("change" if one.measure == MEASURE else f"change of {one.measure}", one.caveats)
        for one in data.changes
    ]
    sides.append(("means", data.caveats))
    for kind in CaveatKind:
        said = {name: own[kind] for name, own in sides if kind in own}
        if said:
            names = ", ".join(said)
            yield f"{names[0].upper()}{names[1:]}: {next(iter(said.values()))}"


def _standing(against: Comparison) -> dict[str, int]:
    """Count the groups that are neither worse nor better, by what became of them."""
    counts = Counter(against.verdict(group) for group in against.by_change)
    return {word: count for word, count in counts.items() if word not in _SIGNS}


def _own_key(data: ReportData, row: ChosenRow) -> tuple[str | None, ...]:
    """Return the values that identify a row, but those that name its group already."""
    by = data.options.by
    names = data.options.row_key
    return tuple(value for name, value in zip(names, row.key, strict=False) if name not in by)


def _at_most(count: int) -> str:
    most = charts.MOST_GROUPS
    return "." if count <= most else f". The chart shows the first {most} of {count:,} groups."


def _hidden_rows(count: int) -> str:
    return "" if count <= MOST_ROWS else f" (the first {MOST_ROWS:,} of {count:,})"
