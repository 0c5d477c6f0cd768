"""Warnings at the end of a scoring run: about texts that were cut, and about other scripts."""

from collections.abc import Mapping
from typing import Any

from pipelines.score.settings import RunSettings

_SHARE_OF_OTHER_SCRIPTS = 0.02
"""Share of rows in other scripts above which a run warns: fewer may be quotations or mistakes."""


def run_warnings(summary: Mapping[str, Any], settings: RunSettings) -> list[str]:
    """Return the warnings that a summary leads to."""
    lengths = {setting.signature.max_length for setting in settings.by_language.values()}
    length = lengths.pop() if len(lengths) == 1 else "the maximum length of their model, in"
    found = (truncated_words(summary, length), script_words(summary, settings.script_language))
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
