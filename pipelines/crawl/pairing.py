"""Random pairs from a sample: sorted by a hash of the text, neighbours paired."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.crawl.sampling import GROUP_BITS, Hashes, leading_bits

SENTENCE_SCHEMA = pa.schema([("text", pa.string()), ("order", pa.uint64()), ("host", pa.uint64())])
"""A sampled sentence: its text, its place in the pairing order, a host on which it was found."""

PAIR_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("reference", pa.string()),
        ("group", pa.int64()),
        ("same_host", pa.bool_()),
    ]
)
"""A pair: two sentences, its group for the jackknife, whether both are from one host.

A sentence found on several hosts keeps the lowest host hash. `same_host` compares these, so it
misses a host that has both sentences but is not the lowest of both."""


def pair_neighbours(sentences: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Pair sentences with their neighbours in the pairing order.

    Args:
        sentences: Table of `SENTENCE_SCHEMA`, in any order; a text that occurs several times counts
            once, with its lowest host.

    Returns:
        Pairs of `PAIR_SCHEMA` in the pairing order, and the sentence left over if the number is
        odd.
    """
    keys = [("order", "ascending"), ("text", "ascending"), ("host", "ascending")]
    ordered = sentences.take(pc.sort_indices(sentences, sort_keys=keys)).combine_chunks()
    ordered = ordered.filter(pa.array(_is_first(ordered)))
    even = len(ordered) // 2 * 2
    candidates = ordered.take(pa.array(np.arange(0, even, 2)))
    references = ordered.take(pa.array(np.arange(1, even, 2)))
    order: Hashes = candidates["order"].to_numpy()
    pairs = pa.table(
        {
            "candidate": candidates["text"],
            "reference": references["text"],
            "group": pa.array(leading_bits(order, GROUP_BITS)),
            "same_host": pc.equal(candidates["host"], references["host"]),
        },
        schema=PAIR_SCHEMA,
    )
    return pairs, ordered.slice(even)


def _is_first(ordered: pa.Table) -> npt.NDArray[np.bool_]:
    """Tell which rows are the first with their text."""
    first = np.ones(len(ordered), dtype=np.bool_)
    if len(ordered) > 1:
        texts = ordered["text"]
        first[1:] = pc.not_equal(texts.slice(1), texts.slice(0, len(ordered) - 1)).to_numpy()
    return first
