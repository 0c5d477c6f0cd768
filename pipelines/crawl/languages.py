"""One code for each language, whoever names it, and the detection of languages.

    user         en EN eng deu iw zh-TW     -> en en en de he, and zh-TW is refused
    header       eng cmn arb pes nob fil    -> en zh  ar  fa  no  tl     (ISO 639-3)
    detector     en iw jw zh-Hant no nn     -> en he jv zh no nn         (CLD2)

A language has its shortest BCP-47 code without script or region. Languages that the detector
distinguishes have codes of their own, even where it often errs: Norwegian `no` (Bokmål) and `nn`;
`sr`, `hr` and `bs`; `id` and `ms`. Those that it does not distinguish are one language: `zh` is
Chinese in both scripts.

The packages of the extra `baseline` are imported when they are first needed: everything else runs
without them.
"""

import difflib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from types import MappingProxyType

from bertscore_core.errors import ConfigError

EXTRA_PACKAGES = ("langcodes", "matplotlib", "pycld2", "regex", "sacrebleu", "sentencex")
"""Packages of the extra `baseline`."""
_PACKAGES_OF_PAGES = frozenset({"pycld2", "regex", "sentencex"})
"""Those of them that only reading web pages needs."""

_OTHER_NAMES = MappingProxyType({"nb": "no", "fil": "tl"})
"""Codes of the standard that differ from those of the published baselines for the same language."""
_NO_LANGUAGES = frozenset({"un", "xxx", "tlh"})
"""Codes of the detector for unknown text, text to ignore, and a made-up language."""
NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
"""Unicode's 66 noncharacters, written for the brackets of a regular expression."""
_REFUSED = re.compile(f"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff{NONCHARACTERS}]+")
"""Characters that pycld2 0.42 refuses: controls, lone surrogates and noncharacters, as a call with
every code point has shown."""


def check_installed(*, pages: bool = True) -> None:
    """Raise unless the needed packages of the extra `baseline` are installed.

    Args:
        pages: Whether web pages are read, which needs a detector and a splitter; given sentences
            need neither.

    Raises:
        ConfigError: one is missing.
    """
    needed = [name for name in EXTRA_PACKAGES if pages or name not in _PACKAGES_OF_PAGES]
    missing = [name for name in needed if find_spec(name) is None]
    if not missing:
        return
    purpose = "making baselines"
    cure = "Run: pip install 'bertscore-beam[baseline]'."
    if not pages:
        # Not the extra, which cannot be installed where pycld2 cannot.
        cure = f"Run: pip install {' '.join(missing)}"
    elif not _PACKAGES_OF_PAGES.isdisjoint(missing):
        purpose = "reading web pages"
    if "pycld2" in missing:
        cure += (
            " pycld2 has wheels for Python up to 3.13 on Linux x86-64 only; elsewhere pip needs a "
            "C++ compiler. Sentences of your own need neither a detector nor a splitter: give "
            "them with --sentences."
        )
    raise ConfigError(
        f"packages are missing: got no {', '.join(missing)}; expected them for {purpose}. {cure}"
    )


def check_tag(code: str) -> str:
    """Return a language's code in lower case, whether or not the language can be detected.

    Raises:
        ConfigError: it is not the code of a language.
    """
    from langcodes import tag_is_valid

    if not tag_is_valid(code):
        raise ConfigError(
            f"unknown language {code!r}: expected a code such as en, de or zh-tw. Write "
            "--sentences CODE=PATH."
        )
    return code.lower()


@cache
def known_languages() -> Mapping[str, str]:
    """Return the languages that can be detected: English name in lower case by code."""
    import pycld2

    codes = {name: code for name, code in pycld2.LANGUAGES if name in pycld2.DETECTED_LANGUAGES}
    names: dict[str, str] = {}
    # In this order "chinese" comes before "chineset", which is the same language.
    for name, code in sorted(codes.items(), key=lambda item: item[0].lower()):
        if not name.startswith("X_") and code not in _NO_LANGUAGES:
            names.setdefault(_primary(code), name.lower())
    return MappingProxyType(dict(sorted(names.items())))


def check_language(code: str) -> str:
    """Return our code of a language, whichever of its codes is given.

    Raises:
        ConfigError: there is no such language, it cannot be detected, or the code names a script or
            a region, which the detector does not distinguish.
    """
    known = known_languages()
    tag = code.strip().replace("_", "-")
    canonical = _standard_tag(tag) or ""
    if canonical in known and "-" not in tag:
        return canonical
    primary = canonical.partition("-")[0]
    if primary in known:
        near = [primary]
    else:
        by_name = {name: code for code, name in known.items()}
        found = difflib.get_close_matches(tag.lower(), by_name, n=2, cutoff=0.85)
        near = [by_name[name] for name in found] or difflib.get_close_matches(
            tag.lower(), known, n=4, cutoff=0.5
        )
    hint = f"Did you mean {' or '.join(near)}?" if near else "See docs/baselines.md for the codes."
    raise ConfigError(
        f"not a language that can be detected: got {code!r}; expected a code such as en, de or zh, "
        f"without script or region. {hint}"
    )


@lru_cache(maxsize=4096)
def header_language(iso639_3: str) -> str | None:
    """Return our code of a language that Common Crawl names; None if we do not know it.

    Args:
        iso639_3: Three letters, for a language or a member of a macrolanguage.
    """
    canonical = _standard_tag(iso639_3)
    code = None if canonical is None else canonical.partition("-")[0]
    return code if code in known_languages() else None


def detect_language(text: str) -> str | None:
    """Return the language of a text; None if it cannot be detected. Never raises.

    For a text in several languages it is the one with the largest share.
    """
    import pycld2

    try:
        return _most_of(text)
    except (pycld2.error, UnicodeEncodeError):
        # To look for these characters in every text would cost as much as the detection.
        return _most_of(_REFUSED.sub(" ", text))


def _most_of(text: str) -> str | None:
    """Return the language with the largest share of a text; None if that is not reliable."""
    import pycld2

    reliable, _, found = pycld2.detect(text, isPlainText=True, bestEffort=True)
    return _detected(found[0][1]) if reliable else None


def detector_version() -> str:
    """Return the name and version of the detector, for provenance."""
    return f"pycld2-{version('pycld2')}"


@cache
def _detected(code: str) -> str | None:
    """Return our code of what the detector found; None if that is not a language."""
    if code in _NO_LANGUAGES or code.startswith(("xx-", "zz")):
        return None
    return _primary(code)


@cache
def _primary(code: str) -> str:
    """Return our code of one of the detector's languages."""
    return (_standard_tag(code) or code).partition("-")[0]


def _standard_tag(code: str) -> str | None:
    """Return the standard tag of a code, that of the macrolanguage if any; None if malformed."""
    import langcodes

    try:
        tag = langcodes.standardize_tag(code, macro=True)
    except ValueError:
        return None
    return _OTHER_NAMES.get(tag, tag)
