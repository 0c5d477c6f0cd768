"""The page of a report: one HTML file that loads nothing and runs no script.

Jinja escapes every value. The policy in its head forbids every request, every script, and every
style but the page's own.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bertscore_beam.compare.comparison_tables import verdict
from bertscore_beam.compare.results import Comparison, GroupComparison
from bertscore_beam.pages import charts, words
from bertscore_beam.pages.report_rows import ReportData
from bertscore_beam.records.groups import shown_metrics
from bertscore_beam.run.output import escape_line, format_duration
from bertscore_core.errors import escape_text
from bertscore_core.stats.caveats import caveat_cells

MOST_ROWS = 1000
"""Most groups in one table: 10,000 of them would make a page that browsers are slow to show."""

MOST_CHARACTERS = 2000
"""Most characters of one text. What is left out is counted."""

_MOST_NAMED = 10
"""Most groups of each kind that the answer names."""

_TITLES = {"f1": "F1", "precision": "Precision", "recall": "Recall"}
"""What measures are called that are not called by their names."""

_TEMPLATES = Path(__file__).parent / "template"


def render(data: ReportData) -> str:
    """Return the page of a report."""
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    measure = "rescaled F1" if data.rescaled else "F1"
    raw_measure = "F1 before rescaling" if data.rescaled else "F1"
    environment = _environment()
    specification = environment.get_template("charts.json.jinja")
    return environment.get_template("page.html.jinja").render(
        data=data,
        style=Markup(style),  # noqa: S704 (our own file)
        policy=_policy(style),
        sections=_sections(data),
        charts=charts.charts_of(specification, data, measure, raw_measure),
        version=version("bertscore-beam"),
        total=data.total.values,
        over=data.over_languages,
        quantiles=charts.QUANTILES,
        metrics=shown_metrics(data.total.values),
        measure=measure,
        raw_measure=raw_measure,
        most_rows=MOST_ROWS,
        most_named=_MOST_NAMED,
        standing=_standing,
        verdict=verdict,
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
    own = ("by_number", "number", "probability", "score", "signed", "signed_interval", "size")
    environment.filters |= {name: getattr(words, name) for name in own}
    environment.filters |= {
        "caveats": caveat_cells,
        "cut_text": _cut_text,
        "line": escape_line,
        "measure": lambda name: _TITLES.get(name, name),
        "seconds": lambda value: words.NOT_KNOWN if value is None else format_duration(value),
        "value": words.shown_value,
    }
    environment.globals |= {
        "all_rows": words.ALL_ROWS,
        "at_most": _at_most,
        "hidden_rows": _hidden_rows,
        "interval": words.interval,
        "share": words.share,
    }
    return environment


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _sections(data: ReportData) -> list[tuple[str, str]]:
    languages = ("languages", "Languages", bool(data.languages))
    sections = [
        *([languages] if data.scored_languages else []),
        ("scores", "Scores", True),
        ("change", "Change", data.against is not None),
        ("ranking", "Ranking", data.ranking is not None),
        ("trend", "Trend", len(data.nights) > 1),
        ("distribution", "Distribution", True),
        ("lengths", "Length", bool(data.lengths)),
        *([] if data.scored_languages else [languages]),
        ("rejects", "Rejected and cut", True),
        ("rows", "Single rows", True),
        ("cost", "Cost", True),
        ("settings", "How it was made", True),
    ]
    return [(name, title) for name, title, is_shown in sections if is_shown]


def _settings(signatures: Mapping[str | None, str]) -> dict[str, Sequence[Any]]:
    """Return fields of signatures with their meaning: those shared, and those of a language."""
    fields = {name: words.signature_sentences(text) for name, text in signatures.items()}
    first, *others = (dict.fromkeys(own) for own in fields.values()) if fields else ({},)
    shared = [field for field in first if all(field in other for other in others)]
    own = [(name, field) for name, each in fields.items() for field in each if field not in shared]
    return {"shared": shared, "own": own}


def _standing(against: Comparison) -> dict[str, list[GroupComparison]]:
    standing: dict[str, list[GroupComparison]] = {}
    for group in against.by_change:
        standing.setdefault(verdict(group, against), []).append(group)
    return standing


def _at_most(count: int) -> str:
    most = charts.MOST_GROUPS
    return "." if count <= most else f". The chart shows the first {most} of {count:,} groups."


def _hidden_rows(count: int) -> str:
    return "" if count <= MOST_ROWS else f" (the first {MOST_ROWS:,} of {count:,})"


def _cut_text(text: str) -> str:
    """Return the text of a row as it is shown: invisible characters as codes, and not too long."""
    if len(text) <= MOST_CHARACTERS:
        return escape_text(text)
    left = len(text) - MOST_CHARACTERS
    return f"{escape_text(text[:MOST_CHARACTERS])} … ({left:,} more characters)"
