"""The length of a sentence in words, in every language."""

from dataclasses import dataclass
from functools import cache

UNSPACED_LANGUAGES = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th", "wuu", "yue", "zh"})
"""They put no spaces between words. Not Korean or Vietnamese, which do."""
CHARACTERS_A_WORD = 3
"""Characters that count as a word in these languages. Chinese has about 1.6 in a word,
Japanese 2.3, Thai, Khmer and Burmese 4 to 5: a convention, so that one option serves all."""

TOO_SHORT = "too_short"
TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class WordLimits:
    """How many words a sentence may have.

    Attributes:
        least: Fewest words; None for no limit.
        most: Most words; None for no limit.
    """

    least: int | None = None
    most: int | None = None

    def __bool__(self) -> bool:
        """Tell whether there is a limit."""
        return self.least is not None or self.most is not None

    @property
    def shown(self) -> str:
        """The limits in words."""
        if self.least is None or self.most is None:
            return f"at least {self.least}" if self.most is None else f"at most {self.most}"
        return f"{self.least} to {self.most}"

    def reason(self, words: int) -> str | None:
        """Return what is wrong with a number of words; None if nothing is."""
        if self.least is not None and words < self.least:
            return TOO_SHORT
        if self.most is not None and words > self.most:
            return TOO_LONG
        return None


PAGE_WORDS = WordLimits(least=4, most=31)
"""For sentences of web pages. The published baselines have fewer than 32 words; shorter sentences
are headings and buttons."""


@cache
def is_unspaced(language: str) -> bool:
    """Tell whether a language puts no spaces between words.

    Args:
        language: Its code, also one with a script or region, such as zh-tw.
    """
    return language.partition("-")[0] in UNSPACED_LANGUAGES


def count_words(sentence: str, language: str) -> int:
    """Return the number of words of a sentence.

    Words are what blanks separate. In languages without blanks between words every
    `CHARACTERS_A_WORD` characters count as one, and so do those that are left at the end.

    Args:
        sentence: Normalized.
        language: Its language.
    """
    if is_unspaced(language):
        return -(-len(sentence) // CHARACTERS_A_WORD)
    return len(sentence.split())
