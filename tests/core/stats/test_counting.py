"""Counts of smaller values equal those of a plain loop."""

import numpy as np
from hypothesis import given, settings, strategies as st

from bertscore_core.stats import count_below, dense_ranks

VALUES = st.lists(st.integers(0, 12), max_size=30)


@given(VALUES, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 14)), max_size=20))
@settings(max_examples=40, deadline=None)
def test_counts_equal_those_of_a_plain_loop(values, questions):
    asked = np.array(questions, dtype=np.int64).reshape(-1, 2)
    prefixes = np.minimum(asked[:, 0], len(values))
    counts = count_below(np.array(values, dtype=np.int64), prefixes, asked[:, 1])
    assert counts.tolist() == [
        sum(value < limit for value in values[:prefix])
        for prefix, limit in zip(prefixes, asked[:, 1], strict=True)
    ]


def test_equal_values_share_a_rank():
    assert dense_ranks(np.array([0.5, -1.0, 0.5, 2.0])).tolist() == [1, 0, 1, 2]
