"""Every family in bfloat16 and float16 on torch, which is what a GPU runs."""

from functools import cache
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn

from bertscore_core import BertScorer, ScorerConfig
from tests.golden import texts
from tests.support.tiny_models import FAMILIES, MODERN

HALF = {torch.bfloat16, torch.float16}
LARGEST = {"bfloat16": 1e-2, "float16": 2e-3}
MEAN = {"bfloat16": 1e-3, "float16": 2e-4}
"""How far precision and recall may be from float32: three times what was found (DistilBERT, ALBERT:
3.4e-3 and 7.4e-4), since processors round in other orders."""


def score(folder, dtype):
    config = ScorerConfig(
        model=folder, num_layers=3, max_length=48, device="cpu", backend="torch", dtype=dtype
    )
    pairs = [pair for pair in texts.FAMILY_PAIRS if pair.candidate and pair.reference]
    scorer = BertScorer(config)
    assert {weight.dtype for weight in scorer.encoder.model.parameters()} == {getattr(torch, dtype)}
    # Frequencies of rotary positions are buffers, and 16 bits would be too few for them.
    assert not {buffer.dtype for buffer in scorer.encoder.model.buffers()} & HALF
    scores = scorer.score(*texts.columns(pairs))
    return np.stack([scores.precision, scores.recall])


@pytest.fixture(scope="module")
def full(tiny_folder):
    """Return scores in float32, each family's once."""
    return cache(lambda family: score(str(tiny_folder(family)), "float32"))


@pytest.mark.filterwarnings("ignore:This sequence already has </s>:UserWarning")  # ByT5
@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("family", [*FAMILIES, *MODERN])
def test_reduced_precision_stays_close_to_float32(family, dtype, full, tiny_folder):
    actual, expected = score(str(tiny_folder(family)), dtype), full(family)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))  # texts without weight
    apart = np.abs(actual - expected)[~np.isnan(expected)]
    assert 0 < apart.max() < LARGEST[dtype], apart.max()
    assert apart.mean() < MEAN[dtype], apart.mean()


@pytest.mark.long
def test_a_stack_of_24_real_layers_stays_close_to_float32():
    """Rounding adds up from layer to layer; this is the depth of large models."""
    pairs = [pair for pair in texts.PAIRS if pair.candidate and pair.reference][:20]
    f1 = {}
    for dtype in ("float32", *LARGEST):
        scorer = BertScorer(ScorerConfig(dtype=dtype, device="cpu", backend="torch"))
        stack = scorer.encoder.model.encoder
        # Only here: the tests of this process share the encoder.
        with mock.patch.object(stack, "layer", nn.ModuleList([*stack.layer] * 4)):
            f1[dtype] = scorer.score(*texts.columns(pairs)).f1
    for dtype, largest, mean in (("float16", 2e-2, 2e-3), ("bfloat16", 1e-1, 1.2e-2)):
        apart = np.abs(f1[dtype] - f1["float32"])
        assert 0 < apart.max() < largest
        assert apart.mean() < mean
