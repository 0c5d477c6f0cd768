"""A uniform sample of sentences, a random pairing, and how much the pairs overlap.

No random number is drawn here: each decision has a hash of the seed, the language and the text.

    page_order, the lowest of a page --> host_order, the lowest of a host --> the pool
    the pool --> sentence_priority, the lowest of all --> the sample --> pairing_order --> pairs

The hashes are independent of each other. So which sentences of a page or a host are in the pool
says nothing about which are sampled, and a sample has the pool's composition, whatever its size.
(With one hash for all, the sentences of long pages would have the lowest priorities, and small
samples would be full of them.)

A sample of size k is the k distinct sentences of the pool with the lowest priority. It does not
depend on the order of files, on workers or on retries; equal sentences count as one; a smaller
sample of the same files is a uniform part of a larger one.

The pairing sorts the sample by its hash and pairs neighbours: neighbours in a random order are a
uniform random matching, in which every sentence occurs once. Pairs whose sentences are from the
same host resemble each other all the same: see `bertscore_core.stats.moments`.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.crawl.filters import is_unspaced
from bertscore_beam.files.buckets import bucket_of
from bertscore_core.stats.moments import HOST_BITS

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

Hashes = npt.NDArray[np.uint64]

SAMPLING = "2"
"""Version of the hashes. It is part of a run's identity: other hashes take other samples."""

_FEWEST_PER_PART = 128
_PAIRS_PER_PART = 4096
_MANY_PART_BITS = 6
_MOST_PART_BITS = 10


def page_order(seed: int, language: str, text: str) -> int:
    """Return the rank of a sentence among those of its page, for the cap of a page. 64 bits."""
    return _hash(b"page", seed, f"{language}\0{text}")


def host_order(seed: int, language: str, text: str) -> int:
    """Return the rank of a sentence among those of its host, for the cap of a host. 64 bits."""
    return _hash(b"capped", seed, f"{language}\0{text}")


def sentence_priority(seed: int, language: str, text: str) -> int:
    """Return the rank of a sentence among all of the pool, lowest first. 64 bits."""
    return _hash(b"sentence", seed, f"{language}\0{text}")


def pairing_order(seed: int, language: str, text: str) -> int:
    """Return the place of a sentence in the order whose neighbours are paired. 64 bits."""
    return _hash(b"pair", seed, f"{language}\0{text}")


def host_hash(host: str) -> int:
    """Return the hash that identifies a host in a table of sentences. 64 bits."""
    return _hash(b"host", 0, host)


def _hash(purpose: bytes, seed: int, text: str) -> int:
    key = seed.to_bytes(8, "little")
    digest = blake2b(text.encode(), digest_size=8, key=key, person=purpose).digest()
    return int.from_bytes(digest, "little")


HASH_SCHEMA = pa.schema([(name, pa.uint64()) for name in ("priority", "host_order", "host")])
"""Sentences with the hosts that they were found on, all as hashes: their ranks among all, which
also identify them, their ranks in their hosts, and the hosts."""


def hashes_of(sentences: pa.Table) -> pa.Table:
    """Return the hashes of sentences from a file. An unknown host has one sentence alone."""
    hosts = pc.coalesce(sentences["host"], sentences["priority"])
    return pa.table([sentences["priority"], sentences["host_order"], hosts], schema=HASH_SCHEMA)


def cap_hosts(tables: Iterable[pa.Table], cap: int) -> pa.Table:
    """Keep the sentences of lowest order of every host, by host and then order, each once.

    A sentence found on several hosts counts for each of them, and is kept if one of them keeps it.
    """
    rows = pa.concat_tables([HASH_SCHEMA.empty_table(), *tables])
    # By priority last: two sentences may have one order, and must not count as one.
    rows = rows.sort_by([(name, "ascending") for name in reversed(HASH_SCHEMA.names)])
    hosts, priorities = rows["host"].to_numpy(), rows["priority"].to_numpy()
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = (hosts[1:] != hosts[:-1]) | (priorities[1:] != priorities[:-1])
    hosts = hosts[first]
    places = np.arange(len(hosts)) - np.searchsorted(hosts, hosts)
    first[first] = places < cap
    return rows.filter(pa.array(first))


def lowest(priorities: Hashes, count: int | None = None) -> Hashes:
    """Return the lowest distinct priorities, ascending; all when None."""
    return np.unique(priorities)[:count]


def is_sampled(priorities: Hashes, sample: Hashes) -> npt.NDArray[np.bool_]:
    """Tell which priorities are in an ascending sample. Shape as `priorities`."""
    if not len(sample):
        return np.zeros(len(priorities), dtype=np.bool_)
    places = np.minimum(np.searchsorted(sample, priorities), len(sample) - 1)
    sampled: npt.NDArray[np.bool_] = sample[places] == priorities
    return sampled


def part_bits(pairs: int) -> int:
    """Return how many leading bits of the pairing hash name the part that holds a pair.

    A part is scored by one worker, and is what is lost when a worker is killed. Up to 64 parts hold
    at least 128 pairs on average, so that the pairs of a small language are scored by several
    workers; more parts hold 4,096 to 8,191. Fewer than 256 pairs are one part; with 8 million pairs
    or more, parts are larger. The number of workers plays no role: parts decide the pairs.
    """
    small = min(max(pairs // _FEWEST_PER_PART, 1).bit_length() - 1, _MANY_PART_BITS)
    large = min(max(pairs // _PAIRS_PER_PART, 1).bit_length() - 1, _MOST_PART_BITS)
    return max(small, large)


# Random pairs from a sample: sorted by a hash of the text, neighbours paired.

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

Buckets are those of `bertscore_core.stats`; null where hosts are not known. A sentence found on
several hosts keeps the lowest host hash. `same_host` compares these, so it misses a host that has
both sentences but is not the lowest of both."""


def pair_neighbours(sentences: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Pair sentences with their neighbours in the pairing order.

    They come as a table of `SENTENCE_SCHEMA`, in any order; a text that occurs several times counts
    once, with its lowest host. Returned are pairs of `PAIR_SCHEMA`, and the sentence left over if
    the number is odd.
    """
    ordered = sentences.group_by("text").aggregate([("order", "min"), ("host", "min")])
    ordered = ordered.rename_columns(SENTENCE_SCHEMA.names)
    ordered = ordered.sort_by([("order", "ascending"), ("text", "ascending")]).combine_chunks()
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
    known: Hashes = hosts.fill_null(0).to_numpy()
    return pa.array(bucket_of(known, HOST_BITS), pa.int16(), mask=hosts.is_null().to_numpy())


# How much the sentences of random pairs overlap: corpus BLEU, from sums that add up exactly.
#
# BERTScore's authors take the baseline from pairs whose BLEU is about zero. A table says its own.
#
# References:
#     Zhang et al. 2020, section 5, and Post 2018, "A call for clarity in reporting BLEU scores".


Overlap = tuple[int, ...]
"""Sums that corpus BLEU is worked out from: tokens of the candidates and of the references, their
common n-grams of 1 to 4 tokens, and all n-grams of the candidates. Those of several sets of pairs
are added one by one."""


def count_overlap(candidates: Sequence[str], references: Sequence[str], language: str) -> Overlap:
    """Count the overlap of pairs; the language decides how they are split into tokens."""
    score = _bleu(language).corpus_score(candidates, [references])
    return tuple(map(int, (score.sys_len, score.ref_len, *score.counts, *score.totals)))


def describe_overlap(overlaps: Iterable[Overlap], language: str) -> dict[str, object]:
    """Return BLEU of all pairs, from 0 to 100, and how it was worked out, as plain values.

    It is without smoothing, and None if there are no n-grams of every length.
    """
    made = _bleu(language)
    candidates, references, *ngrams = map(sum, zip(*overlaps, strict=True))
    score = made.compute_bleu(
        ngrams[:4], ngrams[4:], candidates, references, smooth_method="none"
    ).score
    return {"bleu": score if all(ngrams[4:]) else None, "signature": str(made.get_signature())}


@cache
def _bleu(language: str) -> "BLEU":
    """Return sacrebleu's metric with the tokenizer for a language.

    It is sacrebleu's own choice (`13a`, and `zh` for Chinese), and `char` for other languages that
    are written without spaces. BLEU over characters is higher than over words.
    """
    from sacrebleu.metrics.bleu import BLEU

    tokenizer = "zh" if language == "zh" else "char" if is_unspaced(language) else "13a"
    # `force`: sentences that end in a period after a space would be warned about one by one.
    made = BLEU(tokenize=tokenizer, smooth_method="none", force=True)
    made.corpus_score(["one"], [["one"]])  # before the first score it cannot give its signature
    return made
