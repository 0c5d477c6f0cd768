"""Every family in bfloat16 and float16 on torch, which is what a GPU runs."""

import numpy as np
import pytest

from bertscore_core import BertScorer, ScorerConfig
from tests.golden import texts
from tests.support.tiny_models import FAMILIES

LARGEST = {"bfloat16": 1e-2, "float16": 2e-3}
MEAN = {"bfloat16": 1e-3, "float16": 2e-4}
"""How far precision and recall may be from float32: three times what was found (DistilBERT, ALBERT:
3.4e-3 and 7.4e-4), since processors round in other orders."""


def score(folder, dtype):
    config = ScorerConfig(
        model=folder, num_layers=3, max_length=48, device="cpu", backend="torch", dtype=dtype
    )
    pairs = [pair for pair in texts.FAMILY_PAIRS if pair.candidate and pair.reference]
    scores = BertScorer(config).score(
        [pair.candidate for pair in pairs], [pair.reference for pair in pairs]
    )
    return np.stack([scores.precision, scores.recall])


@pytest.fixture(scope="module")
def full(tiny_folder):
    """Return scores in float32, each family's once."""
    found = {}

    def scores_of(family):
        if family not in found:
            found[family] = score(str(tiny_folder(family)), "float32")
        return found[family]

    return scores_of


@pytest.mark.filterwarnings("ignore:This sequence already has </s>:UserWarning")  # ByT5
@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("family", FAMILIES)
def test_reduced_precision_stays_close_to_float32(family, dtype, full, tiny_folder):
    if family == "xlm":
        pytest.importorskip("sacremoses")
    found, expected = score(str(tiny_folder(family)), dtype), full(family)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))  # texts without weight
    apart = np.abs(found - expected)[~np.isnan(expected)]
    assert 0 < apart.max() < LARGEST[dtype], apart.max()
    assert apart.mean() < MEAN[dtype], apart.mean()


def test_float32_keeps_the_weights_of_deberta_as_they_are(tiny_folder):
    config = {"model": str(tiny_folder("deberta")), "num_layers": 3, "max_length": 48}
    config |= {"device": "cpu", "backend": "torch"}
    for dtype, formats in (("float32", {"float32"}), ("float16", {"float32", "float16"})):
        model = BertScorer(ScorerConfig(**config, dtype=dtype)).encoder.model
        found = {str(weight.dtype).removeprefix("torch.") for weight in model.parameters()}
        assert found == formats
