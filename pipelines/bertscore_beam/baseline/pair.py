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

from bertscore_beam.baseline.baseline_plan import BaselineJob
from bertscore_beam.baseline.blocks import SentenceBlock, SentenceIndex, gathered, read_block
from bertscore_beam.baseline.sample import (
    lanes_of_blocks,
    read_sample,
    rows_by_value,
    sample_digest,
)
from bertscore_beam.baseline.sources import (
    PAIRS_FOLDER,
    SENTENCES_FOLDER,
    PairPart,
    PairsRecord,
    SampleRecord,
    pairs_path,
    pairs_record_path,
    sample_path,
    sample_record_path,
)
from bertscore_beam.crawl import (
    SENTENCE_SCHEMA,
    Hashes,
    Overlap,
    is_sampled,
    leading_bits,
    pair_neighbours,
    pairing_order,
    part_bits,
)
from bertscore_beam.dump import write_part
from bertscore_beam.files import mask_credentials
from bertscore_beam.run import OutputFolder, Stage, counters
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
    """Pair the sample of every language that has one; pairs that are there are kept."""
    folder, pairs = job.folder, {}
    for code, sample in samples.items():
        record = _find_pairs(folder, sample)
        if record is None and sample.found >= 2:
            old = folder.files(f"{PAIRS_FOLDER}/{code}")
            # First the record, without which the parts count for nothing.
            folder.delete(pairs_record_path(code))
            folder.delete(*(f"{PAIRS_FOLDER}/{code}/{name}" for name in old))
            yield pair_stage(job, [sample], _blocks_of(sample, index))
            record = _find_pairs(folder, sample)
            if record is None:
                raise RuntimeError(f"the pairs of {code} were not written; run the command again")
        if record is not None:
            pairs[code] = record
    return pairs


def _find_pairs(folder: OutputFolder, sample: SampleRecord) -> PairsRecord | None:
    (data,) = folder.read_if_there(pairs_record_path(sample.language))
    record = None if data is None else PairsRecord.from_json(data)
    return record if record is not None and record.sample == sample.digest else None


def _blocks_of(sample: SampleRecord, index: SentenceIndex) -> list[SentenceBlock]:
    names = [str(file["file"]) for file in sample.files]
    gone = [name for name in names if not index.has(sample.language, name)]
    if gone:
        raise InputError(
            f"the sentences of {len(gone):,} files are gone, such as {gone[0]!r}: got a sample of "
            f"{sample.language} that was taken from them; expected them below "
            f"{SENTENCES_FOLDER}/. Delete {sample_record_path(sample.language)!r} "
            "and run the same command again: it reads these files once more."
        )
    return index.blocks(sample.language, names)


def pair_stage(
    job: BaselineJob,
    samples: Sequence[SampleRecord] = (),
    blocks: Sequence[SentenceBlock] = (),
) -> Stage:
    """Return the stage that pairs the sentences of samples."""
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
    tables = (_sampled(block, folder, seed, plans[block.language]) for block in lane)
    for sentences in gathered(tables, _LANE_ROWS):
        language = lane[0].language
        places = leading_bits(sentences["order"].to_numpy(), plans[language].bits)
        for place, rows in rows_by_value(places):
            # Rows that are taken are copied; a slice would be sent with everything around it.
            yield (language, place), sentences.take(pa.array(rows))


def _sampled(block: SentenceBlock, folder: OutputFolder, seed: int, plan: PairingPlan) -> pa.Table:
    sample = _planned_sample(folder, block.language, plan.sample)
    table = read_block(folder, block, ("text", "priority", "host"))
    table = table.filter(pa.array(is_sampled(table["priority"].to_numpy(), sample)))
    order = [pairing_order(seed, block.language, text) for text in table["text"].to_pylist()]
    hosts = table["host"] if plan.hosts_known else pa.nulls(len(table), pa.uint64())
    return pa.table([table["text"], pa.array(order, pa.uint64()), hosts], schema=SENTENCE_SCHEMA)


@lru_cache(maxsize=2)
def _planned_sample(folder: OutputFolder, language: str, digest: str) -> Hashes:
    sample = read_sample(folder, language)
    digest_now = sample_digest(sample)
    if digest_now != digest:
        path = mask_credentials(folder.path(sample_path(language)))
        raise InputError(
            f"the sample {path!r} has changed: got {digest_now}; expected {digest}. Let one run at "
            "a time use the output folder, and run the same command again."
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
    folder.write(pairs_path(language, name), write_part(pairs))
    counters.count(counters.PAIRS_MADE, len(pairs))
    return describe_part(language, name, pairs)


def describe_part(language: str, name: str, pairs: pa.Table) -> PairPart:
    """Count the pairs of a part, the lengths of their sentences, and how much they overlap."""
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


def _histogram(values: npt.NDArray[np.integer]) -> dict[str, int]:
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(map(str, distinct.tolist()), counts.tolist(), strict=True))


def _write_record(
    language: str,
    parts: Iterable[PairPart],
    *,
    folder: OutputFolder,
    plans: dict[str, PairingPlan],
) -> str:
    record = PairsRecord(
        language=language,
        sample=plans[language].sample,
        parts=tuple(sorted(parts, key=lambda part: part.name)),
    )
    folder.write(pairs_record_path(language), record.to_json())
    return language
