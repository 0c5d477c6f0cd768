"""Sample the sentences of every language, and pair them at random.

Hosts are capped, then the lowest priorities are taken. The two use different hashes: the
cap limits which sentences can be sampled, and does not affect which of them a small sample has; see
`crawl.sampling`. Both are exact combines, so a sample does not depend on workers, order or retries.
The pairs are Parquet files that every model scores.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.baseline import sources
from bertscore_beam.baseline.baseline_options import BaselineOptions
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
from bertscore_beam.run.job import Run
from bertscore_beam.run.phases import Phase, collected, given
from bertscore_beam.run.pool import Each
from bertscore_beam.run.progress import Expected
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


def lane_name(lane: Lane) -> str:
    """Return the name that people know a lane by."""
    language, paths = lane
    return f"{language}: {paths[0]}"


def sample_phases(
    folder: OutputFolder, options: BaselineOptions, lanes: Sequence[Lane] = ()
) -> tuple[Phase, ...]:
    """Return the phases that take samples from files of sentences.

    The hosts are capped in buckets; what is kept is merged by language, and written. Only hashes
    cross from phase to phase: 24 bytes a sentence, and 8 once the hosts are capped.
    """
    read = Each(partial(_read_hashes, folder=folder), lane_name)
    cap = partial(cap_hosts, cap=options.sentences_per_host)
    take = partial(lowest, count=2 * options.pairs)
    return (
        # By language and bucket of hosts.
        Phase(name="CapHosts", items=given(lanes), step=read, fold=cap, by_key=True),
        # By language: only the lowest of each bucket can be among the lowest of all.
        Phase(name="TakeLowest", items=partial(_drop_hosts, take), fold=take, by_key=True),
        Phase(name="WriteSamples", items=partial(_write_sample, folder)),
    )


def _drop_hosts(
    take: Callable[[Iterable[Hashes]], Hashes], capped: tuple[tuple[str, int], pa.Table]
) -> Iterator[list[tuple[str, Hashes]]]:
    (language, _), hashes = capped
    yield [(language, take([hashes["priority"].to_numpy()]))]


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


def _read_hashes(
    lane: Lane, *, folder: OutputFolder
) -> Iterator[list[tuple[tuple[str, int], pa.Table]]]:
    for table in _gathered(_read_lane(lane, folder, HASH_SCHEMA.names), _LANE_HASHES):
        hashes = hashes_of(table)
        buckets = rows_by_value(hashes["host"].to_numpy() % np.uint64(_HOST_BUCKETS))
        yield [((lane[0], bucket), hashes.take(pa.array(rows))) for bucket, rows in buckets]


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


def _write_sample(folder: OutputFolder, taken: tuple[str, Hashes]) -> tuple[()]:
    language, sample = taken
    sink = io.BytesIO()
    np.save(sink, sample.astype("<u8"), allow_pickle=False)
    folder.write(sources.sample_path(language), sink.getvalue())
    return ()


# Pair the sampled sentences at random.

_LEFT = "part-left"
_LANE_TEXTS = 1 << 18
"""Sampled sentences of a lane in memory at a time: with texts of 100 bytes, 30 MB."""


def make_pairs(
    job: BaselineJob, run: Run, samples: Mapping[str, sources.SampleRecord]
) -> dict[str, sources.PairsRecord]:
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
        lanes = [lane for one in paths for lane in lanes_of(*one)]
        digests = {sample.language: sample.digest for sample in together}
        expected = Expected(message=f"Pairing sentences of {', '.join(digests)}")
        run.do(pair_phases(folder, job.options.seed, digests, lanes), expected)
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


def pair_phases(
    folder: OutputFolder, seed: int, samples: Mapping[str, str], lanes: Sequence[Lane] = ()
) -> tuple[Phase, ...]:
    """Return the phases that pair the sentences of samples, and then write the records.

    They are paired in parts, and those left over there at last. The text crosses once, by the
    leading bits of the pairing hash: pairing brings sentences of different files together.

    Args:
        folder: The output folder.
        seed: That of the pairing order.
        samples: The digest of each language's sample.
        lanes: The files with sentences of these languages.
    """
    read = Each(partial(_read_sampled, folder=folder, seed=seed, samples=samples), lane_name)
    pair = Each(partial(_pair_in_part, folder=folder), _part_name)
    return (
        # By language and name of a part: sentences.
        Phase(name="ReadSampled", items=given(lanes), step=read, fold=collected, by_key=True),
        # By language: a PairPart, or the sentence left over, of every part.
        Phase(name="PairParts", items=_alone, step=pair, fold=collected, by_key=True),
        Phase(name="WriteRecords", items=partial(_write_record, folder, samples)),
    )


def _alone(part: Any) -> tuple[Any]:
    return (part,)


def _part_name(part: tuple[tuple[str, str], list[pa.Table]]) -> str:
    return "/".join(part[0])


def _read_sampled(
    lane: Lane, *, folder: OutputFolder, seed: int, samples: Mapping[str, str]
) -> Iterator[list[tuple[tuple[str, str], list[pa.Table]]]]:
    language = lane[0]
    sample = _planned_sample(folder, language, samples[language])
    bits = part_bits(len(sample) // 2)
    tables = _read_lane(lane, folder, ("text", "priority", "host"))
    sampled = (_sampled(table, sample, seed, language) for table in tables)
    for sentences in _gathered(sampled, _LANE_TEXTS):
        places = rows_by_value(bucket_of(sentences["order"].to_numpy(), bits))
        # Rows that are taken are copied; a slice would be sent with everything around it.
        yield [
            ((language, f"part-{place:05d}"), [sentences.take(pa.array(rows))])
            for place, rows in places
        ]


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


def _pair_in_part(
    part: tuple[tuple[str, str], list[pa.Table]], *, folder: OutputFolder
) -> Iterator[list[tuple[str, list[Any]]]]:
    (language, name), tables = part
    pairs, left = pair_neighbours(pa.concat_tables(tables))
    parts = [_write_pairs(language, name, pairs, folder)] if len(pairs) else []
    yield [(language, [*parts, *([left] if len(left) else [])])]


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
    folder: OutputFolder, samples: Mapping[str, str], paired: tuple[str, list[Any]]
) -> tuple[()]:
    """Pair the sentences that parts have left over, and write the record of all parts."""
    language, found = paired
    parts = [one for one in found if isinstance(one, sources.PairPart)]
    if left := [one for one in found if isinstance(one, pa.Table)]:
        pairs, _ = pair_neighbours(pa.concat_tables(left))
        if len(pairs):
            parts.append(_write_pairs(language, _LEFT, pairs, folder))
    in_order = tuple(sorted(parts, key=lambda part: part.name))
    record = sources.PairsRecord(language=language, sample=samples[language], parts=in_order)
    sources.write_record(folder, sources.pairs_record_path(language), record)
    return ()
