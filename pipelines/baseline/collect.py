"""Read as many files as every language needs, and take its sample."""

import json
import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from bertscore_core.errors import SignatureError
from pipelines.baseline import layout
from pipelines.baseline.extract import SentenceFile, read_stage
from pipelines.baseline.plan import BaselineJob
from pipelines.baseline.records import FileRecord, SampleRecord, blocks_of_file
from pipelines.baseline.sample import read_sample, sample_digest, sample_stage
from pipelines.baseline.source import SourceFiles
from pipelines.crawl.errors import CrawlFileError
from pipelines.run.folder import RUN_FILE, OutputFolder, read_run
from pipelines.run.stage import Stage

_MARGIN = 1.1
"""The yield of the files read so far says how many are needed; so many times as many are read,
since the next ones may yield less."""
_SHOWN = 5
"""Failed files that an error names."""


class TooManyFilesFailedError(RuntimeError):
    """More files could not be read than the job may do without."""


def collect_samples(job: BaselineJob) -> Generator[Stage, None, dict[str, SampleRecord]]:
    """Take the sample of every language, from as many files as that needs.

    A language's first files are read, then as many more as their yield says, until its sample is
    full, or no file is left, or `max_files` are read. The number depends on that language and its
    files alone, so a language that is added later gets the sample it would have got at once.

    Yields:
        What is left to do, until nothing is.

    Returns:
        The sample of each language.

    Raises:
        TooManyFilesFailedError: Too many files could not be read.
        SignatureError: The source holds other files than when the folder was begun.
    """
    source, options = job.plan.source, job.options
    samples = {code: found for code in source.languages if (found := _find_sample(job, code))}
    missing = [code for code in source.languages if code not in samples]
    if not missing and source.is_crawl:  # whose files never change
        return samples
    files = source.files()
    _check_same_files(job, files)
    limits = {code: _limit(job, files[code]) for code in missing}
    reading = {
        code: limits[code] if files[code].at_once else min(options.first_files, limits[code])
        for code in missing
    }
    while reading:
        yield from _read_files(job, files, reading)
        yield from _take_samples(job, files, reading)
        following = {}
        for code, number in reading.items():
            record = _record(job, code, files[code], number)
            # Only the last record is kept: a run that is killed before takes the same steps again,
            # which is quick, since the files are read already.
            if record.found < record.wanted and number < limits[code]:
                following[code] = _next_number(job, record, number, limits[code])
                job.say(
                    f"{code}: {record.found:,} of {record.wanted:,} sentences in {number} files; "
                    f"reading {following[code]} files in all."
                )
            else:
                job.folder.write(layout.sample_record_path(code), record.to_json())
                samples[code] = record
        reading = following
    return samples


def _find_sample(job: BaselineJob, language: str) -> SampleRecord | None:
    """Return the sample that is there already, if it is whole and what this job would take."""
    try:
        record = SampleRecord.from_json(job.folder.read(layout.sample_record_path(language)))
        if not record.fits(job.options):
            return None
        if record.found == 0:
            return record
        sample = read_sample(job.folder, language)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return record if sample_digest(sample) == record.digest else None


def _check_same_files(job: BaselineJob, files: Mapping[str, SourceFiles]) -> None:
    """Compare the listing with that of the run that began the folder, and note new languages."""
    digests = {code: of_language.digest for code, of_language in files.items()}
    run = read_run(job.folder) or {}
    before = run.get("files", {})
    changed = [code for code in digests if before.get(code, digests[code]) != digests[code]]
    if changed:
        raise SignatureError(
            "the source holds other files than when this output was begun: got another listing of "
            f"{job.plan.source.shown} for {', '.join(changed)}; expected the same. Choose another "
            "--output, or use --overwrite to start again."
        )
    job.folder.write_json(RUN_FILE, {**run, "files": before | digests})


def _limit(job: BaselineJob, files: SourceFiles) -> int:
    """Return how many files a language may have at most."""
    return len(files.names) if files.at_once else min(len(files.names), job.options.max_files)


def _next_number(job: BaselineJob, record: SampleRecord, number: int, limit: int) -> int:
    """Return how many files to read in all, from the yield of those that were read."""
    step = number + job.options.first_files
    if not record.found:
        step = max(step, 2 * number)
    else:
        step = max(step, math.ceil(number * record.wanted / record.found * _MARGIN))
    return min(step, limit)


def _read_files(
    job: BaselineJob, files: Mapping[str, SourceFiles], reading: Mapping[str, int]
) -> Generator[Stage, None, None]:
    """Read the files that languages lack; one that several lack is read once."""
    asked = _asked_files(job, files, reading)
    lacking = _lacking(job, asked)
    if not lacking:
        return
    yield read_stage(job, lacking, tuple(reading))
    recorded = {code: _recorded(job.folder, code) for code in reading}
    failed = [
        file for file in lacking if not all(file.name in recorded[code] for code in file.languages)
    ]
    if len(failed) > job.options.max_reject_fraction * len(asked):
        raise _too_many_failed(job, [file.label for file in failed], len(asked))


def _asked_files(
    job: BaselineJob, files: Mapping[str, SourceFiles], reading: Mapping[str, int]
) -> list[SentenceFile]:
    """Return the files that are wanted of each language."""
    given = job.plan.source.is_given
    languages: dict[tuple[str, str], list[str]] = {}
    for code, number in reading.items():
        for name in files[code].names[:number]:
            # A page can be of any language, so its file is read once for all of them; given
            # sentences are of one language.
            languages.setdefault((code if given else "", name), []).append(code)
    return [
        SentenceFile(
            name=name, path=files[codes[0]].paths[name], languages=tuple(codes), given=given
        )
        for (_, name), codes in languages.items()
    ]


def _lacking(job: BaselineJob, asked: Sequence[SentenceFile]) -> list[SentenceFile]:
    """Return the files whose sentences are not there, each with the languages that lack them."""
    codes = {code for file in asked for code in file.languages}
    recorded = {code: _recorded(job.folder, code) for code in codes}
    lacking = [
        file.of_languages(code for code in file.languages if file.name not in recorded[code])
        for file in asked
    ]
    return [file for file in lacking if file.languages]


def _too_many_failed(
    job: BaselineJob, failed: Sequence[str], asked: int
) -> TooManyFilesFailedError:
    """Return the error that names some of the files that could not be read."""
    notes = _failures(job.folder, failed)
    return TooManyFilesFailedError(
        f"{len(failed)} of {asked} files could not be read, more than "
        f"--max-reject-fraction {job.options.max_reject_fraction:g} allows:\n"
        + "\n".join(f"  {note['file']}: {note['reason']}" for note in notes[:_SHOWN])
        + "\n"
        + _advice(job, notes)
    )


def _advice(job: BaselineJob, notes: Sequence[Mapping[str, str]]) -> str:
    """Say what helps with files that could not be read."""
    damaged = all(note["reason"].startswith(CrawlFileError.__name__) for note in notes)
    if damaged and not job.plan.source.is_crawl:
        return (
            "Trying again will not help: repair these files or leave them out. If other files were "
            "read already, also give --overwrite, or choose another --output."
        )
    return "Run the same command again to try them again; the others are not read again."


def _recorded(folder: OutputFolder, language: str) -> set[str]:
    """Return the names of the files whose sentences in a language are there."""
    names = folder.files(f"{layout.SENTENCES_FOLDER}/{language}", suffix=".json")
    return {name.removesuffix(".json") for name in names}


def _failures(folder: OutputFolder, names: Sequence[str]) -> list[dict[str, str]]:
    """Return what is noted of files that could not be read."""
    notes = folder.read_if_there(*map(layout.failed_path, names))
    unknown = "it was never read to its end"
    return [
        {"file": name, "reason": unknown if note is None else json.loads(note)["reason"]}
        for name, note in zip(names, notes, strict=True)
    ]


def _take_samples(
    job: BaselineJob, files: Mapping[str, SourceFiles], reading: Mapping[str, int]
) -> Generator[Stage, None, None]:
    """Take the samples of languages from the files read so far."""
    blocks = []
    for code, number in reading.items():
        job.folder.delete(layout.sample_record_path(code), layout.sample_path(code))
        for record in _file_records(job.folder, code, files[code].names[:number]):
            blocks += blocks_of_file(code, record["file"], record["blocks"])
    yield sample_stage(job, blocks, tuple(reading))


def _file_records(
    folder: OutputFolder, language: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the records of files, in order of their names; a file that failed has none."""
    paths = [layout.record_path(language, name) for name in sorted(names)]
    return [json.loads(data) for data in folder.read_if_there(*paths) if data is not None]


def _record(job: BaselineJob, language: str, files: SourceFiles, number: int) -> SampleRecord:
    """Record what the sample of a language is and what it was taken from."""
    names, options = files.names[:number], job.options
    records = _file_records(job.folder, language, names)
    there = {record["file"] for record in records}
    try:
        sample = read_sample(job.folder, language)
    except FileNotFoundError:  # nothing was found of this language
        sample = None
    prefix = f"{language}/" if job.plan.source.is_given else ""
    failed = [prefix + name for name in sorted(names) if name not in there]
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record["counts"])
    return SampleRecord(
        language=language,
        wanted=2 * options.pairs,
        found=0 if sample is None else len(sample),
        host_cap=options.sentences_per_host,
        first_files=options.first_files,
        max_files=options.max_files,
        listed=len(files.names),
        listing=files.digest,
        digest="" if sample is None else sample_digest(sample),
        files=tuple(
            FileRecord(**{field: record[field] for field in FileRecord.__dataclass_fields__})
            for record in records
        ),
        failed=tuple(_failures(job.folder, failed)),
        counts=dict(sorted(counts.items())),
        retries=sum(len(record["retries"]) for record in records),
    )
