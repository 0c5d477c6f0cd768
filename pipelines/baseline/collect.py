"""Read as many files as every language needs, and take its sample."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam

from bertscore_core.errors import SignatureError
from pipelines import manifest
from pipelines.baseline import layout
from pipelines.baseline.prepare import (
    BaselineJob,
    SourceFiles,
    is_crawl,
    lanes,
    masked_source,
    source_files,
)
from pipelines.baseline.stage import Run, Stage
from pipelines.commoncrawl.errors import CrawlFileError
from pipelines.io.files import (
    delete,
    join,
    list_files,
    read_bytes,
    read_many,
    write_atomically,
)
from pipelines.lock import RunLock
from pipelines.transforms.sample import (
    SentenceBlock,
    TakeSample,
    lanes_of,
    load_sample,
    sample_digest,
)
from pipelines.transforms.sentences import ExtractSentences, ExtractSettings, SentenceFile

_MARGIN = 1.1
"""How many more files are read than the yield of those before says."""
_SHOWN = 5
"""Failed files that an error names."""


class TooManyFilesFailedError(RuntimeError):
    """More files could not be read than the job may do without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """What was taken from one file for one language.

    Attributes:
        file: Its name.
        bytes: Its size as it was fetched.
        sha256: Digest of its content.
        rows: Sentences kept.
        blocks: Files that hold them.
    """

    file: str
    bytes: int
    sha256: str
    rows: int
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """The sample of one language.

    Attributes:
        language: Its language.
        wanted: Sentences that were wanted.
        found: Sentences that it has.
        host_cap: Most sentences of a host.
        first_files: Files that were read first.
        max_files: Most files that might be read.
        listed: Files of the source.
        listing: Digest of their names.
        digest: Digest of the sample.
        files: What was read.
        failed: What could not be read, and why.
        counts: What became of pages and sentences in all files.
        retries: Failed attempts to fetch a file that was read in the end.
    """

    language: str
    wanted: int
    found: int
    host_cap: int
    first_files: int
    max_files: int
    listed: int
    listing: str
    digest: str
    files: tuple[FileRecord, ...]
    failed: tuple[Mapping[str, str], ...]
    counts: Mapping[str, int]
    retries: int

    @classmethod
    def from_json(cls, data: bytes) -> "SampleRecord":
        """Read what `to_json` wrote."""
        fields = json.loads(data)
        fields["files"] = tuple(FileRecord(**file) for file in fields["files"])
        fields["failed"] = tuple(fields["failed"])
        return cls(**fields)

    def to_json(self) -> bytes:
        """Return the record's file."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1).encode()

    def fits(self, job: BaselineJob) -> bool:
        """Tell whether a job would take the same sample; files that failed are tried again."""
        options = job.options
        same = (self.wanted, self.host_cap, self.first_files) == (
            2 * options.pairs,
            options.sentences_per_host,
            options.first_files,
        )
        read = len(self.files)
        enough = self.found == self.wanted or read == self.listed
        bounded = bool(options.sentences) or read <= options.max_files
        return (
            same and not self.failed and bounded and (enough or self.max_files == options.max_files)
        )

    def blocks(self, output: str) -> list[SentenceBlock]:
        """Return the files with the sentences it was taken from."""
        return [
            block
            for file in self.files
            for block in _blocks(output, self.language, file.file, file.blocks)
        ]


def collect_samples(
    job: BaselineJob, run: Run, say: Callable[[str], None], lock: RunLock | None = None
) -> dict[str, SampleRecord]:
    """Take the sample of every language, from as many files as that needs.

    A language's first files are read, and as many more as their yield says, until its sample is
    full, or the files or `max_files` end. How many depends on that language and its files alone,
    so a language that is added later gets the sample it would have got at once.

    Raises:
        TooManyFilesFailedError: too many files could not be read.
        SignatureError: the source holds other files than when the folder was begun.
    """
    samples = {code: found for code in job.languages if (found := _find_sample(job, code))}
    missing = [code for code in job.languages if code not in samples]
    if not missing and is_crawl(job):  # whose files never change
        return samples
    sources = source_files(job)
    _check_same_files(job, sources)
    limits = {code: _limit(job, sources[code]) for code in missing}
    reading = {
        code: limits[code] if sources[code].at_once else min(job.options.first_files, limits[code])
        for code in missing
    }
    while reading:
        _extract(job, sources, reading, run, lock)
        _take(job, sources, reading, run, lock)
        following = {}
        for code, number in reading.items():
            record = _record(job, code, sources[code], number)
            # Only the last one is kept: killed before, a run goes the same way again, in a moment.
            if record.found < record.wanted and number < limits[code]:
                following[code] = _next_number(job, record, number, limits[code])
                say(
                    f"{code}: {record.found:,} of {record.wanted:,} sentences in {number} files; "
                    f"going on to {following[code]}."
                )
            else:
                path = join(job.output, layout.sample_record_path(code))
                write_atomically(path, record.to_json())
                samples[code] = record
        reading = following
    return samples


def _find_sample(job: BaselineJob, language: str) -> SampleRecord | None:
    """Return the sample that is there already, if it is whole and what this job would take."""
    try:
        record = SampleRecord.from_json(
            read_bytes(join(job.output, layout.sample_record_path(language)))
        )
        if not record.fits(job):
            return None
        if record.found == 0:
            return record
        sample = load_sample(join(job.output, layout.sample_path(language)))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return record if sample_digest(sample) == record.digest else None


def _check_same_files(job: BaselineJob, sources: Mapping[str, SourceFiles]) -> None:
    """Hold the listing against that of the run which began the folder, by language."""
    digests = {code: files.digest for code, files in sources.items()}
    run = manifest.read_run(job.output) or {}
    before = run.get("files", {})
    changed = [code for code in digests if before.get(code, digests[code]) != digests[code]]
    if changed:
        raise SignatureError(
            f"the source holds other files than when this output was begun: got another listing of "
            f"{masked_source(job)} for {', '.join(changed)}; expected the same. Choose another "
            "--output, or use --overwrite to start afresh."
        )
    run["files"] = before | digests
    text = json.dumps(run, indent=2, ensure_ascii=False)
    write_atomically(join(job.output, layout.RUN_FILE), text.encode())


def _limit(job: BaselineJob, files: SourceFiles) -> int:
    """Return how many files a language may have at most."""
    return len(files.names) if files.at_once else min(len(files.names), job.options.max_files)


def _next_number(job: BaselineJob, record: SampleRecord, number: int, limit: int) -> int:
    """Return how many files to read in all, from what those before gave."""
    step = number + job.options.first_files
    if not record.found:
        step = max(step, 2 * number)
    else:
        step = max(step, math.ceil(number * record.wanted / record.found * _MARGIN))
    return min(step, limit)


def _extract(
    job: BaselineJob,
    sources: Mapping[str, SourceFiles],
    reading: Mapping[str, int],
    run: Run,
    lock: RunLock | None,
) -> None:
    """Read the files that languages lack; one that several lack is read once."""
    given = bool(job.options.sentences)
    lacking: dict[tuple[str, str], list[str]] = {}
    for code, number in reading.items():
        there = _recorded(job, code)
        for name in sources[code].names[:number]:
            if name not in there:
                # Pages hold many languages and are read once; given sentences are of one.
                lacking.setdefault((code if given else "", name), []).append(code)
    if not lacking:
        return
    files = [
        SentenceFile(
            name=name, path=sources[codes[0]].paths[name], languages=tuple(codes), given=given
        )
        for (_, name), codes in lacking.items()
    ]
    settings = ExtractSettings(
        output=job.output,
        seed=job.options.seed,
        page_cap=job.options.sentences_per_page,
        policy=job.policy,
        lock=lock,
    )
    run(
        Stage(
            words=f"Reading {len(files):,} files for {', '.join(reading)}",
            build=lambda root: root | beam.Create(lanes(job, files)) | ExtractSentences(settings),
            folder=layout.SENTENCES_FOLDER,
            amounts={f"{max(file.languages)}/{file.name}.json": 1 for file in files},
        )
    )
    recorded = {code: _recorded(job, code) for code in reading}
    failed = [
        file for file in files if not all(file.name in recorded[code] for code in file.languages)
    ]
    asked = {
        (code if given else "", name)
        for code, number in reading.items()
        for name in sources[code].names[:number]
    }
    if len(failed) > job.options.max_reject_fraction * len(asked):
        notes = _failures(job, [file.label for file in failed])
        raise TooManyFilesFailedError(
            f"{len(failed)} of {len(asked)} files could not be read, more than "
            f"--max-reject-fraction {job.options.max_reject_fraction:g} allows:\n"
            + "\n".join(f"  {note['file']}: {note['reason']}" for note in notes[:_SHOWN])
            + "\n"
            + _advice(job, notes)
        )


def _advice(job: BaselineJob, notes: Sequence[Mapping[str, str]]) -> str:
    """Say what helps against files that could not be read."""
    damaged = all(note["reason"].startswith(CrawlFileError.__name__) for note in notes)
    if damaged and not is_crawl(job):
        return (
            "To try again is of no use: mend these files or leave them out. If others were read, "
            "add --overwrite then, or choose another --output."
        )
    return "Run the same command again to try them again; the others are not read again."


def _recorded(job: BaselineJob, language: str) -> set[str]:
    """Return the names of the files whose sentences in a language are there."""
    folder = join(job.output, f"{layout.SENTENCES_FOLDER}/{language}")
    return {name.removesuffix(".json") for name in list_files(folder, suffix=".json")}


def _failures(job: BaselineJob, names: Sequence[str]) -> list[dict[str, str]]:
    """Return what is noted of files that could not be read."""
    notes = read_many([join(job.output, layout.failed_path(name)) for name in names])
    unknown = "it was never read to its end"
    return [
        {"file": name, "reason": unknown if note is None else json.loads(note)["reason"]}
        for name, note in zip(names, notes, strict=True)
    ]


def _take(
    job: BaselineJob,
    sources: Mapping[str, SourceFiles],
    reading: Mapping[str, int],
    run: Run,
    lock: RunLock | None,
) -> None:
    """Take the samples of languages from the files read so far."""
    blocks = []
    for code, number in reading.items():
        delete(join(job.output, layout.sample_record_path(code)))
        delete(join(job.output, layout.sample_path(code)))
        for record in _file_records(job, code, sources[code].names[:number]):
            blocks += _blocks(job.output, code, record["file"], record["blocks"])
    take = TakeSample(
        output=job.output,
        count=2 * job.options.pairs,
        host_cap=job.options.sentences_per_host,
        lock=lock,
    )
    run(
        Stage(
            words=f"Sampling sentences of {', '.join(reading)}",
            build=lambda root: root | beam.Create(lanes_of(blocks)) | take,
        )
    )


def _blocks(output: str, language: str, name: str, number: int) -> list[SentenceBlock]:
    """Return the files that hold the sentences of a file and language."""
    return [
        SentenceBlock(
            language=language, path=join(output, layout.sentences_path(language, name, block))
        )
        for block in range(number)
    ]


def _file_records(job: BaselineJob, language: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records of files, in order of their names; of one that failed there is none."""
    paths = [join(job.output, layout.record_path(language, name)) for name in sorted(names)]
    return [json.loads(data) for data in read_many(paths) if data is not None]


def _record(job: BaselineJob, language: str, files: SourceFiles, number: int) -> SampleRecord:
    """Say what the sample of a language is and what it comes from."""
    names = files.names[:number]
    records = _file_records(job, language, names)
    there = {record["file"] for record in records}
    try:
        sample = load_sample(join(job.output, layout.sample_path(language)))
    except FileNotFoundError:  # nothing was found of this language
        sample = None
    prefix = f"{language}/" if job.options.sentences else ""
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record["counts"])
    return SampleRecord(
        language=language,
        wanted=2 * job.options.pairs,
        found=0 if sample is None else len(sample),
        host_cap=job.options.sentences_per_host,
        first_files=job.options.first_files,
        max_files=job.options.max_files,
        listed=len(files.names),
        listing=files.digest,
        digest="" if sample is None else sample_digest(sample),
        files=tuple(
            FileRecord(**{field: record[field] for field in FileRecord.__dataclass_fields__})
            for record in records
        ),
        failed=tuple(
            _failures(job, [prefix + name for name in sorted(names) if name not in there])
        ),
        counts=dict(sorted(counts.items())),
        retries=sum(len(record["retries"]) for record in records),
    )
