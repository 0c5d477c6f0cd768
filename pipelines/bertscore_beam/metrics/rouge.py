"""ROUGE-L of rouge-score: F1, of the reference with which it is greatest."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import regex
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer, Tokenizer
from sacrebleu.metrics.bleu import BLEU

from bertscore_beam.metrics.metric import base_of, exceeds
from bertscore_beam.metrics.sacre import tokenizer_of
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.tokens import IntArray

# rouge-score's own tokenizer drops whatever is no Latin letter without accents, or digit. Of texts
# in other scripts it leaves names and numbers, whose score would say nothing: such rows have none.

_LETTERS, _LATIN = regex.compile(r"\pL"), regex.compile(r"\p{Latin}")
_MOST_FOREIGN = 3
"""A text is of another script if more than 2 of 3 letters are not Latin."""

_MOST_PAIRS = 20_000_000
"""Most words of a candidate times words of its references: 4,000 x 4,000 took 4 CPU seconds. Each
takes 8 bytes."""


class RougeL:
    """ROUGE-L for texts of one language.

    Its words are those of rouge-score, which drops other scripts: such rows have no score. With
    `by_bleu` each row has one: words are those of BLEU in lower case but for English, of which a
    text in another script agrees in no word.
    """

    def __init__(self, language: str, *, by_bleu: bool = False) -> None:
        """Make the metric."""
        self._is_own = is_own = not by_bleu or base_of(language) == "en"
        self._cut = "rouge-score" if is_own else tokenizer_of(language)
        self._of_dropped = 0.0 if by_bleu else np.nan
        self._words: Tokenizer = DefaultTokenizer() if is_own else _WordsOfBleu(self._cut)
        self._scorer: Any = RougeScorer(["rougeL"], tokenizer=self._words)

    def rows(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> tuple[Doubles, IntArray]:
        """Score each row on its own; see `Metric.rows`. There are no counts."""
        scores = [
            self._scorer.score_multi(list(group), candidate)["rougeL"].fmeasure
            if not any(map(self._is_dropped, (candidate, *group)))
            else self._of_dropped
            for candidate, group in zip(candidates, references, strict=True)
        ]
        return np.array(scores, np.float64), np.zeros((len(scores), 0), np.int64)

    def is_too_long(self, candidate: str, references: Sequence[str]) -> bool:
        """Tell whether a row would take too long; see `Metric.is_too_long`."""
        return exceeds(_MOST_PAIRS, self._num_words, candidate, references)

    def _num_words(self, text: str) -> int:
        return len(self._words.tokenize(text))

    def _is_dropped(self, text: str) -> bool:
        if not self._is_own or text.isascii():
            return False
        return _MOST_FOREIGN * len(_LATIN.findall(text)) < len(_LETTERS.findall(text))

    def signatures(self, *, listed: bool = False) -> tuple[str, str]:
        """Return how scores are made, in the form of sacreBLEU's signatures."""
        nrefs = "var" if listed else "1"
        words = f"nrefs:{nrefs}|case:lc|tok:{self._cut}|stem:no|version:{version('rouge-score')}"
        return words, words


class _WordsOfBleu(Tokenizer):
    def __init__(self, name: str) -> None:
        self._tokenizer = BLEU(tokenize=name).tokenizer

    def tokenize(self, text: str) -> list[str]:
        return str(self._tokenizer(text.lower())).split()
