"""What random pairs with idf weights score if they are rescaled with a table without them.

    python -m tests.benchmarks.idf_baseline --pairs 1000

Scores random pairs of made-up English sentences without and with idf weights, which are counted
over these sentences, and rescales the second with the mean of the first. Prints one JSON line a
layer: the mean, which is 0 for a table that fits, and its standard error. The sentences have no
host, and both scores are of the same pairs, so that the error is that of their differences.
"""

import argparse

import numpy as np

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.harness import Recorder, add_out
from tests.support.crawl_texts import sentences

MODEL = "all-MiniLM-L6-v2"


def main() -> None:
    """Score the pairs in both ways, and rescale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000)
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("idf_baseline", given.out)
    scorer = BertScorer(ScorerConfig(model=MODEL, all_layers=True, idf=True, device="cpu"))
    texts = sentences("en", 2 * given.pairs, seed=4)
    sides = scorer.tokenize(texts[: given.pairs], texts[given.pairs :])
    plain, weighted = (
        scorer.score_tokenized(sides, scorer.token_weights(idf)).raw_f1.astype(np.float64)
        for idf in (None, scorer.count_idf(texts))
    )
    for layer in range(len(plain)):
        base = plain[layer].mean()
        shifts = (weighted[layer] - plain[layer]) / (1 - base)
        recorder.add(
            model=MODEL,
            what=f"layer {layer}",
            n=given.pairs,
            seconds=[],
            mean=float(shifts.mean()),
            standard_error=float(shifts.std(ddof=1) / np.sqrt(given.pairs)),
        )


if __name__ == "__main__":
    main()
