"""Metrics that compare words and characters, on the same rows as BERTScore.

BLEU, chrF++ and TER are sacrebleu's, ROUGE-L is that of rouge-score: the numbers are theirs, on a
scale of 0 to 1 (BLEU and chrF++ are shown from 0 to 100 elsewhere). TER counts errors, so it is
given as minus the rate: of every number here, greater is better.

**Languages.** BLEU takes sacrebleu's tokenizer for Chinese (`zh`) and Japanese (`ja-mecab`), single
characters for other scripts without spaces, and `13a` for all others. TER takes texts of all these
scripts apart into characters. rouge-score's own tokenizer drops whatever is no Latin letter or
digit, so it is used for English only: other languages take that of BLEU, in lower case.

METEOR and CIDEr are left out. METEOR matches stems, synonyms and paraphrases by tables of a few
languages, and needs Java and a download. CIDEr weighs n-grams by how rare they are among the
references of all images of one data set, so that a number means little elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import Tokenizer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from bertscore_core.agreement.inputs import Doubles
from bertscore_core.errors import InputError

LEXICAL_METRICS = ("BLEU", "chrF++", "TER", "ROUGE-L")
"""Names of the metrics, in the order of their numbers."""
CORPUS_METRICS = LEXICAL_METRICS[:3]
"""Those that have a number of a whole corpus other than the mean of its rows."""

_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab"} | dict.fromkeys(
    ("bo", "dz", "km", "lo", "my", "th"), "char"
)
_ASIAN = ("ja", "zh")


@dataclass(frozen=True)
class LexicalMetrics:
    """The metrics for texts of one language.

    Attributes:
        language: Code of the language, such as en or zh-hans; of other languages and "" words are
            what spaces and punctuation part.
        names: Those of `LEXICAL_METRICS` that are computed, in the order of their numbers.
    """

    language: str = ""
    names: tuple[str, ...] = LEXICAL_METRICS

    def scores(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Doubles:
        """Score each row on its own.

        BLEU of a sentence leaves out orders of n-grams for which it is too short, as sacrebleu's
        `sentence_bleu` does. ROUGE-L is F1, of the reference with which it is greatest.

        Args:
            candidates: N texts.
            references: One or more references for each.

        Returns:
            One row for each metric. Shape (metrics, N).

        Raises:
            InputError: there are not as many references as candidates, or a row has none.
        """
        _check(candidates, references)
        of_row = {
            "BLEU": lambda one, given: self._sentence_bleu.sentence_score(one, given).score / 100,
            "chrF++": lambda one, given: self._chrf.sentence_score(one, given).score / 100,
            "TER": self._minus_ter,
            "ROUGE-L": self._rouge_l,
        }
        pairs = list(zip(candidates, map(list, references), strict=True))
        rows = [[of_row[name](one, given) for one, given in pairs] for name in self.names]
        return np.array(rows, dtype=np.float64).reshape(len(self.names), len(pairs))

    def corpus_scores(
        self, candidates: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Doubles:
        """Score all rows as one corpus: counts are added up first. ROUGE-L has no such number.

        Args:
            candidates: N texts, at least one.
            references: One or more references for each; their number may differ.

        Returns:
            One number for each name of `corpus_names`. Shape (metrics,).

        Raises:
            InputError: there are no candidates, not as many references, or a row has none.
        """
        _check(candidates, references)
        if not candidates:
            raise InputError("got no candidates; expected at least one for the score of a corpus.")
        most = max(len(given) for given in references)
        # sacrebleu takes the first reference of all rows, then the second; None for a missing one.
        streams = [
            [given[place] if place < len(given) else None for given in references]
            for place in range(most)
        ]
        texts = list(candidates)
        spaced = [[self._spaced(text) for text in stream] for stream in streams]
        of_corpus = {
            "BLEU": lambda: self._bleu.corpus_score(texts, streams).score,
            "chrF++": lambda: self._chrf.corpus_score(texts, streams).score,
            "TER": lambda: -self._ter.corpus_score([*map(self._spaced, texts)], spaced).score,
        }
        return np.array([of_corpus[name]() for name in self.corpus_names], dtype=np.float64) / 100

    @property
    def corpus_names(self) -> tuple[str, ...]:
        """Names of the metrics that have a number of a whole corpus."""
        return tuple(name for name in self.names if name in CORPUS_METRICS)

    @property
    def signatures(self) -> dict[str, str]:
        """How each metric is computed: sacrebleu's settings, and the tokenizer of ROUGE-L."""
        own = "rouge-score" if self._rouge_tokenizer is None else self._bleu_tokenizer
        characters = "yes" if self._by_character else "no"
        sacrebleu, rouge = (f"|version:{version(name)}" for name in ("sacrebleu", "rouge-score"))
        found = {
            "BLEU": f"case:mixed|tok:{self._bleu_tokenizer}|smooth:exp{sacrebleu}",
            "chrF++": f"case:mixed|nc:6|nw:2|space:no{sacrebleu}",
            "TER": f"case:lc|tok:tercom|norm:{characters}|punct:yes|asian:{characters}{sacrebleu}",
            "ROUGE-L": f"case:lc|tok:{own}|stem:no{rouge}",
        }
        return {name: found[name] for name in self.names}

    @cached_property
    def _sentence_bleu(self) -> Any:
        return BLEU(tokenize=self._bleu_tokenizer, effective_order=True, force=True)

    @cached_property
    def _bleu(self) -> Any:
        # Forced: else it warns of spaces before full stops, which are the user's to judge.
        return BLEU(tokenize=self._bleu_tokenizer, force=True)

    @cached_property
    def _chrf(self) -> Any:
        return CHRF(word_order=2)

    @cached_property
    def _ter(self) -> Any:
        return TER(normalized=self._by_character, asian_support=self._by_character)

    @cached_property
    def _rouge(self) -> Any:
        return RougeScorer(["rougeL"], tokenizer=self._rouge_tokenizer)

    @property
    def _bleu_tokenizer(self) -> str:
        return _TOKENIZERS.get(self._base, "13a")

    @cached_property
    def _rouge_tokenizer(self) -> "_WordsOfBleu | None":
        """Tokenizer given to rouge-score; None for its own."""
        return None if self._base == "en" else _WordsOfBleu(self._bleu)

    @property
    def _by_character(self) -> bool:
        return self._base in _ASIAN

    @property
    def _base(self) -> str:
        """The language without script and region."""
        return self.language.lower().replace("_", "-").split("-")[0]

    def _spaced(self, text: str | None) -> str | None:
        """Part the characters for TER where it would not: it does so for Chinese and Japanese."""
        if text is None or self._bleu_tokenizer != "char":
            return text
        return str(self._bleu.tokenizer(text))

    def _minus_ter(self, candidate: str, references: Sequence[str]) -> float:
        given = [self._spaced(one) for one in references]
        return -float(self._ter.sentence_score(self._spaced(candidate), given).score) / 100

    def _rouge_l(self, candidate: str, references: Sequence[str]) -> float:
        return float(self._rouge.score_multi(list(references), candidate)["rougeL"].fmeasure)


class _WordsOfBleu(Tokenizer):
    """Words as BLEU takes them, in lower case."""

    def __init__(self, bleu: Any) -> None:
        self._tokenizer = bleu.tokenizer

    def tokenize(self, text: str) -> list[str]:
        """Split a text."""
        return str(self._tokenizer(text.lower())).split()


def _check(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Check that each candidate has references."""
    empty = sum(not given for given in references)
    if len(candidates) != len(references) or empty:
        raise InputError(
            f"got {len(candidates)} candidates and references of {len(references)} rows, {empty} "
            "of them without one; expected one reference or more for each candidate."
        )
