"""How much the sentences of random pairs overlap: corpus BLEU, from sums that add up exactly.

BERTScore's authors take the baseline from pairs whose BLEU is about zero. A table says its own.

References:
    Zhang et al. 2020, section 5, and Post 2018, "A call for clarity in reporting BLEU scores".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from bertscore_beam.crawl.words import is_unspaced


@dataclass(frozen=True, slots=True)
class Overlap:
    """The sums that corpus BLEU is worked out from. BLEU's n-grams have 1 to 4 tokens.

    Attributes:
        common: N-grams that candidates have in common with their references, by length.
        all: N-grams of the candidates, by length.
        candidate_tokens: Tokens of the candidates.
        reference_tokens: Tokens of the references.
    """

    common: tuple[int, ...] = (0, 0, 0, 0)
    all: tuple[int, ...] = (0, 0, 0, 0)
    candidate_tokens: int = 0
    reference_tokens: int = 0

    @classmethod
    def of(cls, candidates: Sequence[str], references: Sequence[str], language: str) -> "Overlap":
        """Count the overlap of pairs.

        Args:
            candidates: N sentences.
            references: N sentences.
            language: The language they are in, which decides how they are split into tokens.
        """
        if not candidates:
            return cls()
        found = _bleu(tokenizer_of(language)).corpus_score(candidates, [references])
        return cls(
            common=tuple(map(int, found.counts)),
            all=tuple(map(int, found.totals)),
            candidate_tokens=int(found.sys_len),
            reference_tokens=int(found.ref_len),
        )

    @classmethod
    def merge(cls, parts: Iterable["Overlap"]) -> "Overlap":
        """Add up the overlap of disjoint sets of pairs."""
        kept = [cls(), *parts]
        return cls(
            common=_added(part.common for part in kept),
            all=_added(part.all for part in kept),
            candidate_tokens=sum(part.candidate_tokens for part in kept),
            reference_tokens=sum(part.reference_tokens for part in kept),
        )

    @property
    def bleu(self) -> float | None:
        """Corpus BLEU without smoothing, from 0 to 100; None without n-grams of every length."""
        if not all(self.all):
            return None
        score = BLEU.compute_bleu(
            list(self.common),
            list(self.all),
            self.candidate_tokens,
            self.reference_tokens,
            smooth_method="none",
        )
        return float(score.score)


def tokenizer_of(language: str) -> str:
    """Return sacrebleu's name of the tokenizer for a language.

    It is sacrebleu's own choice (`13a`, and `zh` for Chinese), and `char` for other languages that
    are written without spaces. BLEU over characters is higher than over words.
    """
    if language == "zh":
        return "zh"
    return "char" if is_unspaced(language) else "13a"


def describe_overlap(overlap: Overlap, language: str) -> dict[str, object]:
    """Return BLEU, and how it was worked out, as plain values."""
    signature = _bleu(tokenizer_of(language)).get_signature()
    return {"bleu": overlap.bleu, "signature": str(signature)}


@cache
def _bleu(tokenizer: str) -> BLEU:
    # `force`: sentences that end in a period after a space would be warned about one by one.
    made = BLEU(tokenize=tokenizer, smooth_method="none", force=True)
    made.corpus_score(["one"], [["one"]])  # before the first score it cannot give its signature
    return made


def _added(counts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(int, np.sum(list(counts), axis=0)))
