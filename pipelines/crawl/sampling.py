"""A uniform sample of sentences and a random pairing, both decided by seeded hashes of the text.

No random number is drawn here. A sentence's priority is a hash of the seed, the language and the
text; a sample of size k is the k distinct sentences of lowest priority. So it does not depend on
the order of files, on workers or on retries; equal sentences count as one; a smaller sample is a
part of a larger one; and the samples of parts merge into the sample of the whole.

The pairing sorts the sample by a second hash and pairs neighbours: neighbours in a random order are
a uniform random matching, in which every sentence occurs once, so that pairs are independent.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

GROUP_BITS = 6
"""Bits of the pairing hash that name the group of a pair, for the jackknife: 64 groups."""

_FEWEST_PER_PART = 128
_PAIRS_PER_PART = 4096
_MANY_PART_BITS = 6
_MOST_PART_BITS = 10


def sentence_priority(seed: int, language: str, text: str) -> int:
    """Return the rank of a sentence among all, lowest first. 64 bits."""
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


def cap_hosts(priorities: Hashes, hosts: Hashes, cap: int) -> tuple[Hashes, Hashes]:
    """Keep the sentences of lowest priority of every host.

    A sentence found on several hosts counts for each of them, and is kept if one of them keeps it.
    Capping parts and then their union gives the same as capping the union.

    Args:
        priorities: Of each (sentence, host). Shape (N,).
        hosts: Of the same. Shape (N,).
        cap: Most sentences to keep for a host.

    Returns:
        Those kept, each (sentence, host) once, by host and then priority.
    """
    order = np.lexsort((priorities, hosts))
    priorities, hosts = priorities[order], hosts[order]
    same_host = np.zeros(len(order), dtype=np.bool_)
    same_host[1:] = hosts[1:] == hosts[:-1]
    again = same_host.copy()
    again[1:] &= priorities[1:] == priorities[:-1]
    priorities, hosts, same_host = priorities[~again], hosts[~again], same_host[~again]
    places = np.arange(len(hosts))
    starts = np.maximum.accumulate(np.where(same_host, 0, places))
    kept = places - starts < cap
    return priorities[kept], hosts[kept]


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
