"""One code for each language, whoever names it, and the detection of languages.

    user         en EN eng deu iw zh-TW     -> en en en de he, and zh-TW is refused
    header       eng cmn arb pes nob fil    -> en zh  ar  fa  no  tl     (ISO 639-3)
    detector     en iw jw zh-Hant no nn     -> en he jv zh no nn         (CLD2)

A language has its shortest BCP-47 code without script or region. Languages that the detectors
distinguish have codes of their own, such as Norwegian `no` (Bokmål) and `nn`, or `id` and `ms`.
Those that they do not distinguish are one language: `zh` is Chinese in both scripts.
"""

import difflib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from types import MappingProxyType

from bertscore_beam.crawl.detection import (
    DETECTORS,
    NOT_TOLD_APART,
    detected_languages,
    installed_detectors,
    standard_tag,
)
from bertscore_core.errors import ConfigError

EXTRA_PACKAGES = (
    *("langcodes", "matplotlib", "py3langid", "pycld2", "regex"),
    *("sacrebleu", "sentencex"),
)
"""Packages of the extra `baseline`."""
_PACKAGES_OF_PAGES = frozenset({*DETECTORS, "regex", "sentencex"})
"""Those of them that only reading web pages needs."""


def check_installed(*, pages: bool = True) -> None:
    """Raise unless the needed packages of the extra `baseline` are installed.

    One detector is enough.

    Args:
        pages: Whether web pages are read, which needs a detector and a splitter; given sentences
            need neither.

    Raises:
        ConfigError: one is missing.
    """
    needed = [name for name in EXTRA_PACKAGES if pages or name not in _PACKAGES_OF_PAGES]
    missing = [name for name in needed if find_spec(name) is None]
    if any(name not in missing for name in DETECTORS):
        missing = [name for name in missing if name not in DETECTORS]
    if not missing:
        return
    purpose = "making baselines"
    cure = "Run: pip install 'bertscore-beam[baseline]'."
    if not pages:
        cure = f"Run: pip install {' '.join(missing)}"
    elif not _PACKAGES_OF_PAGES.isdisjoint(missing):
        purpose = "reading web pages"
        cure += (
            " Sentences of your own need neither a detector nor a splitter: give them with "
            "--sentences."
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
    detected = detected_languages(installed_detectors()[0])
    return MappingProxyType({c: name for c, name in detected.items() if c not in NOT_TOLD_APART})


def check_language(code: str) -> str:
    """Return our code of a language, whichever of its codes is given.

    Raises:
        ConfigError: there is no such language, it cannot be detected or told from another, or the
            code names a script or a region, which the detectors do not distinguish.
    """
    known = known_languages()
    tag = code.strip().replace("_", "-")
    canonical = standard_tag(tag) or ""
    if canonical in NOT_TOLD_APART:
        raise ConfigError(
            f"a language that is not told from another: got {code!r}; expected none of "
            f"{', '.join(sorted(NOT_TOLD_APART))}, since the sentences of web pages in Croatian, "
            "Bosnian and Serbian in Latin script would be mixed. Give sentences of your own: "
            f"--sentences {canonical}=PATH. For Serbian in Cyrillic give sr."
        )
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
    canonical = standard_tag(iso639_3)
    code = None if canonical is None else canonical.partition("-")[0]
    return code if code in known_languages() else None
