"""List the code points that BERT's tokenizer in Rust treats otherwise than the slow one did.

The slow tokenizers of transformers 4 ask Python's `unicodedata` what a character is; the batched
ones carry tables of their own, of another age. The goldens were made with Python 3.11 (Unicode
14.0.0), so those tables are written down, and scores do not depend on the Python that runs.

Run it in the project's environment, with Python 3.11::

    .venv/bin/python tests/golden/make_codepoints.py
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import tokenizers
from tokenizers import normalizers, pre_tokenizers

TARGET = Path(__file__).resolve().parents[2] / "bertscore_core" / "data" / "codepoints.csv"
UNICODE = "14.0.0"
# As in BERT's own tokenization.py: CJK blocks, not scripts.
IDEOGRAPH = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)


def slow_treatment(code: int) -> str:
    """Name what the slow tokenizer does with a character; empty where it just keeps it."""
    category = unicodedata.category(chr(code))
    if category.startswith("C") and chr(code) not in "\t\n\r":
        return "drop"
    if IDEOGRAPH.match(chr(code)):
        return "ideograph"
    if category == "Mn":
        return "accent"
    return "punctuation" if category.startswith("P") else ""


def differing() -> Iterator[tuple[int, str]]:
    """Yield code points for which the Rust tokenizer makes other words, with the treatment.

    And control characters, which both drop, but the slow one before it composes letters and marks.
    """
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF:
            continue
        treatment = slow_treatment(code)
        words = rust_words(code, lowercase=True)
        apart = len(words) == 3 and (words[0], words[2]) == ("a", "b")
        if treatment in ("drop", "accent"):
            # Where accents stay, the slow tokenizers keep what these remove: it is a mark to them.
            if treatment == "accent" and len(rust_words(code, lowercase=False)) != 1:
                yield code, "mark"
            elif words != ["ab"]:
                yield code, treatment
            elif unicodedata.category(chr(code)) in ("Cc", "Cf"):
                yield code, "control"
        elif treatment:
            if not apart:
                yield code, treatment
        elif stays(chr(code)) and (len(words) != 1 or words == ["ab"]):
            yield code, "keep"


def stays(char: str) -> bool:
    """Tell whether the slow tokenizer leaves a character without treatment as it is, in a word."""
    if char.isascii() or char.isspace() or char == "\ufffd":
        return False
    return unicodedata.normalize("NFD", char) == char


def rust_words(code: int, *, lowercase: bool) -> list[str]:
    """Return the words that the Rust tokenizer makes of a character between two letters."""
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    text = normalizer.normalize_str(f"a{chr(code)}b")
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)]


def main() -> None:
    """Write the table."""
    if unicodedata.unidata_version != UNICODE:
        raise SystemExit(f"Unicode {unicodedata.unidata_version} here; run with {UNICODE}")
    lines = [
        "# Code points (hexadecimal) that the slow BERT tokenizers of transformers 4 under Python",
        f"# 3.11 (Unicode {UNICODE}) treat otherwise than tokenizers {tokenizers.__version__}.",
        "# treatment: what the slow ones do with them.",
        "# Made by tests/golden/make_codepoints.py; do not edit by hand.",
        "first,last,treatment",
    ]
    found = list(differing())
    numbered = ((code - index, code, name) for index, (code, name) in enumerate(found))
    for (_, name), run in groupby(numbered, key=lambda item: (item[0], item[2])):
        codes = [code for _, code, _ in run]
        lines.append(f"{codes[0]:04X},{codes[-1]:04X},{name}")
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
