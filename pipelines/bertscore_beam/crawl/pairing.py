"""Random pairs from a sample: sorted by a hash of the text, neighbours paired."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.crawl.sampling import Hashes, leading_bits
from bertscore_core.host_errors import HOST_BITS

SENTENCE_SCHEMA = pa.schema([("text", pa.string()), ("order", pa.uint64()), ("host", pa.uint64())])
"""A sampled sentence: its text, its place in the pairing order, a host on which it was found, null
if that is not known."""

HOST_COLUMNS = ("candidate_host", "reference_host")
"""Columns of pairs that hold the buckets of their hosts."""

PAIR_SCHEMA = pa.schema(
    [
        ("candidate", pa.string()),
        ("reference", pa.string()),
        *((name, pa.int16()) for name in HOST_COLUMNS),
        ("same_host", pa.bool_()),
    ]
)
"""A pair: two sentences, the bucket of the host of each, and whether both are from one host.

Buckets are those of `bertscore_core.host_errors`; null where hosts are not known. A sentence found
on several hosts keeps the lowest host hash. `same_host` compares these, so it misses a host that
has both sentences but is not the lowest of both."""


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
    pairs = pa.table(
        {
            "candidate": candidates["text"],
            "reference": references["text"],
            "candidate_host": _bucket(candidates["host"]),
            "reference_host": _bucket(references["host"]),
            "same_host": pc.equal(candidates["host"], references["host"]),
        },
        schema=PAIR_SCHEMA,
    )
    return pairs, ordered.slice(even)


def _bucket(hosts: pa.ChunkedArray) -> pa.Array:
    """Return the bucket of each host; null for null."""
    known: Hashes = hosts.fill_null(0).to_numpy()
    buckets = leading_bits(known, HOST_BITS)
    return pa.array(buckets, pa.int16(), mask=hosts.is_null().to_numpy())


def _is_first(ordered: pa.Table) -> npt.NDArray[np.bool_]:
    """Tell which rows are the first with their text."""
    first = np.ones(len(ordered), dtype=np.bool_)
    if len(ordered) > 1:
        texts = ordered["text"]
        first[1:] = pc.not_equal(texts.slice(1), texts.slice(0, len(ordered) - 1)).to_numpy()
    return first
