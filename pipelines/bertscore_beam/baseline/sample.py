"""Sample the sentences of every language: hosts capped, then the lowest priorities.

The two have hashes of their own, so that the cap of a host decides what there is to sample and not
what a small sample is made of; see `crawl.sampling`. Both are exact combines, so a sample does not
depend on workers, order or retries.
"""

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.blocks import SentenceBlock, read_block
from bertscore_beam.baseline.plan import BaselineJob
from bertscore_beam.crawl.sampling import Hashes, HostedSentences, cap_hosts, lowest
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.stage import Stage

_HASHES = ("priority", "host_order", "host")
"""Columns of `HostedSentences`, in its order."""
_HOST_BUCKETS = 16
"""Buckets for the hosts of a language, so that no worker gets all of them."""
_LANE_ROWS = 1 << 20
"""Sentences of a lane in memory at a time: 25 MB of hashes."""
_FEW_ROWS = 1 << 12
"""Up to so many hashes are collected before they are merged."""

T = TypeVar("T")


def sample_stage(
    job: BaselineJob, blocks: Iterable[SentenceBlock] = (), languages: Sequence[str] = ()
) -> Stage:
    """Return the stage that takes samples.

    Args:
        job: The run.
        blocks: The sentences to sample.
        languages: Languages they are in.
    """
    lanes = lanes_of_blocks(blocks)
    take = TakeSample(
        folder=job.folder,
        count=2 * job.options.pairs,
        host_cap=job.options.sentences_per_host,
    )
    return Stage(
        name="sample",
        runner=job.plan.runner,
        build=lambda root: root | beam.Create(lanes) | take,
        words=f"Sampling sentences of {', '.join(languages)}",
    )


def lanes_of_blocks(
    blocks: Iterable[SentenceBlock], size: int = 64
) -> list[tuple[SentenceBlock, ...]]:
    """Join blocks of the same language to lanes, whose blocks are read one after the other.

    A block often holds a few rows for one key of a shuffle, and each key costs a record there; a
    lane holds enough rows to be worth it, and few enough for several workers to have some.

    Args:
        blocks: Of any languages.
        size: Most blocks of a lane.

    Returns:
        Lanes of one language each, in the order of its blocks.
    """
    by_language: dict[str, list[list[SentenceBlock]]] = {}
    for block in blocks:
        lanes = by_language.setdefault(block.language, [[]])
        if len(lanes[-1]) == size or sum(each.rows for each in lanes[-1]) >= _LANE_ROWS:
            lanes.append([])
        lanes[-1].append(block)
    return [tuple(lane) for lanes in by_language.values() for lane in lanes]


@dataclass
class TakeSample(beam.PTransform):
    """Lanes of blocks of sentences -> (language, number of sentences sampled), and the samples.

    The blocks of a lane are of one language; see `lanes_of_blocks`. Only hashes cross a stage: 24
    bytes a sentence, and 8 once the hosts are capped.

    Attributes:
        folder: Folder of the run.
        count: Sentences wanted of each language.
        host_cap: Most sentences of a host.
    """

    folder: OutputFolder
    count: int
    host_cap: int

    def expand(
        self, lanes: beam.PCollection[tuple[SentenceBlock, ...]]
    ) -> beam.PCollection[tuple[str, int]]:
        """Cap the hosts in buckets, merge what is kept by language, and write."""
        return (
            lanes
            | "SpreadLanes" >> beam.Reshuffle()
            # ((language, bucket of hosts), HostedSentences)
            | "ReadHashes" >> beam.FlatMap(_read_hashes, self.folder)
            | "CapHosts" >> beam.CombinePerKey(CapHosts(self.host_cap))
            # (language, priorities): only the lowest of each bucket can be among the lowest of all.
            | "DropHosts" >> beam.MapTuple(partial(_drop_hosts, count=self.count))
            | "TakeLowest" >> beam.CombinePerKey(TakeLowest(self.count))
            | "WriteSample" >> beam.MapTuple(partial(_write, folder=self.folder))
        )


@dataclass(slots=True, kw_only=True)
class Collected(Generic[T]):
    """Elements that are not merged yet. An accumulator: it changes.

    Attributes:
        elements: The result of the last merge, and what was added after it.
        rows: Rows of all of them.
        merged_rows: Rows of the result of the last merge.
    """

    elements: list[T] = field(default_factory=list)
    rows: int = 0
    merged_rows: int = 0


class _MergeRarely(beam.CombineFn, ABC, Generic[T]):
    """Collect elements and merge them when their rows have doubled, and at the end.

    A merge sorts all rows: with every element it would take quadratic time.
    """

    @abstractmethod
    def _merge(self, elements: Sequence[T]) -> T:
        """Return what is kept of several elements, or of none."""

    @abstractmethod
    def _rows(self, element: T) -> int:
        """Return the number of rows of an element."""

    def create_accumulator(self) -> Collected[T]:
        """Start from nothing."""
        return Collected()

    def add_input(self, accumulator: Collected[T], element: T) -> Collected[T]:
        """Add an element."""
        accumulator.elements.append(element)
        accumulator.rows += self._rows(element)
        return self._merge_if_due(accumulator)

    def merge_accumulators(self, accumulators: Iterable[Collected[T]]) -> Collected[T]:
        """Add the elements of several."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.elements.extend(accumulator.elements)
            merged.rows += accumulator.rows
            merged.merged_rows = max(merged.merged_rows, accumulator.merged_rows)
            merged = self._merge_if_due(merged)
        return merged

    def _merge_if_due(self, accumulator: Collected[T]) -> Collected[T]:
        """Merge the elements if their rows have doubled."""
        due = accumulator.rows > max(2 * accumulator.merged_rows, _FEW_ROWS)
        return self.compact(accumulator) if due else accumulator

    def compact(self, accumulator: Collected[T]) -> Collected[T]:
        """Merge the elements."""
        merged = self._merge(accumulator.elements)
        rows = self._rows(merged)
        return Collected(elements=[merged], rows=rows, merged_rows=rows)

    def extract_output(self, accumulator: Collected[T]) -> T:
        """Return what is kept of all elements."""
        return self._merge(accumulator.elements)


class CapHosts(_MergeRarely[HostedSentences]):
    """Merge sentences with their hosts, keeping those of lowest order of each host."""

    def __init__(self, cap: int) -> None:
        """Take the most sentences that a host may have."""
        self._cap = cap

    def _merge(self, elements: Sequence[HostedSentences]) -> HostedSentences:
        return cap_hosts(HostedSentences.join(elements), self._cap)

    def _rows(self, element: HostedSentences) -> int:
        return len(element.hosts)


class TakeLowest(_MergeRarely[Hashes]):
    """Merge arrays of priorities to the lowest distinct ones, ascending."""

    def __init__(self, count: int) -> None:
        """Take the number of priorities to keep."""
        self._count = count

    def _merge(self, elements: Sequence[Hashes]) -> Hashes:
        return lowest(elements, self._count)

    def _rows(self, element: Hashes) -> int:
        return len(element)


def write_sample(folder: OutputFolder, language: str, sample: Hashes) -> None:
    """Write the priorities of a language's sample."""
    sink = io.BytesIO()
    np.save(sink, sample.astype("<u8"), allow_pickle=False)
    folder.write(layout.sample_path(language), sink.getvalue())


def sample_digest(sample: Hashes) -> str:
    """Return the digest of a sample. 16 hexadecimal digits."""
    return hashlib.sha256(sample.astype("<u8").tobytes()).hexdigest()[:16]


def read_sample(folder: OutputFolder, language: str) -> Hashes:
    """Read the priorities of a language's sample, ascending.

    Raises:
        FileNotFoundError: There is none.
    """
    data = folder.read(layout.sample_path(language))
    sample: Hashes = np.load(io.BytesIO(data), allow_pickle=False)
    return sample.astype(np.uint64)


def _read_hashes(
    lane: tuple[SentenceBlock, ...], folder: OutputFolder
) -> Iterator[tuple[tuple[str, int], HostedSentences]]:
    read: list[HostedSentences] = []
    for block in lane:
        table = read_block(folder, block, _HASHES)
        read.append(HostedSentences(*(table[name].to_numpy() for name in _HASHES)))
        if sum(len(found.hosts) for found in read) >= _LANE_ROWS:
            yield from _by_bucket(block.language, HostedSentences.join(read))
            read = []
    if read:
        yield from _by_bucket(lane[0].language, HostedSentences.join(read))


def _by_bucket(
    language: str, found: HostedSentences
) -> Iterator[tuple[tuple[str, int], HostedSentences]]:
    """Yield the sentences of each bucket of hosts."""
    for bucket, rows in rows_by_value(found.hosts % np.uint64(_HOST_BUCKETS)):
        yield (language, bucket), found.take(rows)


def rows_by_value(values: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each distinct value, ascending, and the rows where it is."""
    if not len(values):
        return
    order = np.argsort(values, kind="stable")
    found, starts = np.unique(values[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)


def _drop_hosts(key: tuple[str, int], kept: HostedSentences, *, count: int) -> tuple[str, Hashes]:
    return key[0], lowest([kept.priorities], count)


def _write(language: str, sample: Hashes, *, folder: OutputFolder) -> tuple[str, int]:
    write_sample(folder, language, sample)
    return language, len(sample)
