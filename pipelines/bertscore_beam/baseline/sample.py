"""Sample the sentences of every language: hosts capped, then the lowest priorities.

The two have hashes of their own, so that the cap of a host decides what there is to sample and not
what a small sample is made of; see `crawl.sampling`. Both are exact combines, so a sample does not
depend on workers, order or retries.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from bertscore_beam.baseline.baseline_plan import BaselineJob
from bertscore_beam.baseline.blocks import SentenceBlock, gathered, read_block
from bertscore_beam.baseline.sources import sample_path
from bertscore_beam.crawl import HASH_COLUMNS, Hashes, HostedSentences, cap_hosts, lowest
from bertscore_beam.run import OutputFolder, Stage

_HOST_BUCKETS = 16
"""Buckets for the hosts of a language, so that no worker gets all of them."""
_LANE_ROWS = 1 << 20
"""Sentences of a lane in memory at a time: 25 MB of hashes."""


def sample_stage(
    job: BaselineJob, blocks: Iterable[SentenceBlock] = (), languages: Sequence[str] = ()
) -> Stage:
    """Return the stage that takes samples."""
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
    """
    by_language: dict[str, list[list[SentenceBlock]]] = {}
    for block in blocks:
        lanes = by_language.setdefault(block.language, [[]])
        if len(lanes[-1]) == size or sum(queued.rows for queued in lanes[-1]) >= _LANE_ROWS:
            lanes.append([])
        lanes[-1].append(block)
    return [tuple(lane) for lanes in by_language.values() for lane in lanes]


@dataclass
class TakeSample(beam.PTransform):
    """Lanes of blocks of sentences -> (language, number of sentences sampled), and the samples.

    The blocks of a lane are of one language; see `lanes_of_blocks`. Only hashes cross a stage: 24
    bytes a sentence, and 8 once the hosts are capped.
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
            | "CapHosts" >> beam.CombinePerKey(partial(_capped, cap=self.host_cap))
            # (language, priorities): only the lowest of each bucket can be among the lowest of all.
            | "DropHosts" >> beam.MapTuple(partial(_drop_hosts, count=self.count))
            | "TakeLowest" >> beam.CombinePerKey(partial(lowest, count=self.count))
            | "WriteSample" >> beam.MapTuple(partial(_write, folder=self.folder))
        )


def _capped(several: Iterable[HostedSentences], *, cap: int) -> HostedSentences:
    return cap_hosts(HostedSentences.join(several), cap)


def sample_digest(sample: Hashes) -> str:
    """Return the digest of a sample: 16 hexadecimal digits, and nothing of an empty one."""
    return hashlib.sha256(sample.astype("<u8").tobytes()).hexdigest()[:16] if len(sample) else ""


def read_sample(folder: OutputFolder, language: str) -> Hashes:
    """Read the priorities of a language's sample, ascending; none where there is no file."""
    (data,) = folder.read_if_there(sample_path(language))
    if data is None:
        return lowest([])
    sample: Hashes = np.load(io.BytesIO(data), allow_pickle=False)
    return sample.astype(np.uint64)


def _read_hashes(
    lane: tuple[SentenceBlock, ...], folder: OutputFolder
) -> Iterator[tuple[tuple[str, int], HostedSentences]]:
    for table in gathered((read_block(folder, block, HASH_COLUMNS) for block in lane), _LANE_ROWS):
        sentences = HostedSentences.of_table(table)
        for bucket, rows in rows_by_value(sentences.hosts % np.uint64(_HOST_BUCKETS)):
            yield (lane[0].language, bucket), sentences.take(rows)


def rows_by_value(values: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each distinct value, ascending, and the rows where it is."""
    if not len(values):
        return
    order = np.argsort(values, kind="stable")
    distinct, starts = np.unique(values[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)


def _drop_hosts(
    key: tuple[str, int], sentences: HostedSentences, *, count: int
) -> tuple[str, Hashes]:
    return key[0], lowest([sentences.priorities], count)


def _write(language: str, sample: Hashes, *, folder: OutputFolder) -> tuple[str, int]:
    sink = io.BytesIO()
    np.save(sink, sample.astype("<u8"), allow_pickle=False)
    folder.write(sample_path(language), sink.getvalue())
    return language, len(sample)
