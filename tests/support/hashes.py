"""Hashes, and sentences by the hash that pairs them."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from bertscore_beam.crawl.sampling import (
    HASH_SCHEMA,
    SENTENCE_SCHEMA,
    Hashes,
    host_hash,
    pairing_order,
)

few_hashes = st.lists(st.integers(0, 12), max_size=30)
shown = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=40).map(
    # A sentence has one order, and two sentences may have the same.
    lambda rows: [(number, number * 5 % 7, host) for number, host in rows]
)
"""Rows of a sentence's priority and order, and a host that shows it."""


def as_hashes(values: Iterable[int]) -> Hashes:
    """Return numbers as an array of hashes."""
    return np.array(list(values), dtype=np.uint64)


def as_hosted(rows: Sequence[tuple[int, int, int]]) -> pa.Table:
    """Return rows of priority, order and host as hashes."""
    return pa.table([as_hashes(row[side] for row in rows) for side in range(3)], schema=HASH_SCHEMA)


def sentences_table(texts: list[str], seed: int = 0) -> pa.Table:
    """Return sentences as pairing takes them; the first letter is the host."""
    return pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "order": as_hashes(pairing_order(seed, "en", text) for text in texts),
            "host": as_hashes(host_hash(text[:1]) for text in texts),
        },
        schema=SENTENCE_SCHEMA,
    )


def pairs_of(table: pa.Table) -> list[tuple[str, str]]:
    """Return the texts of pairs."""
    return list(zip(table["candidate"].to_pylist(), table["reference"].to_pylist(), strict=True))
