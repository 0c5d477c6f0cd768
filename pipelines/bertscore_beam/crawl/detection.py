"""The detection of languages, by one detector or by two that must agree.

pycld2 is the first choice: of those that carry their models in their wheels it was the most
accurate, and it is fast. py3langid is pure Python. It is asked as well about languages that are
close to others, and alone where pycld2 cannot be installed.

The packages are imported when they are first needed: everything else runs without them.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

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
    """Return what decides the language of a sentence, as plain values.

    Args:
        detectors: Names of those that are used, the preferred one first.
    """
    names = [f"{name}-{version(name)}" for name in detectors]
    two = len(names) > 1
    return {
        "detector": names[0],
        "second_detector": names[1] if two else None,
        "close_languages": sorted(CLOSE_LANGUAGES),
    }


def detect_language(text: str, detector: str | None = None) -> str | None:
    """Return the language of a text; None if it cannot be detected. Never raises.

    For a text in several languages it is the one with the largest share.

    Args:
        text: The text.
        detector: One of `DETECTORS`; by default the preferred one of those installed.
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

    reliable, _, found = pycld2.detect(text, isPlainText=True, bestEffort=True)
    return _code(found[0][1]) if reliable else None


def _by_py3langid(text: str) -> str | None:
    label, share = _py3langid().classify(text)
    return _code(_LANGID_NAMES.get(label, label)) if share >= _LEAST_SHARE else None


@cache
def _py3langid() -> "LanguageIdentifier":
    """Load the model, once a process: it takes a second and 100 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _code(label: str) -> str | None:
    """Return our code of what a detector found; None if that is not a language."""
    if label in _NO_LANGUAGES or label.startswith(("X_", "xx-", "zz")):
        return None
    return (standard_tag(label) or label).partition("-")[0]


def standard_tag(code: str) -> str | None:
    """Return the standard tag of a code, that of the macrolanguage if any; None if malformed."""
    import langcodes

    try:
        tag = langcodes.standardize_tag(code, macro=True)
    except ValueError:
        return None
    return _OTHER_NAMES.get(tag, tag)
