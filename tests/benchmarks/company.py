"""How far scores move with the company of a pair: the other texts of its call and its batches.

    python -m tests.benchmarks.company

Scores the same pairs of the embedded model with several batch budgets, in another order and other
calls each time, and compares the scores of each two of these runs. Half of the references are their
candidates but for some words, so that the scores reach 1; a quarter of the texts have up to four
words, and some are several sentences.
"""

import argparse
import random
from itertools import combinations

import numpy as np

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.harness import Recorder, add_out
from tests.support.crawl_texts import sentences

EMBEDDED = "all-MiniLM-L6-v2"
CALLS = {400: 17, 2048: 333, 16_384: 5000}
"""Pairs of a call, by batch budget in tokens."""
FAR = 2e-7
"""Most scores move by no more."""


def main() -> None:
    """Record the largest distance, and the share of pairs above `FAR`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--backends", nargs="+", default=["openvino", "torch"])
    parser.add_argument("--dtype", default="float32")
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("company", given.out)
    candidates, references = make_pairs(given.pairs)
    for backend in given.backends:
        runs = {
            budget: score_apart(candidates, references, backend, given.dtype, budget)
            for budget in CALLS
        }
        for one, other in combinations(CALLS, 2):
            apart = np.abs(runs[one] - runs[other]).max(axis=0)  # of P, R and F1
            recorder.add(
                model=EMBEDDED,
                what=f"{backend} {given.dtype}: batches of {one} and {other} tokens",
                n=given.pairs,
                seconds=(),
                largest=float(apart.max()),
                share_far=float((apart > FAR).mean()),
            )


def make_pairs(count: int) -> tuple[list[str], list[str]]:
    """Make candidates and references of many lengths."""
    chosen = random.Random(3)
    given = sentences("en", 2 * count, seed=9)

    def vary(text: str) -> str:
        kind = chosen.random()
        if kind < 0.25:
            return " ".join(text.split()[: chosen.randint(1, 4)])
        if kind < 0.3:
            return " ".join(chosen.choices(given, k=chosen.randint(2, 12)))
        return text

    candidates = [vary(text) for text in given[:count]]
    references = [vary(text) for text in given[count:]]
    for number in range(0, count, 2):
        words = candidates[number].split()
        references[number] = " ".join(words[: max(1, len(words) - chosen.randint(0, 2))])
    return candidates, references


def score_apart(
    candidates: list[str], references: list[str], backend: str, dtype: str, budget: int
) -> np.ndarray:
    """Score the pairs in calls of some size and in an order of their own. Shape (3, N), float64."""
    config = ScorerConfig(
        model=EMBEDDED, device="cpu", backend=backend, dtype=dtype, max_batch_tokens=budget
    )
    scorer = BertScorer(config)
    order = np.random.default_rng(budget).permutation(len(candidates))
    found = np.empty((3, len(candidates)))
    for first in range(0, len(order), CALLS[budget]):
        chosen = order[first : first + CALLS[budget]]
        scores = scorer.score([candidates[at] for at in chosen], [references[at] for at in chosen])
        found[:, chosen] = scores.precision, scores.recall, scores.f1
    return found


if __name__ == "__main__":
    main()
