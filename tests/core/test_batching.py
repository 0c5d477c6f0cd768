"""Batches: every text once, within budget, longest first."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertscore_core import plan_batches
from bertscore_core.batches import BatchLayout

LENGTHS = st.lists(st.integers(1, 600), max_size=200)


@given(lengths=LENGTHS, budget=st.integers(1, 2000))
def test_every_text_is_in_exactly_one_batch_within_budget(lengths, budget):
    batches = plan_batches(lengths, max_batch_tokens=budget)
    assert sorted(index for batch in batches for index in batch.tolist()) == list(
        range(len(lengths))
    )
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget


@given(lengths=LENGTHS, budget=st.integers(1, 2000))
def test_batches_go_from_long_to_short(lengths, budget):
    order = np.concatenate([[], *plan_batches(lengths, max_batch_tokens=budget)]).astype(int)
    assert (np.diff(np.array(lengths, dtype=int)[order]) <= 0).all()


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_has_no_more_texts_than_a_kernel_on_a_gpu_takes(packed):
    layout = BatchLayout(packed=packed)
    batches = plan_batches([2] * 150_000, max_batch_tokens=1 << 20, layout=layout)
    assert [len(batch) for batch in batches] == [65_535, 65_535, 18_930]
