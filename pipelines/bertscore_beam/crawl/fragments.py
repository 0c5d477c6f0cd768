"""Pieces that look like sentences and are none: items of lists, and parts of sentences.

The splitter ends a sentence at a full stop that belongs to an ordinal or an abbreviation when it
does not know better: "... im 19." and "Jahrhundert ...". Both halves are refused here. It costs a
few sentences that end so rightly, such as "It is plan B.".
"""

import re

from bertscore_beam.crawl.scripts import is_cased

_LIST_MARK = re.compile(
    r"""
    [•·・▪▫◦‣⁃●○■□◆◇▶►▸➤➢✓✔✗✘★☆※→①-⑳]     # bullets and numbers in circles
    | [-*+]\s                               # not – and —, which begin direct speech
    | [(（\[]?\d{1,3}[)）\]]                 # (1) 1) [1]
    | \d{1,3}(?:\.(?!\d)|[、．])             # 1. 1、 but not 3.5
    | [(（]?[a-zA-Z]\)\s                     # a) (b)
    | [(（]?[ivxIVX]{1,4}\)\s                # iv)
    | [(（]?[一二三四五六七八九十]{1,3}[、)）]  # 一、 （二）
    """,
    re.VERBOSE,
)
_FULL_WIDTH_STOP = "．"
"""Ends items of lists in Chinese. In Japanese it also ends sentences."""

ORDINAL_LANGUAGES = frozenset({
    "az", "bs", "cs", "da", "de", "et", "eu", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nn", "no",
    "pl", "sk", "sl", "sr", "tr",
})  # fmt: skip
"""Languages that write ordinals as 19. or XIX."""
_ORDINAL = re.compile(r"(?:^|[\s(])(?:\d{1,2}|[IVXL]{2,6})$")
_LETTERED_ORDINAL = re.compile(r"\d(?:[ºª]|ro|do|er|ra|da|to|mo|vo|no)$")
"""Spanish and its neighbours write 1ro., 2do."""
_LETTERED_LANGUAGES = frozenset({"ca", "es", "gl", "it", "pt"})

_ABBREVIATIONS = {
    "": "approx ca dr e.g i.e mr mrs nr prof tel vs",
    "cs": "č mj např sv tj tzv ul",
    "da": "bl.a f.eks kl",
    "de": "bzw d.h evtl ggf inkl o.g str u.a v.a vgl z.b zzgl",
    "en": "fig lb lbs no oz pp st tbsp tsp vol",
    "es": "av núm pág sr sra srta ud uds",
    "fr": "av apr env mlle mm mme p pp st ste",
    "hu": "ill kb pl ún",
    "it": "dott ing pag sig",
    "nl": "bijv blz bv dhr d.w.z evt incl mevr o.a",
    "no": "bl.a f.eks kl",
    "pl": "im np tj tzn tzw ul św",
    "pt": "av núm pág sr sra",
    "ru": "им напр рис см стр т.е ул",
    "sv": "bl.a d.v.s kl t.ex",
    "tr": "bkz örn yy",
}
"""Abbreviations that are followed by another word, by language; under "" those of all."""
_ABBREVIATIONS_OF = {
    code: frozenset(f"{_ABBREVIATIONS['']} {words}".split())
    for code, words in _ABBREVIATIONS.items()
}

_OPENING = "\"'”’“‘„‚»«›‹([{¿¡–—-…. \u02bc"
"""May stand before the first word."""


def is_list_item(sentence: str, language: str) -> bool:
    """Tell whether a sentence begins with a bullet or a number, as items of lists do."""
    if _LIST_MARK.match(sentence) is not None:
        return True
    return language == "zh" and sentence.endswith(_FULL_WIDTH_STOP)


def is_cut_off(end: str, language: str) -> bool:
    """Tell whether a sentence ends with an ordinal, an initial or an abbreviation.

    Args:
        end: The sentence without quotation marks and brackets at its end.
        language: Its language.
    """
    if not end.endswith("."):
        return False
    last = end[:-1]
    if _is_initial(last, language):
        return True
    if language in ORDINAL_LANGUAGES and _ORDINAL.search(last) is not None:
        return True
    if language in _LETTERED_LANGUAGES and _LETTERED_ORDINAL.search(last) is not None:
        return True
    word = last.rpartition(" ")[2].lstrip(_OPENING).replace("’", "'").rpartition("'")[2].lower()
    if word == "no":
        # The number sign, not the answer: "Bus No." and "She said no."
        return language == "en" and last.endswith("No")
    return word in _ABBREVIATIONS_OF.get(language, _ABBREVIATIONS_OF[""])


def _is_initial(last: str, language: str) -> bool:
    """Tell whether a text ends with one capital letter, as in J. or D.C."""
    if not last[-1:].isupper() or last[-2:-1].isalnum():
        return False
    return not (language == "en" and last.endswith(" I"))  # so do I


def starts_inside(sentence: str, language: str) -> bool:
    """Tell whether the first word has no capital, in languages that begin sentences with one.

    A word with a capital further on begins a sentence: iPhone, and the Irish bhFuil.
    """
    start = sentence.lstrip(_OPENING)
    word = start.partition(" ")[0]
    if not (word.islower() and word[0].isalpha() and is_cased(language)):
        return False
    # The Dutch 's Avonds and the Afrikaans 'n Man.
    return len(word) > 1 or sentence[0] not in "'’‘\u02bc"
