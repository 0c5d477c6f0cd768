"""Keep printed and logged text from controlling a terminal; names of files are not to be trusted.

Everything for a terminal or a log passes one of these functions, since it may hold names, content
of files and messages of other libraries.
"""

import json
import logging
import re

# Controls (C0 but for tab and newline, DEL, C1), marks that turn the direction of writing, other
# characters without a shape, separators of lines and paragraphs, halves of characters.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape_text(text: str) -> str:
    """Return a text with characters that control a terminal as escapes; lines stay lines."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], text)


def escape_line(text: str) -> str:
    """Return a text as one line, for a name or a cell of a table: line breaks are escaped too."""
    return escape_text(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_json(text: str) -> str:
    """Return JSON with the same characters escaped as JSON does it; it means the same."""
    return _STEERING.sub(lambda match: json.dumps(match[0])[1:-1], text)


class EscapingFormatter(logging.Formatter):
    """Writes log lines, tracebacks included, without characters that control a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return escape_text(super().format(record))
