"""Read as many files as every language needs, and pair its sentences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.baseline_plan import BaselineJob
from bertscore_beam.baseline.extract import lane_name, lanes_of_files, read_lane
from bertscore_beam.baseline.sample import Drawing, pair_phases
from bertscore_beam.baseline.sources import (
    FAILED_FOLDER,
    PAIRS_FOLDER,
    SENTENCES_FOLDER,
    PairsRecord,
    SentenceFile,
    SourceFiles,
    failed_path,
    list_files,
    pairs_record_path,
    read_record,
)
from bertscore_beam.crawl.fetch import CrawlFileError
from bertscore_beam.crawl.warc import RECORDS, RECORDS_BROKEN
from bertscore_beam.files.read import in_parallel
from bertscore_beam.run.folder import OutputFolder, read_run, write_run
from bertscore_beam.run.job import Run
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.phases import Phase, given
from bertscore_beam.run.pool import Each
from bertscore_beam.run.progress import Expected
from bertscore_core.errors import InputError, SignatureError

_MARGIN = 1.1
"""The yield of the files read so far says how many are needed; this many times as many are read,
since the next ones may yield less."""
_COUNTS = (RECORDS, RECORDS_BROKEN)
_SHOWN = 5
"""Failed files that an error names."""


def collect_pairs(job: BaselineJob, run: Run) -> dict[str, PairsRecord]:
    """Sample and pair the sentences of every language, from as many files as that needs.

    A language's first files are read, then as many more as their yield says, until its sample is
    full, or no file is left, or `max_files` are read. The number depends on that language and its
    files alone, so a language that is added later gets the sample it would have got at once.

    Raises:
        JobFailedError: Too many files could not be read, and a retry may help.
        InputError: Too many files hold nothing that can be read.
        SignatureError: The source holds other files than when the folder was begun.
    """
    options, languages = job.options, job.plan.languages
    there = {code: read_record(job.folder, code) for code in languages}
    records = {code: one for code, one in there.items() if one is not None and one.fits(options)}
    missing = [code for code in languages if code not in records]
    if not missing and options.crawl:  # whose files never change
        return records
    files = list_files(options, languages)
    _check_same_files(job, files)
    limits = {code: len(files[code].names) for code in missing}
    reading = limits
    if not options.sentences:  # sentences that are given are all read
        limits = {code: min(listed, options.max_files) for code, listed in limits.items()}
        reading = {code: min(limit, options.first_files) for code, limit in limits.items()}
    job.index.refresh()
    while reading:
        _read_files(job, run, files, reading)
        drawings = [
            _drawing(job, code, files[code], number, limits[code])
            for code, number in reading.items()
        ]
        following = {}
        for code, record in _draw_pairs(job, run, drawings).items():
            records[code] = record
            # Only the last record counts: a run that is killed before takes the same steps again,
            # which is quick, since the files are read already.
            if not record.is_done:
                number = reading[code]
                following[code] = _next_number(job, record.found, number, limits[code])
                job.say(
                    f"{code}: {record.found:,} of {record.wanted:,} sentences in {number} files; "
                    f"reading {following[code]} files in all."
                )
        reading = following
    return {code: records[code] for code in languages}


def read_phases(
    options: BaselineOptions, folder: OutputFolder, files: Sequence[SentenceFile] = ()
) -> tuple[Phase]:
    """Return the phase that reads files; the worker that reads a file of the web fetches it.

    A lane is one item, so that no runner can divide it and have more requests at a time. Every
    worker reads lanes; no text crosses to the next phase.
    """
    lanes = given(lanes_of_files(files, options.downloads))
    step = Each(partial(read_lane, options=options, folder=folder), lane_name)
    return (Phase(name="ReadLanes", items=lanes, step=step),)


def _check_same_files(job: BaselineJob, files: Mapping[str, SourceFiles]) -> None:
    digests = {code: of_language.digest for code, of_language in files.items()}
    noted = read_run(job.folder) or {}
    before = noted.get("files", {})
    changed = [code for code in digests if before.get(code, digests[code]) != digests[code]]
    if changed:
        raise SignatureError(
            "the source holds other files than when this output was begun: got another listing of "
            f"{job.options.source_shown} for {', '.join(changed)}; expected the same. Choose "
            "another --output, or use --overwrite to start again."
        )
    write_run(job.folder, {**noted, "files": before | digests})


def _next_number(job: BaselineJob, sentences: int, number: int, limit: int) -> int:
    asked_for, needed = 2 * job.options.pairs, 2 * number
    if sentences:
        needed = math.ceil(number * asked_for / sentences * _MARGIN)
    return min(max(needed, number + job.options.first_files), limit)


def _read_files(
    job: BaselineJob, run: Run, files: Mapping[str, SourceFiles], reading: Mapping[str, int]
) -> None:
    asked = _asked_files(job, files, reading)
    lacking = _lacking(job, asked)
    if not lacking:
        return
    expected = Expected(
        message=f"Reading {len(lacking):,} files for {', '.join(reading)}",
        folder=SENTENCES_FOLDER,
        amounts={file.sentences.rpartition("/")[2]: 1 for file in lacking},
    )
    run.do(read_phases(job.options, job.folder, lacking), expected)
    job.index.refresh()
    failed = [file.label for file in _lacking(job, lacking)]
    notes = {f"{FAILED_FOLDER}/{name}" for name in job.folder.files(FAILED_FOLDER)}
    read = {failed_path(file.label) for file in lacking} - set(map(failed_path, failed))
    job.folder.delete(*sorted(notes & read))
    # A product would be rounded: 29 of 100 are not more than 0.29.
    if len(failed) / len(asked) > job.options.max_reject_fraction:
        raise _too_many_failed(job.options, _failures(job.folder, failed), len(asked))


def _asked_files(
    job: BaselineJob, files: Mapping[str, SourceFiles], reading: Mapping[str, int]
) -> list[SentenceFile]:
    is_given = bool(job.options.given)
    languages: dict[tuple[str, str], list[str]] = {}
    for code, number in reading.items():
        for name in files[code].names[:number]:
            # A page of a crawl can be of any language, so its file is read once for all of them.
            languages.setdefault((code if is_given else "", name), []).append(code)
    return [
        SentenceFile(
            name=name, path=files[codes[0]].paths[name], languages=tuple(codes), given=is_given
        )
        for (_, name), codes in languages.items()
    ]


def _lacking(job: BaselineJob, asked: Sequence[SentenceFile]) -> list[SentenceFile]:
    lacking = []
    for file in asked:
        languages = tuple(code for code in file.languages if not job.index.has(code, file.name))
        if languages:
            lacking.append(replace(file, languages=languages))
    return lacking


def _too_many_failed(
    options: BaselineOptions, notes: Sequence[Mapping[str, str]], asked: int
) -> JobFailedError | InputError:
    damaged = all(note["reason"].startswith(CrawlFileError.__name__) for note in notes)
    advice = ""
    kind: type[JobFailedError | InputError] = JobFailedError
    if damaged and options.crawl:
        advice = (
            "\nFiles that fail again are damaged on the server: give a larger "
            "--max-reject-fraction."
        )
    elif damaged:
        kind = InputError
        advice = (
            "\nTrying again will not help: repair these files or leave them out. If other files "
            "were read already, also give --overwrite, or choose another --output."
        )
    return kind(
        f"{len(notes)} of {asked} files could not be read, more than "
        f"--max-reject-fraction {options.max_reject_fraction:g} allows:\n"
        + "\n".join(f"  {note['file']}: {note['reason']}" for note in notes[:_SHOWN])
        + advice
    )


def _failures(folder: OutputFolder, names: Sequence[str]) -> list[dict[str, str]]:
    notes = in_parallel(lambda name: folder.read_json(failed_path(name)), names)
    unknown = "it was never read to its end"
    return [
        {"file": name, "reason": note.get("reason", unknown)}
        for name, note in zip(names, notes, strict=True)
    ]


def _draw_pairs(job: BaselineJob, run: Run, drawings: Sequence[Drawing]) -> dict[str, PairsRecord]:
    """Sample and pair the sentences of every language."""
    folder, codes = job.folder, [record.language for record, _ in drawings]
    for code in codes:
        old = folder.files(f"{PAIRS_FOLDER}/{code}")
        # First the record, without which the parts count for nothing.
        folder.delete(pairs_record_path(code))
        folder.delete(*(f"{PAIRS_FOLDER}/{code}/{name}" for name in old))
    expected = Expected(message=f"Pairing sentences of {', '.join(codes)}")
    run.do(pair_phases(folder, job.options.seed, drawings), expected)
    written = {code: read_record(folder, code) for code in codes}
    return {code: record for code, record in written.items() if record is not None}


def _drawing(
    job: BaselineJob, language: str, files: SourceFiles, number: int, limit: int
) -> Drawing:
    """Return what is known of a sample of a language's first files before it is taken."""
    names, options = files.names[:number], job.options
    read = job.index.files(language, names)
    prefix = f"{language}/" if options.given else ""
    failed = [prefix + name for name in sorted(set(names) - {file.file for file in read.values()})]
    record = PairsRecord(
        language=language,
        wanted=2 * options.pairs,
        host_cap=options.sentences_per_host,
        listing=files.digest,
        is_last=number == limit,
        files={
            "files_listed": len(files.names),
            "first_files": options.first_files,
            "max_files": options.max_files,
            "retries": sum(len(file.retries) for file in read.values()),
            **{name: sum(file.counts.get(name, 0) for file in read.values()) for name in _COUNTS},
            "failed": _failures(job.folder, failed),
            "files": [
                {
                    "file": file.file,
                    "bytes": file.bytes,
                    "sha256": file.sha256,
                    "rows": file.rows[language],
                }
                for file in read.values()
            ],
        },
    )
    return record, tuple(sorted(path for path, file in read.items() if file.rows[language]))
