"""Warnings at the end of a scoring run: about texts that were cut, and about other scripts."""

from collections.abc import Mapping
from typing import Any

from bertscore_beam.runs.index import Index, read_index
from bertscore_beam.runs.lookup import equal_settings, nearest_differences
from bertscore_beam.runs.row_scores import NO_SETTING
from bertscore_beam.runs.source import EarlierSource
from bertscore_beam.score.spec import ScoreSpec
from bertscore_core import Signature

_SHARE_OF_OTHER_SCRIPTS = 0.02
"""Share of rows in other scripts above which a run warns: fewer may be quotations or mistakes."""

_COMPARED = 10
"""Signatures of a run that are compared for a warning. There may be one for each test set."""


def run_warnings(summary: Mapping[str, Any], spec: ScoreSpec) -> list[str]:
    """Return the warnings that a summary leads to."""
    settings = spec.settings
    lengths = {setting.signature.max_length for setting in settings.by_language.values()}
    length = lengths.pop() if len(lengths) == 1 else "the maximum length of their model, in"
    found = (
        truncated_words(summary, length),
        unused_words(spec, summary),
        script_words(summary, settings.script_language),
    )
    return [words for words in found if words is not None]


def truncated_words(summary: Mapping[str, Any], max_length: str) -> str | None:
    """Return the warning about texts that were cut; None without any."""
    if not summary["truncated"]:
        return None
    return (
        f"{summary['truncated']:,} of {summary['scored']:,} scored rows "
        f"({summary['truncated_fraction']:.2%}) hold a text that was cut at {max_length} tokens: "
        "what comes after is not in their scores. The column bertscore_truncated marks them. "
        "--long-text windows scores whole texts."
    )


def script_words(summary: Mapping[str, Any], language: str) -> str | None:
    """Return the warning about texts in other scripts than the baseline's; None without one."""
    others, rows = summary["other_scripts"], summary["rows"]
    if not language or others <= _SHARE_OF_OTHER_SCRIPTS * rows:
        return None
    return (
        f"{others:,} of {rows:,} rows ({others / rows:.2%}) have references in another script than "
        f"{language!r}, the language of the baseline: their rescaled scores mean nothing. Score "
        "each row by its own language with --language-column."
    )


def unused_words(spec: ScoreSpec, summary: Mapping[str, Any]) -> str | None:
    """Return the warning that no row took a score of the earlier run; None if one did."""
    source = spec.reuse
    if source is None or summary["reused"] or not summary["scored"]:
        return None
    if _has_other_tables(source, read_index(spec.folder)):
        return (
            f"no row took its scores from {source.shown}: its idf table is another one, and every "
            "score depends on that. Count a table once with `bertscore-beam idf`, and give it to "
            "every run with --idf PATH."
        )
    return (
        f"no row took its scores from {source.shown}: it has none of the same texts and settings."
    )


def _has_other_tables(source: EarlierSource, own: Index | None) -> bool:
    """Tell whether no idf table of this run is one of the earlier run's, as far as is known."""
    if own is None or not source.is_indexed:
        return False
    if (equal_settings(source.signatures, own.signatures) != NO_SETTING).any():
        return False
    texts = own.signatures[:_COMPARED]
    return any(
        "idf" in (nearest_differences(source.signatures, Signature.parse(text)) or {})
        for text in texts
    )
