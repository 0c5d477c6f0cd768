"""Languages of sentences: their codes, their scripts, and the detectors that tell them.

    user         en EN eng deu iw zh-TW     -> en en en de he, and zh-TW is refused
    header       eng cmn arb pes nob fil    -> en zh  ar  fa  no  tl     (ISO 639-3)
    detector     en iw jw zh-Hant no nn     -> en he jv zh no nn         (CLD2)

A language has its shortest BCP-47 code without script or region. Languages that the detectors
distinguish have codes of their own, such as Norwegian `no` (Bokmål) and `nn`, or `id` and `ms`.
Those that they do not distinguish are one language: `zh` is Chinese in both scripts.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

from bertscore_core.errors import ConfigError

if TYPE_CHECKING:
    import regex
    from py3langid.langid import LanguageIdentifier

# The scripts in which languages are written, and whether a sentence is in them.

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
    """Tell whether the letters of a normalized sentence are mostly of a script of its language."""
    if sentence.isascii():  # quick to tell, and true of most English
        return "Latn" in scripts_of(language)
    ours, foreign_letters = _letters(language)
    foreign = len(foreign_letters.findall(sentence))
    return not foreign or foreign <= (1 - MIN_SCRIPT_SHARE) * (
        foreign + len(ours.findall(sentence))
    )


@cache
def _letters(language: str) -> tuple["regex.Pattern[str]", "regex.Pattern[str]"]:
    import regex

    scripts = "".join(rf"\p{{Script={script}}}" for script in scripts_of(language))
    # Letters that several scripts share, such as ー and ʼ, are of none.
    foreign = rf"[^\P{{L}}{scripts}\p{{Script=Common}}]"
    return regex.compile(rf"[{scripts}]"), regex.compile(foreign)


def chinese_variant(sentence: str) -> str | None:
    """Return `traditional` or `simplified` for a Chinese sentence; None if it is both or neither.

    The old encodings of the two ways of writing tell them apart: Big5 has the traditional
    characters and GB 2312 the simplified ones, each with two bytes for a character.
    """
    more = len(sentence.encode("big5", "ignore")) - len(sentence.encode("gb2312", "ignore"))
    if more == 0:
        return None
    return "traditional" if more > 0 else "simplified"


# The detection of languages, by one detector or by two that must agree.
#
# pycld2 is the first choice: of those that carry their models in their wheels it was the most
# accurate, and it is fast. py3langid is pure Python. It is asked as well about languages that are
# close to others, and alone where pycld2 cannot be installed.
#
# The packages are imported when they are first needed: everything else runs without them.

PYCLD2 = "pycld2"
PY3LANGID = "py3langid"
DETECTORS = (PYCLD2, PY3LANGID)
"""By preference."""

CLOSE_LANGUAGES = frozenset({"cs", "da", "gl", "id", "ms", "nn", "no", "pt", "sk"})
"""Languages whose sentences pycld2 alone takes for another's, or another's for them, too often. Of
sentences of translated programs and of the Declaration of Human Rights it took 2% to 17% for the
nearest language (da/no, nn/no, id/ms, gl/es, cs/sk); both detectors together 0.2% to 7%. Not
Spanish and Catalan, for which that was below 1%: most of their errors are English names."""
NOT_TOLD_APART = frozenset({"bs", "hr"})
"""Croatian and Bosnian, and with them Serbian in Latin script, are not told apart. Of translated
programs in Bosnian 90% of the pages were taken for Croatian, and 43% of the sentences passed as
Croatian with the page and both detectors agreeing, as many as of Croatian itself (38%); of the
Declaration of Human Rights in Serbian (Latin) 83% of the pages were taken for Bosnian, and 28% of
the sentences passed as such. Serbian is taken in Cyrillic only."""

_NO_LANGUAGES = frozenset({"un", "xxx", "tlh", "zxx"})
"""Codes of the detectors for unknown text, text to ignore, and a made-up language."""
_OTHER_NAMES = MappingProxyType({"nb": "no", "fil": "tl"})
"""Codes of the standard that differ from those of the published baselines for the same language."""
_LANGID_NAMES = MappingProxyType({"yue": "zh", "wuu": "zh"})
"""py3langid takes half of all traditional Chinese for Cantonese."""
_LEAST_SHARE = 0.2
"""Least share that py3langid must give a language. Text that it knows nothing of gets 0.01."""

NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
"""Unicode's 66 noncharacters, written for the brackets of a regular expression."""
_REFUSED = re.compile(f"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff{NONCHARACTERS}]+")
"""Characters that pycld2 0.42 refuses: controls, lone surrogates and noncharacters, as a call with
every code point has shown."""
_CANTONESE = re.compile("[嘅佢喺冇咁哋嗰咗唔啲嘢]")
"""Characters of written Cantonese that Mandarin does not use. Every sentence of the Declaration of
Human Rights in Cantonese has one, and none of 1,693 in Mandarin."""


def installed_detectors() -> tuple[str, ...]:
    """Return the names of the detectors that are installed, the preferred one first."""
    return tuple(name for name in DETECTORS if find_spec(name) is not None)


def describe_detectors(detectors: Sequence[str]) -> dict[str, object]:
    """Return what decides the language of a sentence, as plain values."""
    names = [f"{name}-{version(name)}" for name in detectors]
    two = len(names) > 1
    return {
        "detector": names[0],
        "second_detector": names[1] if two else None,
        "close_languages": sorted(CLOSE_LANGUAGES),
    }


def detect_language(text: str, detector: str | None = None) -> str | None:
    """Return the language of a text, the one with the largest share; None if it cannot be detected.

    It never raises. By default the preferred one of the installed detectors is asked.
    """
    if (detector or installed_detectors()[0]) == PY3LANGID:
        return _by_py3langid(text)
    return _by_pycld2(text)


def is_other_language(sentence: str, language: str) -> bool:
    """Tell by its characters whether a sentence is in a language that no detector tells apart."""
    return language == "zh" and _CANTONESE.search(sentence) is not None


@cache
def detected_languages(detector: str) -> Mapping[str, str]:
    """Return the languages that a detector knows: English name in lower case by code.

    py3langid does not know the names; there the codes stand for them.
    """
    names: dict[str, str] = {}
    if detector == PY3LANGID:
        for label in _py3langid().labels:
            if (code := _code(_LANGID_NAMES.get(label, label))) is not None:
                names[code] = code
        return MappingProxyType(dict(sorted(names.items())))
    import pycld2

    codes = {name: code for name, code in pycld2.LANGUAGES if name in pycld2.DETECTED_LANGUAGES}
    # In this order "chinese" comes before "chineset", which is the same language.
    for name, label in sorted(codes.items(), key=lambda item: item[0].lower()):
        if not name.startswith("X_") and (code := _code(label)) is not None:
            names.setdefault(code, name.lower())
    return MappingProxyType(dict(sorted(names.items())))


def _by_pycld2(text: str) -> str | None:
    import pycld2

    try:
        return _most_of(text)
    except (pycld2.error, UnicodeEncodeError):
        # To look for these characters in every text would cost as much as the detection.
        return _most_of(_REFUSED.sub(" ", text))


def _most_of(text: str) -> str | None:
    """Return the language with the largest share of a text; None if that is not reliable."""
    import pycld2

    reliable, _, shares = pycld2.detect(text, isPlainText=True, bestEffort=True)
    return _code(shares[0][1]) if reliable else None


def _by_py3langid(text: str) -> str | None:
    label, share = _py3langid().classify(text)
    return _code(_LANGID_NAMES.get(label, label)) if share >= _LEAST_SHARE else None


@cache
def _py3langid() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _code(label: str) -> str | None:
    """Return our code of what a detector found; None if that is not a language."""
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


EXTRA_PACKAGES = (
    *("langcodes", "matplotlib", "py3langid", "pycld2", "regex"),
    *("sacrebleu", "sentencex"),
)
"""Packages of the extra `baseline`."""
_PACKAGES_OF_PAGES = frozenset({*DETECTORS, "regex", "sentencex"})
"""Those of them that only reading web pages needs."""


def check_installed(*, pages: bool = True) -> None:
    """Raise unless the needed packages of the extra `baseline` are installed.

    Web pages need one detector and a splitter; given sentences neither.

    Raises:
        ConfigError: One is missing.
    """
    needed = [name for name in EXTRA_PACKAGES if pages or name not in _PACKAGES_OF_PAGES]
    missing = [name for name in needed if find_spec(name) is None]
    if any(name not in missing for name in DETECTORS):
        missing = [name for name in missing if name not in DETECTORS]
    if not missing:
        return
    purpose = "making baselines"
    cure = "In the checkout: pip install '.[baseline]'."
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
    canonical = _standard_tag(tag) or ""
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
    by_name = {name: code for code, name in known.items()}
    names = difflib.get_close_matches(tag.lower(), by_name, n=2, cutoff=0.85)
    near = [primary] if primary in known else [by_name[name] for name in names]
    near = near or difflib.get_close_matches(tag.lower(), known, n=4, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else "See docs/baselines.md for the codes."
    raise ConfigError(
        f"not a language that can be detected: got {code!r}; expected a code such as en, de or zh, "
        f"without script or region. {hint}"
    )


@lru_cache(maxsize=4096)
def header_language(iso639_3: str) -> str | None:
    """Return our code of a language that Common Crawl names; None if we do not know it."""
    canonical = _standard_tag(iso639_3)
    code = None if canonical is None else canonical.partition("-")[0]
    return code if code in known_languages() else None
