"""The sample of every language: hosts capped, then the lowest priorities, as exact combines."""

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from pipelines.baseline import layout
from pipelines.commoncrawl.sampling import Hashes, cap_hosts, lowest
from pipelines.io.files import join, open_source, read_bytes, write_atomically
from pipelines.lock import RunLock, check_held

_HOST_BUCKETS = 16
"""Into how many the hosts of a language are dealt out, so that no worker gets all of them."""
_LANE_ROWS = 1 << 20
"""Sentences of a lane that are held at a time: 16 MB of hashes."""
_FEW_ROWS = 1 << 12
"""So few hashes wait for more before they are put together."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceBlock:
    """Sentences of one language in one Parquet file."""

    language: str
    path: str


def lanes_of(blocks: Iterable[SentenceBlock], size: int = 64) -> list[tuple[SentenceBlock, ...]]:
    """Put blocks of the same language together, to be read one after the other.

    What a block holds for one key of a shuffle is often a few rows; what a lane holds is worth the
    record that it makes.

    Args:
        blocks: Of any languages.
        size: Most blocks of a lane.

    Returns:
        Lanes of one language each, in the order of its blocks.
    """
    by_language: dict[str, list[SentenceBlock]] = {}
    for block in blocks:
        by_language.setdefault(block.language, []).append(block)
    return [
        tuple(several[start : start + size])
        for several in by_language.values()
        for start in range(0, len(several), size)
    ]


@dataclass
class TakeSample(beam.PTransform):
    """Lanes of blocks of sentences -> (language, number of sentences sampled), and the samples.

    The blocks of a lane are of one language; see `lanes_of`. Only hashes cross a stage: 16 bytes a
    sentence, 8 behind the cap.

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

    def expand(
        self, lanes: beam.PCollection[tuple[SentenceBlock, ...]]
    ) -> beam.PCollection[tuple[str, int]]:
        """Cap the hosts in buckets, merge the rest by language, and write."""
        return (
            lanes
            | "SpreadLanes" >> beam.Reshuffle()
            # ((language, bucket of hosts), (priorities, hosts))
            | "ReadHashes" >> beam.FlatMap(_read_hashes)
            | "CapHosts" >> beam.CombinePerKey(CapHosts(self.host_cap))
            # (language, priorities): only the lowest of each bucket can be among the lowest of all.
            | "DropHosts" >> beam.MapTuple(partial(_drop_hosts, count=self.count))
            | "TakeLowest" >> beam.CombinePerKey(TakeLowest(self.count))
            | "WriteSample" >> beam.MapTuple(partial(_write, output=self.output, lock=self.lock))
        )


@dataclass(slots=True, kw_only=True)
class Waiting(Generic[T]):
    """Elements that wait to be put together. An accumulator: it changes.

    Attributes:
        elements: What was added, and before it what was put together last.
        rows: Rows of all of them.
        settled: Rows of what was put together last.
    """

    elements: list[T] = field(default_factory=list)
    rows: int = 0
    settled: int = 0


class _PutTogether(beam.CombineFn, Generic[T]):
    """Collect elements and put them together when their rows have doubled, and at the end.

    Sorting all that is there with every element would take quadratic time.
    """

    def _together(self, elements: Sequence[T]) -> T:
        """Return what stays of several elements, or of none."""
        raise NotImplementedError

    def _rows(self, element: T) -> int:
        """Return the number of rows of an element."""
        raise NotImplementedError

    def create_accumulator(self) -> Waiting[T]:
        """Start from nothing."""
        return Waiting()

    def add_input(self, accumulator: Waiting[T], element: T) -> Waiting[T]:
        """Add an element."""
        accumulator.elements.append(element)
        accumulator.rows += self._rows(element)
        return self._settle(accumulator)

    def merge_accumulators(self, accumulators: Iterable[Waiting[T]]) -> Waiting[T]:
        """Add the elements of several."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.elements.extend(accumulator.elements)
            merged.rows += accumulator.rows
            merged.settled = max(merged.settled, accumulator.settled)
            merged = self._settle(merged)
        return merged

    def _settle(self, accumulator: Waiting[T]) -> Waiting[T]:
        """Put together what is there if that is due."""
        due = accumulator.rows > max(2 * accumulator.settled, _FEW_ROWS)
        return self.compact(accumulator) if due else accumulator

    def compact(self, accumulator: Waiting[T]) -> Waiting[T]:
        """Put together what is there."""
        together = self._together(accumulator.elements)
        rows = self._rows(together)
        return Waiting(elements=[together], rows=rows, settled=rows)

    def extract_output(self, accumulator: Waiting[T]) -> T:
        """Return what stays."""
        return self._together(accumulator.elements)


class CapHosts(_PutTogether[tuple[Hashes, Hashes]]):
    """Merge (priorities, hosts), keeping the lowest of each host; by host and then priority."""

    def __init__(self, cap: int) -> None:
        """Keep the number of sentences that a host may have."""
        self._cap = cap

    def _together(self, elements: Sequence[tuple[Hashes, Hashes]]) -> tuple[Hashes, Hashes]:
        priorities, hosts = _join(elements)
        return cap_hosts(priorities, hosts, self._cap)

    def _rows(self, element: tuple[Hashes, Hashes]) -> int:
        return len(element[0])


class TakeLowest(_PutTogether[Hashes]):
    """Merge arrays of priorities to the lowest distinct ones, ascending."""

    def __init__(self, count: int) -> None:
        """Keep how many are wanted."""
        self._count = count

    def _together(self, elements: Sequence[Hashes]) -> Hashes:
        return lowest(elements, self._count)

    def _rows(self, element: Hashes) -> int:
        return len(element)


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
    lane: tuple[SentenceBlock, ...],
) -> Iterator[tuple[tuple[str, int], tuple[Hashes, Hashes]]]:
    read: list[tuple[Hashes, Hashes]] = []
    for block in lane:
        with open_source(block.path) as source:
            table = pq.read_table(source, columns=["priority", "host"])
        read.append((table["priority"].to_numpy(), table["host"].to_numpy()))
        if sum(len(priorities) for priorities, _ in read) >= _LANE_ROWS:
            yield from _by_bucket(block.language, *_join(read))
            read = []
    if read:
        yield from _by_bucket(lane[0].language, *_join(read))


def _by_bucket(
    language: str, priorities: Hashes, hosts: Hashes
) -> Iterator[tuple[tuple[str, int], tuple[Hashes, Hashes]]]:
    """Deal hashes out to the buckets of their hosts."""
    for bucket, rows in rows_by_value(hosts % np.uint64(_HOST_BUCKETS)):
        yield (language, bucket), (priorities[rows], hosts[rows])


def rows_by_value(values: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each distinct value, ascending, and the rows where it is."""
    if not len(values):
        return
    order = np.argsort(values, kind="stable")
    found, starts = np.unique(values[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)


def _join(elements: Sequence[tuple[Hashes, Hashes]]) -> tuple[Hashes, Hashes]:
    """Put (priorities, hosts) one behind the other."""
    if not elements:
        nothing = np.zeros(0, dtype=np.uint64)
        return nothing, nothing
    priorities, hosts = zip(*elements, strict=True)
    return np.concatenate(priorities), np.concatenate(hosts)


def _drop_hosts(
    key: tuple[str, int], kept: tuple[Hashes, Hashes], *, count: int
) -> tuple[str, Hashes]:
    return key[0], lowest([kept[0]], count)


def _write(language: str, sample: Hashes, *, output: str, lock: RunLock | None) -> tuple[str, int]:
    check_held(lock)
    save_sample(join(output, layout.sample_path(language)), sample)
    return language, len(sample)
