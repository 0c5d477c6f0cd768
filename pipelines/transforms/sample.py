"""The sample of every language: hosts capped, then the lowest priorities, as exact combines."""

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq

from pipelines.baseline import layout
from pipelines.commoncrawl.sampling import Hashes, cap_hosts, lowest
from pipelines.io.files import join, open_source, read_bytes, write_atomically
from pipelines.lock import RunLock

_HOST_BUCKETS = 16
"""Into how many the hosts of a language are dealt out, so that no worker gets all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceBlock:
    """Sentences of one language in one Parquet file."""

    language: str
    path: str


@dataclass
class TakeSample(beam.PTransform):
    """Blocks of sentences -> (language, number of sentences sampled); the samples are written.

    Only hashes cross a stage: 16 bytes a sentence, 8 behind the cap.

    Attributes:
        output: Folder of the run.
        count: Sentences wanted of each language.
        host_cap: Most sentences of a host.
        lock: What must be held to write; None leaves that unchecked.
    """

    output: str
    count: int
    host_cap: int
    lock: RunLock | None = None

    def expand(self, blocks: beam.PCollection[SentenceBlock]) -> beam.PCollection[tuple[str, int]]:
        """Cap the hosts in buckets, merge the rest by language, and write."""
        return (
            blocks
            | "SpreadBlocks" >> beam.Reshuffle()
            # ((language, bucket of hosts), (priorities, hosts))
            | "ReadHashes" >> beam.FlatMap(_read_hashes)
            | "CapHosts" >> beam.CombinePerKey(CapHosts(self.host_cap))
            # (language, priorities): only the lowest of each bucket can be among the lowest of all.
            | "DropHosts" >> beam.MapTuple(lambda key, kept: (key[0], lowest([kept[0]])))
            | "TakeLowest" >> beam.CombinePerKey(TakeLowest(self.count))
            | "WriteSample" >> beam.MapTuple(partial(_write, output=self.output, lock=self.lock))
        )


class CapHosts(beam.CombineFn):
    """Merge (priorities, hosts), keeping the lowest of each host."""

    def __init__(self, cap: int) -> None:
        """Keep the number of sentences that a host may have."""
        self._cap = cap

    def create_accumulator(self) -> tuple[Hashes, Hashes]:
        """Start from no sentence."""
        nothing = np.zeros(0, dtype=np.uint64)
        return nothing, nothing

    def add_input(
        self, accumulator: tuple[Hashes, Hashes], element: tuple[Hashes, Hashes]
    ) -> tuple[Hashes, Hashes]:
        """Add those of a block."""
        return self.merge_accumulators((accumulator, element))

    def merge_accumulators(
        self, accumulators: Iterable[tuple[Hashes, Hashes]]
    ) -> tuple[Hashes, Hashes]:
        """Cap the union."""
        several = list(accumulators)
        priorities = np.concatenate([priorities for priorities, _ in several])
        return cap_hosts(priorities, np.concatenate([hosts for _, hosts in several]), self._cap)

    def extract_output(self, accumulator: tuple[Hashes, Hashes]) -> tuple[Hashes, Hashes]:
        """Return what stays."""
        return accumulator


class TakeLowest(beam.CombineFn):
    """Merge arrays of priorities to the lowest distinct ones."""

    def __init__(self, count: int) -> None:
        """Keep how many are wanted."""
        self._count = count

    def create_accumulator(self) -> Hashes:
        """Start from none."""
        return np.zeros(0, dtype=np.uint64)

    def add_input(self, accumulator: Hashes, element: Hashes) -> Hashes:
        """Add some."""
        return lowest((accumulator, element), self._count)

    def merge_accumulators(self, accumulators: Iterable[Hashes]) -> Hashes:
        """Add several."""
        return lowest(accumulators, self._count)

    def extract_output(self, accumulator: Hashes) -> Hashes:
        """Return the sample, ascending."""
        return accumulator


def save_sample(path: str, sample: Hashes) -> None:
    """Write the priorities of a sample."""
    sink = io.BytesIO()
    np.save(sink, sample.astype("<u8"), allow_pickle=False)
    write_atomically(path, sink.getvalue())


def sample_digest(sample: Hashes) -> str:
    """Digest of a sample. 16 hexadecimal digits."""
    return hashlib.sha256(sample.astype("<u8").tobytes()).hexdigest()[:16]


def load_sample(path: str) -> Hashes:
    """Read the priorities of a sample, ascending."""
    sample: Hashes = np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)
    return sample.astype(np.uint64)


def _read_hashes(
    block: SentenceBlock,
) -> Iterator[tuple[tuple[str, int], tuple[Hashes, Hashes]]]:
    with open_source(block.path) as source:
        table = pq.read_table(source, columns=["priority", "host"])
    priorities, hosts = table["priority"].to_numpy(), table["host"].to_numpy()
    buckets = hosts % np.uint64(_HOST_BUCKETS)
    for bucket in np.unique(buckets).tolist():
        here = buckets == bucket
        yield (block.language, int(bucket)), (priorities[here], hosts[here])


def _write(language: str, sample: Hashes, *, output: str, lock: RunLock | None) -> tuple[str, int]:
    if lock is not None:
        lock.check()
    save_sample(join(output, layout.sample_path(language)), sample)
    return language, len(sample)
