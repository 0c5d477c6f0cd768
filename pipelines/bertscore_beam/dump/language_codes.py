"""Language codes: how they are written, and what stands for a value that is none."""

import re
from collections.abc import Iterable

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


def words_for(language: str) -> str:
    """Return the name of a language for people."""
    return {NO_LANGUAGE: "(none)", NO_CODE: "(no language code)"}.get(language, language)


def by_name(languages: Iterable[str]) -> list[str]:
    """Return languages in the order in which they are shown: codes first, then the others."""
    return sorted(languages, key=lambda name: (name in (NO_LANGUAGE, NO_CODE), name))
