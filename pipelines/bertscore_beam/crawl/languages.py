"""Languages of sentences: their codes, and the detector that tells them.

    user         en EN eng deu iw zh-TW     -> en en en de he, and zh-TW is refused
    header       eng cmn arb pes nob fil    -> en zh  ar  fa  no  tl     (ISO 639-3)
    detector     en iw jw zh-Hant no nn     -> en he jv zh no nn         (CLD2)

A language has its shortest BCP-47 code without script or region. Languages that the detector
distinguishes have codes of their own, such as Norwegian `no` (Bokmål) and `nn`, or `id` and `ms`.
Those that it does not distinguish are one language: `zh` is Chinese in both scripts.
"""

import difflib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from types import MappingProxyType

from bertscore_core.errors import ConfigError

_CASED = frozenset({"Armn", "Cyrl", "Grek", "Latn"})
"""Scripts in which a sentence begins with a capital. Georgian has capitals, but not for that."""


@cache
def is_cased(language: str) -> bool:
    """Tell whether sentences of a language begin with a capital letter.

    References:
        CLDR's likely subtags, as the package `langcodes` has them.
    """
    from langcodes import Language

    return (Language.get(language).maximize().script or "Latn") in _CASED


# The detector: of those that carry their models in their wheels the most accurate, and fast. It is
# imported when it is first needed: everything else runs without it.

NOT_TOLD_APART = frozenset({"bs", "hr"})
"""Croatian and Bosnian, and with them Serbian in Latin script, are not told apart. Of translated
programs in Bosnian 90% of the pages were taken for Croatian, and 43% of the sentences passed as
Croatian, as many as of Croatian itself (38%); of the Declaration of Human Rights in Serbian (Latin)
83% of the pages were taken for Bosnian, and 28% of the sentences passed as such. Serbian is taken
in Cyrillic only."""
_CYRILLIC, _LATIN = re.compile("[А-я]"), re.compile("[A-Za-z]")

_NO_LANGUAGES = frozenset({"un", "xxx", "tlh", "zxx"})
"""Codes for unknown text, text to ignore, and a made-up language."""
_OTHER_NAMES = MappingProxyType({"nb": "no", "fil": "tl"})
"""Codes of the standard that differ from those of the published baselines for the same language."""


def detect_language(text: str) -> str | None:
    """Return the language with the largest share of a normalized text; None if that is not sure."""
    import pycld2

    try:
        reliable, _, shares = pycld2.detect(text, isPlainText=True, bestEffort=True)
    except (pycld2.error, UnicodeEncodeError):  # characters that a normalized text does not have
        return None
    code = _code(shares[0][1]) if reliable else None
    if code == "sr" and len(_CYRILLIC.findall(text)) <= len(_LATIN.findall(text)):
        return None
    return code


@cache
def known_languages() -> Mapping[str, str]:
    """Return the languages that can be detected: English name in lower case by code."""
    import pycld2

    names: dict[str, str] = {}
    codes = {name: code for name, code in pycld2.LANGUAGES if name in pycld2.DETECTED_LANGUAGES}
    # In this order "chinese" comes before "chineset", which is the same language.
    for name, label in sorted(codes.items(), key=lambda item: item[0].lower()):
        code = None if name.startswith("X_") else _code(label)
        if code is not None and code not in NOT_TOLD_APART:
            names.setdefault(code, name.lower())
    return MappingProxyType(dict(sorted(names.items())))


@cache
def _code(label: str) -> str | None:
    """Return our code of what the detector found; None if that is not a language."""
    if label in _NO_LANGUAGES or label.startswith(("X_", "xx-", "zz")):
        return None
    return (_standard_tag(label) or label).partition("-")[0]


def _standard_tag(code: str) -> str | None:
    import langcodes

    try:
        tag = langcodes.standardize_tag(code, macro=True)
    except ValueError:
        return None
    return _OTHER_NAMES.get(tag, tag)


_PACKAGES = ("langcodes", "sacrebleu")
_PACKAGES_OF_PAGES = ("pycld2", "regex", "sentencex")
"""Those that only reading web pages needs. Both together are the extra `baseline`."""


def check_installed(*, pages: bool = True) -> None:
    """Raise unless the needed packages of the extra `baseline` are installed.

    Raises:
        ConfigError: One is missing.
    """
    needed = (*_PACKAGES, *_PACKAGES_OF_PAGES) if pages else _PACKAGES
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        more = " Sentences of your own need fewer: give them with --sentences." if pages else ""
        raise ConfigError(
            f"packages are missing: got no {', '.join(missing)}; expected them for making "
            f"baselines{' of web pages' if pages else ''}. Run: pip install {' '.join(missing)}, "
            f"or in the checkout: pip install '.[baseline]'.{more}"
        )


def check_tag(code: str) -> str:
    """Return a language's code in lower case with hyphens, whether or not it can be detected.

    Raises:
        ConfigError: it is not the code of a language.
    """
    from langcodes import tag_is_valid

    if not tag_is_valid(code):
        raise ConfigError(
            f"unknown language {code!r}: expected a code such as en, de or zh-tw. Write "
            "--sentences CODE=PATH."
        )
    return code.lower().replace("_", "-")


def check_language(code: str) -> str:
    """Return our code of a language, whichever of its codes is given.

    Raises:
        ConfigError: there is no such language, it cannot be detected or told from another, or the
            code names a script or a region, which the detector does not distinguish.
    """
    known = known_languages()
    tag = code.strip().replace("_", "-")
    canonical = _standard_tag(tag) or ""
    if canonical in NOT_TOLD_APART:
        raise ConfigError(
            f"this language cannot be told from its neighbours: got {code!r}; expected none of "
            f"{', '.join(sorted(NOT_TOLD_APART))}, since the sentences of web pages in Croatian, "
            "Bosnian and Serbian in Latin script would be mixed. Give sentences of your own: "
            f"--sentences {canonical}=PATH. For Serbian in Cyrillic give sr."
        )
    if canonical in known and "-" not in tag:
        return canonical
    primary = canonical.partition("-")[0]
    by_name = {name: code for code, name in known.items()}
    names = difflib.get_close_matches(tag.lower(), by_name, n=2, cutoff=0.85)
    near = [primary] if primary in known else [by_name[name] for name in names]
    near = near or difflib.get_close_matches(tag.lower(), known, n=4, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"The codes are {', '.join(known)}."
    raise ConfigError(
        f"this language cannot be detected: got {code!r}; expected a code such as en, de or zh, "
        f"without script or region. {hint}"
    )


@lru_cache(maxsize=4096)
def header_language(iso639_3: str) -> str | None:
    """Return our code of a language that Common Crawl names; None if we do not know it."""
    canonical = _standard_tag(iso639_3)
    code = None if canonical is None else canonical.partition("-")[0]
    return code if code in known_languages() else None
