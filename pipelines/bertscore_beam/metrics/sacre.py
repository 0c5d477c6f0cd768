"""BLEU, chrF, chrF++ and TER: sacreBLEU's scores of rows, and the counts that make a corpus's."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from bertscore_beam.metrics.metric import base_of, exceeds
from bertscore_core.stats.score_statistics import Doubles
from bertscore_core.tokens import IntArray

# **Languages.** BLEU takes the tokenizer that sacreBLEU chooses for Chinese, Japanese and Korean,
# single characters for other scripts without spaces, and `13a` for all others. TER takes texts of
# these scripts apart into characters; Korean has spaces.

_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"} | dict.fromkeys(
    ("bo", "dz", "km", "lo", "my", "th"), "char"
)
_ASIAN = ("ja", "zh")

# TER adds up the mean length of a row's references. In this unit the means over 1 to 16 references
# are whole numbers, so that their sums are exact in any order.
_UNIT = 720_720

_MOST_PAIRS = 90_000
"""Most words of a candidate times words of its references for TER, which tries shifts: 300 x 300
took 7 CPU seconds, 100 x 100 took 2."""

_FEW_WORDS = 30
"""With a text of so few words TER tries few shifts: 30 x 20,000 took 0.5 CPU seconds."""

_MOST_WORDS = 200_000
"""Most words of a candidate and a reference, over all references: 5 CPU seconds."""

_MOST_CHARACTERS = 2_000_000
"""Most characters of a row for the others, whose time is linear: chrF++ took 5 CPU seconds."""


def tokenizer_of(language: str) -> str:
    """Return sacreBLEU's name of the tokenizer by which BLEU cuts texts of a language."""
    return _TOKENIZERS.get(base_of(language), "13a")


def cut_of(name: str, language: str) -> str:
    """Return how a metric cuts texts of a language into words; "" if no language matters to it."""
    cut = tokenizer_of(language)
    if name == "ter":
        return "asian" if base_of(language) in _ASIAN else cut if cut == "char" else ""
    return cut if name == "bleu" else ""


class SacreMetric:
    """One of sacreBLEU's metrics, for texts of one language."""

    def __init__(self, name: str, language: str) -> None:
        """Make the metric; the arguments are those of `metric_of`."""
        cut, by_character = tokenizer_of(language), base_of(language) in _ASIAN
        make: dict[str, Callable[..., Any]] = {
            # Forced: else it warns of spaces before full stops, which are the user's to judge.
            "bleu": lambda **rows: BLEU(tokenize=cut, force=True, **rows),
            "chrf": CHRF,
            "chrf++": lambda: CHRF(word_order=2),
            "ter": lambda: TER(normalized=by_character, asian_support=by_character),
        }
        self._of_corpus = make[name]()
        self._of_rows = make[name](effective_order=True) if name == "bleu" else self._of_corpus
        self._is_ter = name == "ter"
        # TER parts characters of Chinese and Japanese itself.
        self._part = BLEU(tokenize=cut).tokenizer if self._is_ter and cut == "char" else str

    def rows(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> tuple[Doubles, IntArray]:
        """Score each row on its own; see `Metric.rows`."""
        scores, counts = [], []
        for candidate, group in zip(candidates, references, strict=True):
            streams = [[self._part(reference)] for reference in group]
            # What `sentence_score` and `corpus_score` call: the counts come with the score.
            (own,) = self._of_rows._extract_corpus_statistics([self._part(candidate)], streams)
            scores.append(self._of_rows._compute_score_from_stats(own).score)
            if self._is_ter:
                edits, length = own
                own = [edits, round(length * len(group)) * _UNIT // len(group)]
            counts.append(own)
        width = len(counts[0]) if counts else 0
        return np.array(scores, np.float64), np.array(counts, np.int64).reshape(len(counts), width)

    def is_too_long(self, candidate: str, references: Sequence[str]) -> bool:
        """Tell whether a row would take too long; see `Metric.is_too_long`."""
        if self._is_ter:
            return exceeds(_MOST_PAIRS, self._num_words, candidate, references) and (
                self._takes_long(candidate, references)
            )
        return len(candidate) + sum(map(len, references)) > _MOST_CHARACTERS

    def _takes_long(self, candidate: str, references: Sequence[str]) -> bool:
        words, others = self._num_words(candidate), list(map(self._num_words, references))
        pairs = sum(words * other for other in others if min(words, other) > _FEW_WORDS)
        return pairs > _MOST_PAIRS or sum(words + other for other in others) > _MOST_WORDS

    def _num_words(self, text: str) -> int:
        return len(self._of_corpus._preprocess_segment(self._part(text)).split())

    def corpus(self, counts: Sequence[int]) -> float:
        """Return the score of a corpus from the sums of the counts of its rows."""
        own = [counts[0], counts[1] / _UNIT] if self._is_ter else list(counts)
        return float(self._of_corpus._compute_score_from_stats(own).score)

    def signatures(self, *, listed: bool = False) -> tuple[str, str]:
        """Return sacreBLEU's signatures of the scores of a corpus and of rows.

        Args:
            listed: Whether rows may have several references.
        """
        for metric in (self._of_corpus, self._of_rows):
            metric.num_refs = -1 if listed else 1
        by_hand = "" if self._part is str else "|parted:char"
        first, second = self._of_corpus.get_signature(), self._of_rows.get_signature()
        return f"{first}{by_hand}", f"{second}{by_hand}"
