"""A uniform sample of sentences and a random pairing, both decided by seeded hashes of the text.

No random number is drawn here: each decision has a hash of the seed, the language and the text.

    page_order, the lowest of a page --> host_order, the lowest of a host --> the pool
    the pool --> sentence_priority, the lowest of all --> the sample --> pairing_order --> pairs

The hashes are independent of each other. So which sentences of a page or a host are in the pool
says nothing about which are sampled, and a sample has the pool's composition, whatever its size.
(With one hash for all, the sentences of long pages would have the lowest priorities, and small
samples would be full of them.)

A sample of size k is the k distinct sentences of the pool with the lowest priority. It does not
depend on the order of files, on workers or on retries; equal sentences count as one; a smaller
sample of the same files is a uniform part of a larger one; and both caps and samples of parts merge
into those of the whole.

The pairing sorts the sample by its hash and pairs neighbours: neighbours in a random order are a
uniform random matching, in which every sentence occurs once. Pairs whose sentences are from the
same host resemble each other all the same: see `bertscore_core.host_errors`.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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


class HostedSentences(NamedTuple):
    """Sentences with the hosts that they were found on, each as a hash.

    Attributes:
        priorities: Rank of each among all, which also identifies it. Shape (N,).
        orders: Its rank among those of its host. Shape (N,).
        hosts: The host. Shape (N,).
    """

    priorities: Hashes
    orders: Hashes
    hosts: Hashes

    @classmethod
    def join(cls, several: Sequence["HostedSentences"]) -> "HostedSentences":
        """Put the rows of several one after the other."""
        if not several:
            nothing = np.zeros(0, dtype=np.uint64)
            return cls(nothing, nothing, nothing)
        return cls(*map(np.concatenate, zip(*several, strict=True)))

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> "HostedSentences":
        """Return some of the rows."""
        return HostedSentences(*(column[rows] for column in self))


def cap_hosts(found: HostedSentences, cap: int) -> HostedSentences:
    """Keep the sentences of lowest `orders` of every host.

    A sentence found on several hosts counts for each of them, and is kept if one of them keeps it.
    Capping parts and then their union gives the same as capping the union.

    Args:
        found: In any order; a (sentence, host) may be there several times.
        cap: Most sentences to keep for a host.

    Returns:
        Those kept, each (sentence, host) once, by host and then order.
    """
    # By priority last: two sentences may have one order, and must not count as one.
    found = found.take(np.lexsort((found.priorities, found.orders, found.hosts)))
    same_host = np.zeros(len(found.hosts), dtype=np.bool_)
    same_host[1:] = found.hosts[1:] == found.hosts[:-1]
    again = same_host.copy()
    again[1:] &= found.priorities[1:] == found.priorities[:-1]
    found, same_host = found.take(~again), same_host[~again]
    places = np.arange(len(found.hosts))
    starts = np.maximum.accumulate(np.where(same_host, 0, places))
    return found.take(places - starts < cap)


def lowest(priorities: Iterable[Hashes], count: int | None = None) -> Hashes:
    """Return the lowest distinct priorities of several arrays, ascending; all when None."""
    arrays = list(priorities)
    if not arrays:
        return np.zeros(0, dtype=np.uint64)
    return np.unique(np.concatenate(arrays))[:count]


def is_sampled(priorities: Hashes, sample: Hashes) -> npt.NDArray[np.bool_]:
    """Tell which priorities are in an ascending sample. Shape as `priorities`."""
    if not len(sample):
        return np.zeros(len(priorities), dtype=np.bool_)
    places = np.minimum(np.searchsorted(sample, priorities), len(sample) - 1)
    found: npt.NDArray[np.bool_] = sample[places] == priorities
    return found


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


def leading_bits(order: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """Return the leading bits of hashes as numbers. Shape as `order`."""
    if bits == 0:
        return np.zeros(len(order), dtype=np.int64)
    return (order >> np.uint64(64 - bits)).astype(np.int64)
