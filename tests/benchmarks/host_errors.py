"""Whether the standard error of a baseline covers: many samples of other hosts, really scored.

    python -m tests.benchmarks.host_errors --samples 200 --pairs 120 --sentences 8

Makes that many samples of English sentences, no host in two of them, whose hosts have topics; pairs
each at random, scores the pairs with the embedded model, and prints one JSON line a layer: the
standard deviation of the samples' mean F1 over the mean of the errors that they claim, which is 1
if the claim is right, the same for the naive error, and the standard error of these ratios.
"""

import argparse
from functools import partial

import numpy as np
import pyarrow as pa

from bertscore_beam.baseline.moments import sum_scores
from bertscore_beam.crawl.pairing import SENTENCE_SCHEMA, pair_neighbours
from bertscore_beam.crawl.sampling import host_hash, pairing_order
from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.moments import Moments
from bertscore_core.work import Work
from tests.benchmarks.harness import Recorder, add_out
from tests.support.hosted_texts import sentences_of_hosts

MODEL = "all-MiniLM-L6-v2"


def paired(hosts: list[list[str]], sample: int) -> pa.Table:
    """Return the random pairs of a sample."""
    rows = [(text, f"{sample} {host}") for host, texts in enumerate(hosts) for text in texts]
    order = partial(pairing_order, sample, "en")
    table = pa.table(
        {
            "text": [text for text, _ in rows],
            "order": [order(text) for text, _ in rows],
            "host": [host_hash(host) for _, host in rows],
        },
        schema=SENTENCE_SCHEMA,
    )
    return pair_neighbours(table)[0]


def main() -> None:
    """Score the samples, and compare what they claim with how far apart they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=120)
    parser.add_argument("--sentences", type=int, default=8, help="sentences of a host")
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("host_errors", given.out)
    scorer = BertScorer(ScorerConfig(model=MODEL, all_layers=True, empty="null", device="cpu"))
    hosts = round(2 * given.pairs / given.sentences)
    made: list[Moments] = []
    for sample in range(given.samples):
        texts = sentences_of_hosts(hosts, given.sentences, seed=sample)
        made.append(sum_scores(scorer, paired(texts, sample), Work()))
    spread = np.std([one.means[:, 2] for one in made], axis=0, ddof=1)
    errors = np.mean([one.standard_errors[:, 2] for one in made], axis=0)
    naive = np.mean([one.naive_errors[:, 2] for one in made], axis=0)
    for layer in range(len(spread)):
        recorder.add(
            model=MODEL,
            what=f"{given.samples} samples of {hosts} hosts, layer {layer}",
            n=made[0].num_pairs,
            seconds=[],
            spread_in_errors=float(spread[layer] / errors[layer]),
            spread_in_naive_errors=float(spread[layer] / naive[layer]),
            relative_error=float(1 / np.sqrt(2 * (given.samples - 1))),
        )


if __name__ == "__main__":
    main()
