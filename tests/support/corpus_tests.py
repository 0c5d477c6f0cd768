"""What sacreBLEU's own code says of two systems, but for what `compare_corpora` does otherwise."""

import numpy as np
import pytest
from sacrebleu import significance

SWAPS, SAMPLES = 10_000, 1_000
"""As many as sacreBLEU takes by default."""


def randomization_p(metric, first, second, references, swaps=SWAPS):
    """Return sacreBLEU's p value by approximate randomization, with ties counted."""

    def with_ties(stats, observed):
        return (int(np.count_nonzero(stats >= observed - 1e-9)) + 1) / (len(stats) + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(significance, "_compute_p_value", with_ties)
        named = [("first", first), ("second", second)]
        test = significance.PairedTest(named, {"metric": metric}, references, "ar", swaps)
        (results,) = (results for name, results in test()[1].items() if name != "System")
    return results[1].p_value


def bootstrap(metric, first, second, references):
    """Return the p value of sacreBLEU's samples, centred before sizes are taken, and their bounds.

    The same rows are drawn for both sides.
    """
    counts = [metric._extract_corpus_statistics(own, references) for own in (first, second)]
    drawn = [significance._bootstrap_resample(own, metric, SAMPLES)[1] for own in counts]
    apart = np.subtract(*([one.score for one in scores] for scores in drawn))
    observed = np.subtract(*(metric._aggregate_and_compute(own).score for own in counts))
    beyond = np.abs(apart - apart.mean()) >= abs(observed) - 1e-9
    return (int(np.count_nonzero(beyond)) + 1) / (SAMPLES + 1), np.quantile(apart, [0.025, 0.975])
