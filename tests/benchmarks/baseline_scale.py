"""How reading a crawl scales: bytes per second with workers, and what the launcher has to do.

    python -m tests.benchmarks.baseline_scale --workers 1 4 --files 3000 --languages 20

Reading: made-up WET files with the pages of `ingest`, served on loopback, are fetched and read by
the stages of the job, for English alone. Seconds are those of the stage that reads, start of the
workers included; CPU seconds are those of all its processes.

Launcher: the job's own steps from the list of files to the records of samples, with made-up
sentences in place of what the workers would write. Seconds are CPU seconds between the stages, in
which the launcher works alone; objects are the files below `_sentences`.
"""

import argparse
import gzip
import resource
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.baseline.blocks import BlockWriter, ReadFile, SentenceIndex
from bertscore_beam.baseline.collect import collect_samples
from bertscore_beam.baseline.inputs import FileBlock, SentenceFile, blocks_of_files
from bertscore_beam.baseline.plan import BaselineJob, BaselinePlan
from bertscore_beam.baseline.source import Source
from bertscore_beam.options.baseline import BaselineOptions
from bertscore_beam.run import pool
from bertscore_beam.run.folder import RUN_FILE, OutputFolder
from bertscore_beam.run.job import _pool_of, _run_stage
from bertscore_beam.run.lock import hold
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.stage import Stage
from tests.benchmarks.harness import Recorder, add_out
from tests.benchmarks.ingest import made_pages
from tests.support.web import web_server
from tests.support.wet import CRAWL, wet_bytes, wet_name, write_crawl

LANGUAGES = (
    *("ar", "bg", "cs", "da", "de", "el", "en", "es", "fi", "fr"),
    *("hi", "hu", "it", "ja", "nl", "pl", "pt", "ru", "sv", "zh"),
)
ROWS = 4
COUNTS = 20
"""Sentences and counts of a made-up file and language."""


@contextmanager
def held_job(options: BaselineOptions) -> Iterator[BaselineJob]:
    """Yield a job without models that holds its folder."""
    runner = Runner.of(options)
    plan = BaselinePlan(
        options=options,
        runner=runner,
        scoring=runner,
        output=options.output,
        source=Source.of(options),
    )
    with hold(options.output, say=print, lost=print) as lock:
        folder = OutputFolder(options.output, lock)
        folder.write_json(RUN_FILE, {"identity": plan.identity})
        yield BaselineJob(
            plan=plan, folder=folder, run=uuid.uuid4().hex, started=time.time(), say=lambda _: None
        )


def options_of(
    root: str, output: Path, languages: Sequence[str], files: int, **more: Any
) -> BaselineOptions:
    """Return the options of a job that reads all files of a crawl, 32 of them first."""
    return BaselineOptions(
        models=("-",),
        crawl=CRAWL,
        crawl_root=root,
        languages=tuple(languages),
        output=str(output),
        first_files=min(files, 32),
        max_files=files,
        **more,
    )


def write_made_up(folder: OutputFolder, block: FileBlock) -> None:
    """Write what a worker would of a block."""
    writer = BlockWriter(folder, block.name)
    for place, file in enumerate(block.files):
        for code in sorted(file.languages):
            writer.add(code, place, made_up_rows())
    writer.close([_made_up_record(file) for file in block.files])


def made_up_rows() -> pa.Table:
    """Return a few sentences."""
    numbers = np.arange(ROWS, dtype=np.uint64)
    columns = {name: pa.array(numbers) for name in ("priority", "host_order", "host")}
    return pa.table({"text": pa.array(["A made-up sentence."] * ROWS)} | columns)


def _made_up_record(file: SentenceFile) -> ReadFile:
    return ReadFile(
        file=file.name,
        bytes=65_000_000,
        sha256="0" * 64,
        retries=(),
        counts={"pages": 21_000, "records_other": 1},
        languages={
            code: {f"sentences_{number:02d}": number for number in range(COUNTS)}
            for code in file.languages
        },
        rows=dict.fromkeys(file.languages, ROWS),
    )


def measure_launcher(recorder: Recorder, files: int, languages: int) -> None:
    """Measure what the launcher does for many files and languages, and what it leaves."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        listing = root / "crawl" / "crawl-data" / CRAWL / "wet.paths.gz"
        listing.parent.mkdir(parents=True)
        listing.write_bytes(
            gzip.compress("".join(f"{wet_name(number)}\n" for number in range(files)).encode())
        )
        codes = LANGUAGES[:languages]
        options = options_of(f"{root}/crawl", root / "out", codes, files)
        spent = 0.0
        with held_job(options) as job:
            index = SentenceIndex(job.folder)
            at = time.process_time()
            for stage in collect_samples(job, index):
                spent += time.process_time() - at
                if stage.name == "read":
                    for block in _waited_for(job, index, stage):
                        write_made_up(job.folder, block)
                at = time.process_time()
            spent += time.process_time() - at
            objects = job.folder.files("_sentences")
        recorder.add(
            model="-",
            what=f"launcher, {languages} languages",
            n=files,
            seconds=[spent],
            objects=len(objects),
            megabytes=sum(objects.values()) / 1e6,
        )


def _waited_for(job: BaselineJob, index: SentenceIndex, stage: Stage) -> list[FileBlock]:
    """Return the blocks of files that a stage reads: the next ones that are not read yet."""
    codes = job.plan.source.languages
    listed = job.plan.source.files()[codes[0]]
    lacking = [
        SentenceFile(name=name, path=listed.paths[name], languages=codes)
        for name in listed.names
        if not index.has(codes[0], name)
    ]
    blocks = blocks_of_files(lacking[: stage.amounts.total])
    names = (f"{block.name}.json" for block in blocks)
    if stage.amounts.done(names, {}) != stage.amounts.total:
        raise RuntimeError("the stage reads other files than those that were expected")
    return blocks


def measure_reading(recorder: Recorder, workers: Sequence[int], files: int, pages: int) -> None:
    """Measure the stages that fetch and read, with each number of workers."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_crawl(root / "crawl", [wet_bytes(list(made_pages(pages)))] * files)
        wet_mb = sum(file.stat().st_size for file in root.rglob("*.wet.gz")) / 1e6
        for number in workers:
            with web_server(root / "crawl") as web:
                options = options_of(
                    f"{web.url}/", root / f"out-{number}", ["en"], files,
                    workers=number, fetch_pause=0.0, downloads=2, pairs=10_000_000,
                )  # fmt: skip
                with held_job(options) as job:
                    for stage in collect_samples(job, SentenceIndex(job.folder)):
                        wall, cpu = time.perf_counter(), _cpu_seconds()
                        with pool.opening(_pool_of(job.plan.runner)):
                            _run_stage(stage, job.plan.runner, job.folder, print, quiet=True)
                        wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
                        if stage.name in ("fetch", "read"):
                            recorder.add(
                                model="-",
                                what=f"{stage.name}, {number} workers",
                                n=files,
                                seconds=[wall],
                                cpu_seconds=cpu,
                                wet_mb=wet_mb,
                                wet_mb_per_second=wet_mb / wall,
                                wet_mb_per_cpu_second=wet_mb / cpu,
                            )


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those it has waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--read-files", type=int, default=16)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--files", type=int, default=3_000)
    parser.add_argument("--languages", type=int, default=len(LANGUAGES))
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("baseline_scale", given.out)
    if given.files:
        measure_launcher(recorder, given.files, given.languages)
    if given.workers:
        measure_reading(recorder, given.workers, given.read_files, given.pages)


if __name__ == "__main__":
    main()
