"""Sample the sentences of every language, and pair them at random.

Hosts are capped, then the lowest priorities are taken. The two use different hashes: the
cap limits which sentences can be sampled, and does not affect which of them a small sample has; see
`crawl.sampling`. Both are exact combines, so a sample does not depend on workers, order or retries.
The pairs are Parquet files that every model scores.
"""

import io
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput

from bertscore_beam.baseline import sources
from bertscore_beam.baseline.baseline_plan import BaselineJob
from bertscore_beam.baseline.extract import read_rows
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
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.files.buckets import bucket_of, rows_by_value
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.progress import Stage
from bertscore_core.errors import InputError

_HOST_BUCKETS = 16
"""Buckets for the hosts of a language, so that no worker gets all of them."""
_LANE_FILES = 16
_LANE_HASHES = 1 << 20
"""Sentences of a lane in memory at a time: 25 MB of hashes."""

Lane = tuple[str, tuple[str, ...]]
"""A language, and paths of files with sentences in it, which are read one after the other. A file
often holds a few rows for one key of a shuffle, and each key costs a record there."""


def lanes_of(language: str, paths: Sequence[str]) -> list[Lane]:
    """Divide files with sentences of a language into lanes."""
    starts = range(0, len(paths), _LANE_FILES)
    return [(language, tuple(paths[start : start + _LANE_FILES])) for start in starts]


def sample_stage(
    job: BaselineJob, lanes: Sequence[Lane] = (), languages: Sequence[str] = ()
) -> Stage:
    """Return the stage that takes samples from files of sentences.

    The hosts are capped in buckets; what is kept is merged by language, and written. Only hashes
    cross a stage: 24 bytes a sentence, and 8 once the hosts are capped.
    """
    folder, options = job.folder, job.options

    def build(root: beam.Pipeline) -> None:
        cap = partial(cap_hosts, cap=options.sentences_per_host)
        take = partial(lowest, count=2 * options.pairs)
        _ = (
            root
            | beam.Create(lanes)
            | "SpreadLanes" >> beam.Reshuffle()
            # ((language, bucket of hosts), hashes)
            | "ReadHashes" >> beam.FlatMap(_read_hashes, folder)
            | "CapHosts" >> beam.CombinePerKey(cap)
            # (language, priorities): only the lowest of each bucket can be among the lowest of all.
            | "DropHosts"
            >> beam.MapTuple(lambda key, hashes: (key[0], take([hashes["priority"].to_numpy()])))
            | "TakeLowest" >> beam.CombinePerKey(take)
            | "WriteSample" >> beam.MapTuple(partial(_write_sample, folder=folder))
        )

    return Stage(
        name="sample",
        runner=job.plan.runner,
        build=build,
        message=f"Sampling sentences of {', '.join(languages)}",
    )


def sample_digest(sample: Hashes) -> str:
    """Return the digest of a sample: 16 hexadecimal digits, and nothing of an empty one."""
    return digest_of(sample.astype("<u8").tobytes(), 16) if len(sample) else ""


def read_sample(folder: OutputFolder, language: str) -> Hashes:
    """Read the priorities of a language's sample, ascending; none where there is no file."""
    data = folder.read_if_there(sources.sample_path(language))
    if data is None:
        return lowest([])
    sample: Hashes = np.load(io.BytesIO(data), allow_pickle=False)
    return sample.astype(np.uint64)


def _read_hashes(lane: Lane, folder: OutputFolder) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    for table in _gathered(_read_lane(lane, folder, HASH_SCHEMA.names), _LANE_HASHES):
        hashes = hashes_of(table)
        for bucket, rows in rows_by_value(hashes["host"].to_numpy() % np.uint64(_HOST_BUCKETS)):
            yield (lane[0], bucket), hashes.take(pa.array(rows))


def _read_lane(lane: Lane, folder: OutputFolder, columns: Sequence[str]) -> Iterator[pa.Table]:
    language, paths = lane
    return chain.from_iterable(read_rows(folder, path, language, columns) for path in paths)


def _gathered(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Put tables together until they have this many rows or more."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= rows:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _write_sample(language: str, sample: Hashes, *, folder: OutputFolder) -> None:
    sink = io.BytesIO()
    np.save(sink, sample.astype("<u8"), allow_pickle=False)
    folder.write(sources.sample_path(language), sink.getvalue())


# Pair the sampled sentences at random.

_LEFT = "left"
_LANE_TEXTS = 1 << 18
"""Sampled sentences of a lane in memory at a time: with texts of 100 bytes, 30 MB."""


def make_pairs(
    job: BaselineJob, samples: Mapping[str, sources.SampleRecord]
) -> Generator[Stage, None, dict[str, sources.PairsRecord]]:
    """Pair the sample of every language that has one; pairs that are there are kept.

    A service gets one job for all languages, since each takes minutes to start. The runner of this
    machine holds what it shuffles in memory, and so gets one language at a time.
    """
    folder = job.folder
    pairs = {code: _find_pairs(folder, sample) for code, sample in samples.items()}
    lacking = [one for one in samples.values() if pairs[one.language] is None and one.found >= 2]
    at_once = 1 if job.plan.runner.is_local else len(lacking) or 1
    for start in range(0, len(lacking), at_once):
        together = lacking[start : start + at_once]
        for code in (sample.language for sample in together):
            old = folder.files(f"{sources.PAIRS_FOLDER}/{code}")
            # First the record, without which the parts count for nothing.
            folder.delete(sources.pairs_record_path(code))
            folder.delete(*(f"{sources.PAIRS_FOLDER}/{code}/{name}" for name in old))
        paths = ((sample.language, _paths_of(job, sample)) for sample in together)
        yield pair_stage(job, together, [lane for one in paths for lane in lanes_of(*one)])
        for code in (sample.language for sample in together):
            record = sources.read_record(folder, sources.pairs_record_path(code))
            pairs[code] = sources.PairsRecord.of(record)
    return {code: record for code, record in pairs.items() if record is not None}


def _find_pairs(folder: OutputFolder, sample: sources.SampleRecord) -> sources.PairsRecord | None:
    fields = sources.read_record(folder, sources.pairs_record_path(sample.language))
    if not fields or fields["sample"] != sample.digest:
        return None
    return sources.PairsRecord.of(fields)


def _paths_of(job: BaselineJob, sample: sources.SampleRecord) -> list[str]:
    names = [str(file["file"]) for file in sample.files["files"]]
    gone = [name for name in names if not job.index.has(sample.language, name)]
    if gone:
        raise InputError(
            f"the sentences of {len(gone):,} files are gone, such as {gone[0]!r}: got a sample of "
            f"{sample.language} that was taken from them; expected them below "
            f"{sources.SENTENCES_FOLDER}/. Delete {sources.sample_record_path(sample.language)!r} "
            "and run the same command again: it reads these files once more."
        )
    return job.index.paths(sample.language, names)


def pair_stage(
    job: BaselineJob, samples: Sequence[sources.SampleRecord] = (), lanes: Sequence[Lane] = ()
) -> Stage:
    """Return the stage that pairs the sentences of samples, and then writes the records.

    They are paired in parts, and those left over there at last. The text crosses one shuffle, by
    the leading bits of the pairing hash: pairing brings sentences of different files together.
    """
    folder = job.folder
    digests = {sample.language: sample.digest for sample in samples}

    def build(root: beam.Pipeline) -> None:
        paired = (
            root
            | beam.Create(lanes)
            | "SpreadLanes" >> beam.Reshuffle()
            # ((language, name of a part), sentences)
            | "ReadSampled"
            >> beam.FlatMap(_read_sampled, folder=folder, seed=job.options.seed, samples=digests)
            | "GroupByPart" >> beam.GroupByKey()
            | "PairPart" >> beam.ParDo(_PairInPart(folder)).with_outputs(_LEFT, main="parts")
        )
        left = (
            paired[_LEFT]
            | "GroupLeft" >> beam.GroupByKey()
            | "PairLeft" >> beam.ParDo(_PairInPart(folder)).with_outputs(_LEFT, main="parts")
        )
        _ = (
            (paired.parts, left.parts)
            | "Flatten" >> beam.Flatten()
            | "ByLanguage" >> beam.Map(lambda part: (part.language, part))
            | "GroupByLanguage" >> beam.GroupByKey()
            | "WriteRecord" >> beam.MapTuple(partial(_write_record, folder=folder, samples=digests))
        )

    return Stage(
        name="pair",
        runner=job.plan.runner,
        build=build,
        message=f"Pairing sentences of {', '.join(digests)}",
    )


def _read_sampled(
    lane: Lane, *, folder: OutputFolder, seed: int, samples: dict[str, str]
) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    language = lane[0]
    sample = _planned_sample(folder, language, samples[language])
    bits = part_bits(len(sample) // 2)
    tables = _read_lane(lane, folder, ("text", "priority", "host"))
    sampled = (_sampled(table, sample, seed, language) for table in tables)
    for sentences in _gathered(sampled, _LANE_TEXTS):
        for place, rows in rows_by_value(bucket_of(sentences["order"].to_numpy(), bits)):
            # Rows that are taken are copied; a slice would be sent with everything around it.
            yield (language, f"part-{place:05d}"), sentences.take(pa.array(rows))


def _sampled(table: pa.Table, sample: Hashes, seed: int, language: str) -> pa.Table:
    table = table.filter(pa.array(is_sampled(table["priority"].to_numpy(), sample)))
    order = [pairing_order(seed, language, text) for text in table["text"].to_pylist()]
    columns = [table["text"], pa.array(order, pa.uint64()), table["host"]]
    return pa.table(columns, schema=SENTENCE_SCHEMA)


@lru_cache(maxsize=2)
def _planned_sample(folder: OutputFolder, language: str, digest: str) -> Hashes:
    sample = read_sample(folder, language)
    digest_now = sample_digest(sample)
    if digest_now != digest:
        path = mask_credentials(folder.path(sources.sample_path(language)))
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

    def process(self, part: tuple[tuple[str, str], Iterable[pa.Table]]) -> Iterator[Any]:
        (language, name), tables = part
        pairs, left = pair_neighbours(pa.concat_tables(tables))
        if len(pairs):
            yield _write_pairs(language, name, pairs, self._folder)
        if len(left):
            yield TaggedOutput(_LEFT, ((language, f"part-{_LEFT}"), left))


def _write_pairs(
    language: str, name: str, pairs: pa.Table, folder: OutputFolder
) -> sources.PairPart:
    data = write_part(pairs)
    folder.write(sources.pairs_path(language, name), data)
    counters.count(counters.PAIRS_MADE, len(pairs))
    candidates, references = (pairs[side].to_pylist() for side in ("candidate", "reference"))
    return sources.PairPart(
        language=language,
        name=name,
        rows=len(pairs),
        same_host=int(pc.sum(pairs["same_host"]).as_py() or 0),
        overlap=count_overlap(candidates, references, language),
        digest=digest_of(data),
    )


def _write_record(
    language: str,
    parts: Iterable[sources.PairPart],
    *,
    folder: OutputFolder,
    samples: dict[str, str],
) -> None:
    in_order = tuple(sorted(parts, key=lambda part: part.name))
    record = sources.PairsRecord(language=language, sample=samples[language], parts=in_order)
    sources.write_record(folder, sources.pairs_record_path(language), record)
