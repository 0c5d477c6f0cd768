"""Text with codes in place of what cannot be seen: for terminals, pages, charts and pictures."""

import re

# Controls (C0 except tab and newline, DEL, C1), marks that change the direction of writing, other
# invisible characters, separators of lines and paragraphs, lone surrogates, and the two
# noncharacters that XML 1.0 forbids. All characters that XML 1.0 forbids are among these.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape_text(text: str) -> str:
    """Return a text with the characters of `INVISIBLE` as codes; newlines and tabs stay."""
    return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)
