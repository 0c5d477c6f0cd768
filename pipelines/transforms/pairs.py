"""Sampled sentences to random pairs, kept as Parquet so that every model scores the same ones."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from apache_beam.pvalue import TaggedOutput

from bertscore_core.errors import InputError
from pipelines import metrics
from pipelines.baseline import layout
from pipelines.commoncrawl.pairing import SENTENCE_SCHEMA, pair_neighbours
from pipelines.commoncrawl.sampling import Hashes, is_sampled, leading_bits, pairing_order
from pipelines.io.files import join, mask_credentials, open_source, write_atomically
from pipelines.io.parquet import write_part
from pipelines.lock import RunLock, check_held
from pipelines.transforms.sample import (
    SentenceBlock,
    load_sample,
    rows_by_value,
    sample_digest,
)

_LEFT = "left"
_LEFT_PART = "part-left"
_LANE_ROWS = 1 << 18
"""Sampled sentences of a lane that are held at a time: with texts of 100 bytes, 30 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPart:
    """Pairs of one language in one Parquet file.

    Attributes:
        language: Their language.
        name: Name of the file, without its suffix.
        rows: Number of pairs.
        same_host: How many of them have both sentences from one host.
        words: Number of sentences by number of words, as blanks separate them.
        characters: Number of sentences by tens of characters.
    """

    language: str
    name: str
    rows: int
    same_host: int
    words: Mapping[int, int]
    characters: Mapping[int, int]

    @classmethod
    def of(cls, language: str, name: str, pairs: pa.Table) -> "PairPart":
        """Describe pairs of `PAIR_SCHEMA`."""
        texts = pa.chunked_array([*pairs["candidate"].chunks, *pairs["reference"].chunks])
        words = pc.list_value_length(pc.utf8_split_whitespace(texts)).to_numpy()
        characters = pc.utf8_length(texts).to_numpy() // 10 * 10
        return cls(
            language=language,
            name=name,
            rows=len(pairs),
            same_host=int(pc.sum(pairs["same_host"]).as_py() or 0),
            words=_histogram(words),
            characters=_histogram(characters),
        )

    @classmethod
    def from_plain(cls, fields: dict[str, Any]) -> "PairPart":
        """Make it from plain values, as JSON keeps them."""
        counts = {
            name: {int(key): value for key, value in fields[name].items()}
            for name in ("words", "characters")
        }
        return cls(**fields | counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingPlan:
    """What decides a language's pairs.

    Attributes:
        sample: Digest of its sample.
        bits: Leading bits of the pairing hash that name a part.
    """

    sample: str
    bits: int


@dataclass
class PairSentences(beam.PTransform):
    """Lanes of blocks of sentences -> languages whose pairs, and then their record, are written.

    The blocks of a lane are of one language; see `lanes_of`. The text crosses one shuffle, by the
    leading bits of the pairing hash: pairing brings sentences of different files together.

    Attributes:
        output: Folder of the run, which holds the samples.
        seed: Seed of the pairing.
        plans: What decides the pairs, by language.
        lock: What must be held to write; None leaves that unchecked.
    """

    output: str
    seed: int
    plans: dict[str, PairingPlan]
    lock: RunLock | None = None

    def expand(self, lanes: beam.PCollection[tuple[SentenceBlock, ...]]) -> beam.PCollection[str]:
        """Deal the sampled sentences out to parts, pair them there, then those left over."""
        write = partial(_write, output=self.output, lock=self.lock)
        paired = (
            lanes
            | "SpreadLanes" >> beam.Reshuffle()
            # ((language, part), sentences)
            | "ReadSampled"
            >> beam.FlatMap(_read_sampled, output=self.output, seed=self.seed, plans=self.plans)
            | "GroupByPart" >> beam.GroupByKey()
            | "PairPart"
            >> beam.FlatMapTuple(partial(_pair_part, write=write)).with_outputs(_LEFT, main="parts")
        )
        left = (
            paired[_LEFT]
            | "GroupLeft" >> beam.GroupByKey()
            | "PairLeft" >> beam.FlatMapTuple(partial(_pair_left, write=write))
        )
        return (
            (paired.parts, left)
            | "Flatten" >> beam.Flatten()
            | "ByLanguage" >> beam.Map(lambda part: (part.language, part))
            | "GroupByLanguage" >> beam.GroupByKey()
            | "WriteRecord"
            >> beam.MapTuple(
                partial(_write_record, output=self.output, plans=self.plans, lock=self.lock)
            )
        )


def _read_sampled(
    lane: tuple[SentenceBlock, ...], *, output: str, seed: int, plans: dict[str, PairingPlan]
) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    if not lane:
        return
    language = lane[0].language
    plan = plans[language]
    sample = _sample(join(output, layout.sample_path(language)), plan.sample)
    read: list[pa.Table] = []
    for block in lane:
        with open_source(block.path) as source:
            table = pq.read_table(source)
        table = table.filter(pa.array(is_sampled(table["priority"].to_numpy(), sample)))
        texts = table["text"].to_pylist()
        order = np.array([pairing_order(seed, language, text) for text in texts], dtype=np.uint64)
        columns = [table["text"], pa.array(order), table["host"]]
        read.append(pa.table(columns, schema=SENTENCE_SCHEMA))
        if sum(map(len, read)) >= _LANE_ROWS:
            yield from _by_part(language, pa.concat_tables(read), plan.bits)
            read = []
    if read:
        yield from _by_part(language, pa.concat_tables(read), plan.bits)


def _by_part(
    language: str, sentences: pa.Table, bits: int
) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Deal sentences out to the parts that they are paired in."""
    sentences = sentences.combine_chunks()
    for place, rows in rows_by_value(leading_bits(sentences["order"].to_numpy(), bits)):
        # Rows that are taken are copied; a slice would be sent with everything around it.
        yield (language, place), sentences.take(pa.array(rows))


@lru_cache(maxsize=2)
def _sample(path: str, digest: str) -> Hashes:
    """Load a sample, once for all lanes of a language that come in a row.

    Raises:
        InputError: it is another one than planned for.
    """
    sample = load_sample(path)
    found = sample_digest(sample)
    if found != digest:
        raise InputError(
            f"the sample {mask_credentials(path)!r} has changed: got {found}; expected {digest}. "
            "Let one run at a time use the output folder, and run the same command again."
        )
    return sample


def _pair_part(key: tuple[str, int], tables: Iterable[pa.Table], *, write: Any) -> Iterator[Any]:
    language, place = key
    pairs, left = pair_neighbours(pa.concat_tables(tables))
    if len(pairs):
        yield write(language, f"part-{place:05d}", pairs)
    if len(left):
        yield TaggedOutput(_LEFT, (language, left))


def _pair_left(language: str, tables: Iterable[pa.Table], *, write: Any) -> Iterator[PairPart]:
    pairs, _ = pair_neighbours(pa.concat_tables(tables))
    if len(pairs):
        yield write(language, _LEFT_PART, pairs)


def _write(
    language: str, name: str, pairs: pa.Table, *, output: str, lock: RunLock | None
) -> PairPart:
    check_held(lock)
    write_atomically(join(output, layout.pairs_path(language, name)), write_part(pairs))
    metrics.count(metrics.PAIRS_MADE, len(pairs))
    return PairPart.of(language, name, pairs)


def _histogram(values: npt.NDArray[np.integer]) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _write_record(
    language: str,
    parts: Iterable[PairPart],
    *,
    output: str,
    plans: dict[str, PairingPlan],
    lock: RunLock | None,
) -> str:
    """Write what the pairs of a language are, once all of them are written."""
    check_held(lock)
    record = {
        "language": language,
        "sample": plans[language].sample,
        "parts": [asdict(part) for part in sorted(parts, key=lambda part: part.name)],
    }
    path = join(output, layout.pairs_record_path(language))
    write_atomically(path, json.dumps(record, indent=1).encode())
    return language
