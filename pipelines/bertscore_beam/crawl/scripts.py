"""The scripts in which languages are written, and whether a sentence is in them."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

MIN_SCRIPT_SHARE = 0.6
"""Least share of a sentence's letters in a script of its language. The rest may be names."""

_PARTS = {
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
}
"""Unicode's scripts where the code of a way of writing is not one of them."""
_MORE_SCRIPTS = {
    "az": ("Cyrl",),
    "ha": ("Arab",),
    "iu": ("Latn",),
    "kk": ("Latn",),
    "ks": ("Deva",),
    "ku": ("Arab", "Cyrl"),
    "lif": ("Limb",),
    "mn": ("Mong",),
    "ms": ("Arab",),
    "pa": ("Arab",),
    "sd": ("Deva",),
    "tk": ("Cyrl",),
    "tt": ("Latn",),
    "ug": ("Cyrl", "Latn"),
    "uz": ("Cyrl",),
}
"""Further scripts of languages that are written in several. Not Serbian: see `NOT_TOLD_APART`."""
_CASED = frozenset({"Armn", "Cyrl", "Grek", "Latn"})
"""Scripts in which a sentence begins with a capital. Georgian has capitals, but not for that."""


@cache
def scripts_of(language: str) -> tuple[str, ...]:
    """Return the scripts of a language, as Unicode's short codes; the usual one first.

    References:
        CLDR's likely subtags, as the package `langcodes` has them.
    """
    from langcodes import Language

    usual = Language.get(language).maximize().script or "Latn"
    return (*_PARTS.get(usual, (usual,)), *_MORE_SCRIPTS.get(language, ()))


@cache
def is_cased(language: str) -> bool:
    """Tell whether sentences of a language begin with a capital letter."""
    return scripts_of(language)[0] in _CASED


def is_in_script(sentence: str, language: str) -> bool:
    """Tell whether the letters of a sentence are mostly of a script of its language.

    Args:
        sentence: Normalized.
        language: Its language.
    """
    if sentence.isascii():  # quick to tell, and true of most English
        return "Latn" in scripts_of(language)
    ours, others = _letters(language)
    foreign = len(others.findall(sentence))
    return not foreign or foreign <= (1 - MIN_SCRIPT_SHARE) * (
        foreign + len(ours.findall(sentence))
    )


@cache
def _letters(language: str) -> tuple["regex.Pattern[str]", "regex.Pattern[str]"]:
    """Return the patterns of a letter in a language's scripts, and in all others."""
    import regex

    scripts = "".join(rf"\p{{Script={script}}}" for script in scripts_of(language))
    # Letters that several scripts share, such as ー and ʼ, are of none.
    others = rf"[^\P{{L}}{scripts}\p{{Script=Common}}]"
    return regex.compile(rf"[{scripts}]"), regex.compile(others)


def chinese_variant(sentence: str) -> str | None:
    """Return `traditional` or `simplified` for a Chinese sentence; None if it is both or neither.

    The old encodings of the two ways of writing tell them apart: Big5 has the traditional
    characters and GB 2312 the simplified ones, each with two bytes for a character.
    """
    more = len(sentence.encode("big5", "ignore")) - len(sentence.encode("gb2312", "ignore"))
    if more == 0:
        return None
    return "traditional" if more > 0 else "simplified"
