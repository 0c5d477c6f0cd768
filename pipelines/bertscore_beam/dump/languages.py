"""Language codes: how they are written, what stands for other values, and their scripts."""

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

NO_LANGUAGE = ""
"""Stands for the language of a row that has none: a null, or a blank text."""

NO_CODE = "?"
"""Stands for every value that cannot be a language code, so that no text of the dump is shown."""

_CODE = re.compile(r"[a-z0-9]{1,12}([_-][a-z0-9]{1,12}){0,3}")


def is_code(text: str) -> bool:
    """Tell whether a text in lower case can be a language code, such as en or zh-hans-cn."""
    return _CODE.fullmatch(text) is not None


def language_of(value: object) -> str:
    """Return the language of a value: its code in lower case, `NO_LANGUAGE` or `NO_CODE`."""
    if value is None:
        return NO_LANGUAGE
    if not isinstance(value, str):
        return NO_CODE
    if not value or value.isspace():
        return NO_LANGUAGE
    code = value.lower()
    return code if is_code(code) else NO_CODE


def language_name(language: str) -> str:
    """Return the name of a language for people."""
    return {NO_LANGUAGE: "(none)", NO_CODE: "(no language code)"}.get(language, language)


def codes_first(languages: Iterable[str]) -> list[str]:
    """Return languages in the order in which they are shown: codes first, then the others."""
    return sorted(languages, key=lambda name: (name in (NO_LANGUAGE, NO_CODE), name))


# Tell whether texts are plainly in another script than a language is written in.
#
# Letters are counted by their Unicode script. A text counts as one of another script if it has
# enough letters, and most of them are in no script of the language: a name or a quotation in
# another script does not make it one, nor do digits, punctuation and emoji, which are not letters.

_LEAST_LETTERS = 8
"""Letters below which a text says nothing: a single name or an abbreviation."""

_MOST_FOREIGN = 3
"""A text is of another script if more than 2 of 3 letters are in no script of the language."""

_MOST_CHARACTERS = 300
"""Characters that are looked at, from the start of a text."""

_LATIN = ("Latin",)
_OTHER_SCRIPTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("ba", "be", "bg", "ce", "cv", "kk", "ky", "mk", "mn", "ru", "tg", "tt", "uk"),
                    ("Cyrillic",)),
    **dict.fromkeys(("ar", "azb", "fa", "lah", "pnb", "ur"), ("Arabic",)),
    **dict.fromkeys(("hi", "mr", "ne", "new"), ("Devanagari",)),
    **dict.fromkeys(("bn", "bpy"), ("Bengali",)),
    **dict.fromkeys(("bs", "sh", "sr", "uz", "az"), ("Latin", "Cyrillic")),
    **dict.fromkeys(("zh", "zh-cn", "zh-tw"), ("Han", "Bopomofo")),
    "el": ("Greek",),
    "gu": ("Gujarati",),
    "he": ("Hebrew",),
    "hy": ("Armenian",),
    "ja": ("Han", "Hiragana", "Katakana"),
    "ka": ("Georgian",),
    "kn": ("Kannada",),
    "ko": ("Hangul", "Han"),
    "ml": ("Malayalam",),
    "my": ("Myanmar",),
    "pa": ("Gurmukhi", "Arabic"),
    "ta": ("Tamil",),
    "te": ("Telugu",),
    "th": ("Thai",),
}  # fmt: skip
"""Scripts of the registry's languages that are not written in Latin letters alone."""


def scripts_of(language: str) -> Sequence[str]:
    """Return the Unicode scripts that a language of the registry is written in."""
    return _OTHER_SCRIPTS.get(language.lower(), _LATIN)


def count_other_scripts(texts: Sequence[str], language: str) -> int:
    """Count the texts that are plainly in another script than a language is written in."""
    scripts = scripts_of(language)
    if scripts == _LATIN:
        texts = [text for text in texts if not text.isascii()]
    if not texts:
        return 0
    column = pa.array([text[:_MOST_CHARACTERS] for text in texts], pa.string())
    letters = pc.count_substring_regex(column, r"\pL")
    own = "".join(rf"\p{{{script}}}" for script in scripts)
    fitting = pc.count_substring_regex(column, f"[{own}]")
    foreign = pc.less(pc.multiply(fitting, _MOST_FOREIGN), letters)
    enough = pc.greater_equal(letters, _LEAST_LETTERS)
    return int(pc.sum(pc.and_(foreign, enough)).as_py() or 0)
