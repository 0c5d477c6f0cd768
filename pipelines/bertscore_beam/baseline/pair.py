"""Pair the sampled sentences at random, as Parquet files that every model scores."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.blocks import SentenceBlock, SentenceIndex, read_block
from bertscore_beam.baseline.plan import BaselineJob
from bertscore_beam.baseline.records import PairPart, PairsRecord, SampleRecord
from bertscore_beam.baseline.sample import (
    lanes_of_blocks,
    read_sample,
    rows_by_value,
    sample_digest,
)
from bertscore_beam.crawl.overlap import Overlap
from bertscore_beam.crawl.pairing import SENTENCE_SCHEMA, pair_neighbours
from bertscore_beam.crawl.sampling import (
    Hashes,
    is_sampled,
    leading_bits,
    pairing_order,
    part_bits,
)
from bertscore_beam.dump.parts import write_part
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.stage import Stage
from bertscore_core.errors import InputError

_LEFT = "left"
_LEFT_PART = "part-left"
_LANE_ROWS = 1 << 18
"""Sampled sentences of a lane in memory at a time: with texts of 100 bytes, 30 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingPlan:
    """What decides a language's pairs.

    Attributes:
        sample: Digest of its sample.
        bits: Leading bits of the pairing hash that name a part.
        hosts_known: Whether sentences say which host they are from. Those that are given do not.
    """

    sample: str
    bits: int
    hosts_known: bool


def make_pairs(
    job: BaselineJob, samples: Mapping[str, SampleRecord], index: SentenceIndex
) -> Generator[Stage, None, dict[str, PairsRecord]]:
    """Pair the sample of every language that has one; pairs that are there are kept.

    Args:
        job: The run.
        samples: The samples.
        index: Where their sentences are.

    Yields:
        A stage for each language to pair. A runner on one machine keeps what it shuffles in memory,
        so it is given one language at a time.

    Returns:
        The pairs of each language.

    Raises:
        TypeError, ValueError: A record is not what this version writes.
        InputError: Sentences are gone.
    """
    folder, pairs = job.folder, {}
    for code, sample in samples.items():
        record = _find_pairs(folder, sample)
        if record is None and sample.found >= 2:
            old = folder.files(f"{layout.PAIRS_FOLDER}/{code}")
            # First the record, without which the parts count for nothing.
            folder.delete(layout.pairs_record_path(code))
            folder.delete(*(f"{layout.PAIRS_FOLDER}/{code}/{name}" for name in old))
            yield pair_stage(job, [sample], _blocks_of(sample, index))
            record = _find_pairs(folder, sample)
            if record is None:
                raise RuntimeError(f"the pairs of {code} were not written; run the command again")
        if record is not None:
            pairs[code] = record
    return pairs


def _find_pairs(folder: OutputFolder, sample: SampleRecord) -> PairsRecord | None:
    """Return the pairs that are there already, if they are those of a sample."""
    (data,) = folder.read_if_there(layout.pairs_record_path(sample.language))
    record = None if data is None else PairsRecord.from_json(data)
    return record if record is not None and record.sample == sample.digest else None


def _blocks_of(sample: SampleRecord, index: SentenceIndex) -> list[SentenceBlock]:
    """Return the sentences that a sample was taken from.

    Raises:
        InputError: Some are gone.
    """
    names = [file.file for file in sample.files]
    gone = [name for name in names if not index.has(sample.language, name)]
    if gone:
        raise InputError(
            f"the sentences of {len(gone):,} files are gone, such as {gone[0]!r}: got a sample of "
            f"{sample.language} that was taken from them; expected them below "
            f"{layout.SENTENCES_FOLDER}/. Delete {layout.sample_record_path(sample.language)!r} "
            "and run the same command again: it reads these files once more."
        )
    return index.blocks(sample.language, names)


def pair_stage(
    job: BaselineJob,
    samples: Sequence[SampleRecord] = (),
    blocks: Sequence[SentenceBlock] = (),
) -> Stage:
    """Return the stage that pairs the sentences of samples.

    Args:
        job: The run.
        samples: The samples.
        blocks: The sentences that they were taken from.
    """
    lanes = lanes_of_blocks(blocks)
    plans = {
        sample.language: PairingPlan(
            sample=sample.digest,
            bits=part_bits(sample.found // 2),
            hosts_known=not job.plan.source.is_given,
        )
        for sample in samples
    }
    pair = PairSentences(folder=job.folder, seed=job.options.seed, plans=plans)
    return Stage(
        name="pair",
        runner=job.plan.runner,
        build=lambda root: root | beam.Create(lanes) | pair,
        words=f"Pairing sentences of {', '.join(plans)}",
    )


@dataclass
class PairSentences(beam.PTransform):
    """Lanes of blocks of sentences -> languages whose pairs, and then their record, are written.

    The blocks of a lane are of one language; see `lanes_of_blocks`. The text crosses one shuffle,
    by the leading bits of the pairing hash: pairing brings sentences of different files together.

    Attributes:
        folder: Folder of the run, which holds the samples.
        seed: Seed of the pairing.
        plans: What decides the pairs, by language.
    """

    folder: OutputFolder
    seed: int
    plans: dict[str, PairingPlan]

    def expand(self, lanes: beam.PCollection[tuple[SentenceBlock, ...]]) -> beam.PCollection[str]:
        """Pair the sampled sentences in parts, then those that are left over there."""
        paired = (
            lanes
            | "SpreadLanes" >> beam.Reshuffle()
            # ((language, part), sentences)
            | "ReadSampled"
            >> beam.FlatMap(_read_sampled, folder=self.folder, seed=self.seed, plans=self.plans)
            | "GroupByPart" >> beam.GroupByKey()
            | "PairPart" >> beam.ParDo(_PairInPart(self.folder)).with_outputs(_LEFT, main="parts")
        )
        left = (
            paired[_LEFT]
            | "GroupLeft" >> beam.GroupByKey()
            | "PairLeft" >> beam.FlatMapTuple(partial(_pair_left, folder=self.folder))
        )
        return (
            (paired.parts, left)
            | "Flatten" >> beam.Flatten()
            | "ByLanguage" >> beam.Map(lambda part: (part.language, part))
            | "GroupByLanguage" >> beam.GroupByKey()
            | "WriteRecord"
            >> beam.MapTuple(partial(_write_record, folder=self.folder, plans=self.plans))
        )


def _read_sampled(
    lane: tuple[SentenceBlock, ...],
    *,
    folder: OutputFolder,
    seed: int,
    plans: dict[str, PairingPlan],
) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    if not lane:
        return
    language = lane[0].language
    plan = plans[language]
    sample = _planned_sample(folder, language, plan.sample)
    read: list[pa.Table] = []
    for block in lane:
        table = read_block(folder, block, ("text", "priority", "host"))
        table = table.filter(pa.array(is_sampled(table["priority"].to_numpy(), sample)))
        texts = table["text"].to_pylist()
        order = np.array([pairing_order(seed, language, text) for text in texts], dtype=np.uint64)
        hosts = table["host"] if plan.hosts_known else pa.nulls(len(table), pa.uint64())
        columns = [table["text"], pa.array(order), hosts]
        read.append(pa.table(columns, schema=SENTENCE_SCHEMA))
        if sum(map(len, read)) >= _LANE_ROWS:
            yield from _by_part(language, pa.concat_tables(read), plan.bits)
            read = []
    if read:
        yield from _by_part(language, pa.concat_tables(read), plan.bits)


def _by_part(
    language: str, sentences: pa.Table, bits: int
) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Yield the sentences of each part."""
    sentences = sentences.combine_chunks()
    for place, rows in rows_by_value(leading_bits(sentences["order"].to_numpy(), bits)):
        # Rows that are taken are copied; a slice would be sent with everything around it.
        yield (language, place), sentences.take(pa.array(rows))


@lru_cache(maxsize=2)
def _planned_sample(folder: OutputFolder, language: str, digest: str) -> Hashes:
    """Read a sample, once for all lanes of a language that follow each other.

    Raises:
        InputError: It is another one than planned for.
    """
    sample = read_sample(folder, language)
    found = sample_digest(sample)
    if found != digest:
        path = mask_credentials(folder.path(layout.sample_path(language)))
        raise InputError(
            f"the sample {path!r} has changed: got {found}; expected {digest}. Let one run at a "
            "time use the output folder, and run the same command again."
        )
    return sample


class _PairInPart(beam.DoFn):
    # No function: with several outputs Beam would name the step after its arguments, which hold the
    # address of the output.
    def __init__(self, folder: OutputFolder) -> None:
        self._folder = folder

    def process(self, part: tuple[tuple[str, int], Iterable[pa.Table]]) -> Iterator[Any]:
        (language, place), tables = part
        pairs, left = pair_neighbours(pa.concat_tables(tables))
        if len(pairs):
            yield _write(language, f"part-{place:05d}", pairs, folder=self._folder)
        if len(left):
            yield TaggedOutput(_LEFT, (language, left))


def _pair_left(
    language: str, tables: Iterable[pa.Table], *, folder: OutputFolder
) -> Iterator[PairPart]:
    pairs, _ = pair_neighbours(pa.concat_tables(tables))
    if len(pairs):
        yield _write(language, _LEFT_PART, pairs, folder=folder)


def _write(language: str, name: str, pairs: pa.Table, *, folder: OutputFolder) -> PairPart:
    folder.write(layout.pairs_path(language, name), write_part(pairs))
    counters.count(counters.PAIRS_MADE, len(pairs))
    return describe_part(language, name, pairs)


def describe_part(language: str, name: str, pairs: pa.Table) -> PairPart:
    """Count the pairs of a part, the lengths of their sentences, and how much they overlap.

    Args:
        language: Their language.
        name: Name of the part.
        pairs: Of `PAIR_SCHEMA`.
    """
    texts = pa.chunked_array([*pairs["candidate"].chunks, *pairs["reference"].chunks])
    words = pc.list_value_length(pc.utf8_split_whitespace(texts)).to_numpy()
    characters = pc.utf8_length(texts).to_numpy() // 10 * 10
    return PairPart(
        language=language,
        name=name,
        rows=len(pairs),
        same_host=int(pc.sum(pairs["same_host"]).as_py() or 0),
        words=_histogram(words),
        characters=_histogram(characters),
        overlap=Overlap.of(
            pairs["candidate"].to_pylist(), pairs["reference"].to_pylist(), language
        ),
    )


def _histogram(values: npt.NDArray[np.integer]) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _write_record(
    language: str,
    parts: Iterable[PairPart],
    *,
    folder: OutputFolder,
    plans: dict[str, PairingPlan],
) -> str:
    """Write the record of a language's pairs once all of them are written."""
    record = PairsRecord(
        language=language,
        sample=plans[language].sample,
        parts=tuple(sorted(parts, key=lambda part: part.name)),
    )
    folder.write(layout.pairs_record_path(language), record.to_json())
    return language
