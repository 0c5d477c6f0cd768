"""Sample the sentences of every language, and pair them at random.

Hosts are capped, then the lowest priorities are taken. The two use different hashes: the
cap limits which sentences can be sampled, and does not affect which of them a small sample has; see
`crawl.sampling`. A worker does all of this for a language: of two million sentences it holds the
hashes, 24 bytes each, and then the texts. The pairs are Parquet files that every model scores.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.baseline.extract import read_rows
from bertscore_beam.baseline.sources import PairPart, PairsRecord, read_pairs, write_record
from bertscore_beam.crawl.sampling import (
    HASH_SCHEMA,
    SENTENCE_SCHEMA,
    Hashes,
    cap_hosts,
    count_overlap,
    hashes_of,
    is_sampled,
    lowest,
    pair_neighbours,
    pairing_order,
    part_bits,
)
from bertscore_beam.dump.parquet import seal_in, write_part
from bertscore_beam.files.buckets import bucket_of, rows_by_value
from bertscore_beam.files.checked import digest_of
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.phases import Phase, collected, given
from bertscore_beam.run.pool import Each

_LEFT = "part-left"

Drawing = tuple[PairsRecord, tuple[str, ...]]
"""What is known of a sample before it is taken, and the paths of the files with its sentences."""


def pair_phases(
    folder: OutputFolder, seed: int, drawings: Sequence[Drawing] = ()
) -> tuple[Phase, ...]:
    """Return the phases that sample and pair the sentences of languages, and write the records.

    No text crosses from phase to phase. How much the pairs overlap is counted by part, since that
    takes longer than all else.
    """
    draw = Each(partial(_draw, folder=folder, seed=seed), _language_of)
    count = Each(partial(_with_overlap, folder=folder), _name_of)
    return (
        # The record of each language, and the parts of its pairs.
        Phase(name="DrawPairs", items=given(drawings), step=draw, fold=collected),
        Phase(name="CountOverlap", items=iter, step=count, fold=collected, by_key=True),
        Phase(name="WriteRecords", items=partial(_write_record, folder)),
    )


def _language_of(drawing: Drawing) -> str:
    return drawing[0].language


def _name_of(found: PairsRecord | PairPart) -> str:
    return found.path if isinstance(found, PairPart) else found.language


def sample_digest(sample: Hashes) -> str:
    """Return the digest of a sample: 16 hexadecimal digits, and nothing of an empty one."""
    return digest_of(sample.astype("<u8").tobytes(), 16) if len(sample) else ""


def _draw(
    drawing: Drawing, *, folder: OutputFolder, seed: int
) -> Iterator[list[PairsRecord | PairPart]]:
    """Take a sample and pair it, in parts, and those left over there at last."""
    asked, paths = drawing
    language = asked.language

    def read(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (table for path in paths for table in read_rows(folder, path, language, columns))

    capped = cap_hosts(map(hashes_of, read(HASH_SCHEMA.names)), asked.host_cap)
    sample = lowest(capped["priority"].to_numpy(), asked.wanted)
    record = replace(asked, found=len(sample), sample=sample_digest(sample))
    yield [record]
    if record.is_done:
        tables = read(("text", "priority", "host"))
        sentences = _joined(_sampled(table, sample, seed, language) for table in tables)
        for name, pairs in _paired(sentences, part_bits(len(sample) // 2)):
            yield [_write_pairs(language, name, pairs, folder)]


def _sampled(table: pa.Table, sample: Hashes, seed: int, language: str) -> pa.Table:
    table = table.filter(pa.array(is_sampled(table["priority"].to_numpy(), sample)))
    order = [pairing_order(seed, language, text) for text in table["text"].to_pylist()]
    columns = [table["text"], pa.array(order, pa.uint64()), table["host"]]
    return pa.table(columns, schema=SENTENCE_SCHEMA)


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([SENTENCE_SCHEMA.empty_table(), *tables]).combine_chunks()


def _paired(sentences: pa.Table, bits: int) -> Iterator[tuple[str, pa.Table]]:
    left = []
    for place, rows in rows_by_value(bucket_of(sentences["order"].to_numpy(), bits)):
        pairs, odd = pair_neighbours(sentences.take(pa.array(rows)))
        left.append(odd)
        if len(pairs):
            yield f"part-{place:05d}", pairs
    pairs, _ = pair_neighbours(_joined(left))
    if len(pairs):
        yield _LEFT, pairs


def _write_pairs(language: str, name: str, pairs: pa.Table, folder: OutputFolder) -> PairPart:
    data = write_part(pairs)
    part = PairPart(
        language=language,
        name=name,
        rows=len(pairs),
        same_host=int(pc.sum(pairs["same_host"]).as_py() or 0),
        seal=seal_in(data),
    )
    folder.write(part.path, data)
    counters.count(counters.PAIRS_MADE, len(pairs))
    return part


def _with_overlap(
    found: PairsRecord | PairPart, *, folder: OutputFolder
) -> Iterator[list[tuple[str, list[PairsRecord | PairPart]]]]:
    if isinstance(found, PairPart):
        pairs = read_pairs(folder, found.path, found.seal)
        candidates, references = (pairs[side].to_pylist() for side in ("candidate", "reference"))
        found = replace(found, overlap=count_overlap(candidates, references, found.language))
    yield [(found.language, [found])]


def _write_record(folder: OutputFolder, drawn: tuple[str, list[Any]]) -> tuple[()]:
    parts = [one for one in drawn[1] if isinstance(one, PairPart)]
    (record,) = (one for one in drawn[1] if isinstance(one, PairsRecord))
    in_order = sorted(parts, key=lambda part: part.name)
    write_record(folder, replace(record, parts=tuple(in_order)))
    return ()
