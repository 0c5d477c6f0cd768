"""What random pairs score that have idf weights, rescaled with a table without and with idf.

    python -m tests.benchmarks.idf_baseline --pairs 1500

Makes two sets of English sentences without a host in common; works out the baseline of the first,
without and with idf weights counted over it, and rescales F1 of the second with both. The weights
of the second are counted over the second, as `score --idf corpus` does. Prints one JSON line a
case: the mean of rescaled F1, which is 0 if the table fits, and its standard error.
"""

import argparse

import numpy as np
import pyarrow as pa

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.baseline import rescale
from bertscore_core.moments import Moments
from bertscore_core.work import Work
from pipelines.baseline.moments import sum_scores
from tests.benchmarks.harness import Recorder, add_out
from tests.benchmarks.host_errors import MODEL, paired
from tests.support.hosted_texts import sentences_of_hosts

OF_EACH = 2


def main() -> None:
    """Score both sets, and rescale one with the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_500)
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("idf_baseline", given.out)
    config = ScorerConfig(model=MODEL, all_layers=True, empty="null", idf=True, device="cpu")
    scorer = BertScorer(config)

    def sums(pairs: pa.Table, *, idf: bool) -> Moments:
        texts = [*pairs["candidate"].to_pylist(), *pairs["reference"].to_pylist()]
        return sum_scores(scorer, pairs, Work(), scorer.count_idf(texts) if idf else None)

    hosts = 2 * given.pairs // OF_EACH
    first, second = (paired(sentences_of_hosts(hosts, OF_EACH, seed), seed) for seed in (1, 2))
    tables = {"without idf": sums(first, idf=False), "with idf": sums(first, idf=True)}
    for scores, found in (
        ("without idf", sums(second, idf=False)),
        ("with idf", sums(second, idf=True)),
    ):
        for table, made in tables.items():
            base = made.means[-1, 2]
            error = np.hypot(found.standard_errors[-1, 2], made.standard_errors[-1, 2]) / (1 - base)
            recorder.add(
                model=MODEL,
                what=f"scores {scores}, table {table}",
                n=given.pairs,
                seconds=[],
                mean=float(rescale(found.means[-1, 2], base)),
                standard_error=float(error),
            )


if __name__ == "__main__":
    main()
