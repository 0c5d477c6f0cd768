"""Text for people: durations, and names of files, which cannot be trusted.

All text for a terminal or a log passes through one of these functions: it may contain names of
files, their content, and messages of other libraries.
"""

import json
import logging
import math

from bertscore_core.visible_text import INVISIBLE
from bertscore_core.visible_text import escape_text as escape_text


def escape_line(text: str) -> str:
    """Return a text as one line, for a name or a table cell: line breaks are escaped, too."""
    return escape_text(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_json(text: str) -> str:
    """Return JSON with the same characters as JSON escapes; its meaning does not change."""
    return INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


class EscapingFormatter(logging.Formatter):
    """Formats log lines and tracebacks with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return escape_text(super().format(record))


def duration_words(seconds: float) -> str:
    """Format a duration to two digits: 40 s, 12 min, 3 h 20 min, 2 days 5 h."""
    if seconds < 90:
        return f"{max(math.ceil(seconds / 5) * 5, 0)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, minutes = divmod(round(minutes, -1), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} days {hours} h" if hours else f"{days} days"
