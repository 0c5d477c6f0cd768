"""What a metric is."""

from collections.abc import Callable, Sequence
from typing import Protocol

from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.tokens import IntArray


class Metric(Protocol):
    """A metric for texts of one language."""

    def rows(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> tuple[Doubles, IntArray]:
        """Score each row on its own, against one or more references.

        Returns:
            Scores on the scale of the library, NaN where it has none, shape (N,); and counts that
            add up to those of a corpus, shape (N, K).
        """

    def is_too_long(self, candidate: str, references: Sequence[str]) -> bool:
        """Tell whether a row would take more than some 5 seconds of a core."""

    def signatures(self, *, listed: bool = False) -> tuple[str, str]:
        """Return how the score of a corpus, and those of rows, are made."""


def base_of(language: str) -> str:
    """Return the language of a code such as zh-Hans."""
    return language.lower().replace("_", "-").split("-")[0]


def exceeds(
    most: int, words_of: Callable[[str], int], candidate: str, references: Sequence[str]
) -> bool:
    """Tell whether the words of a candidate times those of its references are more than `most`."""
    # A word has at least one character, so that few rows are cut into words twice.
    if len(candidate) * sum(map(len, references)) <= most:
        return False
    return words_of(candidate) * sum(map(words_of, references)) > most
