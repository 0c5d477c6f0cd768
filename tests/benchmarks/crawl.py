"""What reading a crawl and making a baseline of it cost. Crawls are made up, on loopback."""

import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bertscore_beam.baseline import (
    BaselineJob,
    BaselineOptions,
    BaselinePlan,
    SentenceIndex,
    Source,
    collect_samples,
)
from bertscore_beam.crawl import Page, extract_sentences, read_pages
from bertscore_beam.run import RUN_FILE, OutputFolder, Runner, hold, pool
from bertscore_beam.run.job import _pool_of, _run_stage
from tests.benchmarks.harness import Recorder, children_seconds, run_command
from tests.support.crawl_texts import HEADER_CODES, page_text, sentences_of_hosts
from tests.support.web import web_server
from tests.support.wet import CRAWL, WetPage, wet_bytes, write_crawl

MODEL = "all-MiniLM-L6-v2"
SHARES = {
    "en": 0.434,
    "ru": 0.06,
    "de": 0.053,
    "ja": 0.05,
    "zh": 0.048,
    "es": 0.045,
    "fr": 0.044,
    "ar": 0.1,
    "hi": 0.086,
    "th": 0.08,
}
"""Languages of CC-MAIN-2024-42; the last three stand for all others."""
NO_HEADER_SHARE = 0.033
PAGE_CHARACTERS = 7_000
"""Mean length of a page's text, assumed."""
REAL_COMPRESSION = 2.7
"""Bytes of text in a byte of a real WET file, assumed."""
SEED = 5
PAGE_CAP = 8


def baseline_job(
    recorder: Recorder,
    *,
    pairs: Sequence[int] = (1_000, 10_000, 100_000),
    sentences: int = 500_000,
    workers: int = 2,
    dtype: str = "float32",
) -> None:
    """What a baseline costs and how sure it is: a whole run of the job, by number of pairs.

    Makes a crawl of so many English sentences, and baselines of the embedded model for each number
    of pairs, from the start each time. For the layer that is scored: F1, its standard error, the
    naive one, and the first times the root of the number of pairs, which stays the same if the
    error falls as it should.
    """
    with TemporaryDirectory() as folder:
        root = Path(folder)
        # There are 250,000 such sentences, so that hosts repeat some.
        write_crawl(root / "crawl", list(made_files(sentences)))
        with web_server(root / "crawl") as web:
            for count in pairs:
                output = root / f"out-{count}"
                words = ["baseline", "--crawl", CRAWL, "--crawl-root", f"{web.url}/"]
                words += ["--fetch-pause", 0.01, "--languages", "en", "--models", MODEL]
                words += ["--pairs", count, "--first-files", 100, "--workers", workers]
                cost = run_command([*words, "--dtype", dtype, "--output", output])
                table = json.loads((output / "en" / f"{MODEL}.json").read_text())
                f1 = table["layers"][-1]["f1"]
                recorder.add(
                    model=MODEL,
                    what=f"{workers} workers, {dtype}",
                    n=table["pairs"],
                    seconds=[cost.pop("seconds")],
                    **cost,
                    f1=f1["mean"],
                    standard_error=f1["standard_error"],
                    naive_error=f1["naive_error"],
                    error_times_root=f1["standard_error"] * table["pairs"] ** 0.5,
                    bleu=table["sample"]["overlap"]["bleu"],
                    effective_hosts=table["sample"]["effective_hosts"],
                    failed_checks=[c["name"] for c in table["checks"] if c["passed"] is False],
                )


def made_files(count: int) -> Iterator[bytes]:
    """Yield WET files of so many sentences: each host has a topic, and one page about it."""
    hosts = sentences_of_hosts(count // 8, 8, seed=9)
    pages = [
        WetPage(
            url=f"https://host{number}.example/",
            text=" ".join(texts),
            languages=(HEADER_CODES["en"],),
        )
        for number, texts in enumerate(hosts)
    ]
    for start in range(0, len(pages), 2_000):
        yield wet_bytes(pages[start : start + 2_000])


def baseline_scale(
    recorder: Recorder, *, workers: Sequence[int] = (1, 4), files: int = 16, pages: int = 2_000
) -> None:
    """How reading a crawl scales: bytes per second with workers.

    Made-up WET files with the pages of `ingest` are fetched and read by the stage of the job, for
    English alone. Seconds are those of the stage, start of the workers included; CPU seconds are
    those of all its processes.
    """
    with TemporaryDirectory() as folder:
        write_crawl(Path(folder, "crawl"), [wet_bytes(list(made_pages(pages)))] * files)
        for number in workers:
            measure_reading(recorder, Path(folder), number, files)


def measure_reading(recorder: Recorder, root: Path, workers: int, files: int) -> None:
    """Measure the stage that fetches and reads."""
    wet_mb = sum(file.stat().st_size for file in (root / "crawl").rglob("*.wet.gz")) / 1e6
    more = {"workers": workers, "fetch_pause": 0.0, "downloads": workers, "pairs": 10_000_000}
    with web_server(root / "crawl") as web:
        options = options_of(f"{web.url}/", f"{root}/out-{workers}", ["en"], files, **more)
        with held_job(options) as job:
            for stage in collect_samples(job, SentenceIndex(job.folder)):
                wall, cpu = time.perf_counter(), time.process_time() + children_seconds()
                with pool.opening(_pool_of(job.plan.runner)):
                    _run_stage(stage, job.plan.runner, job.folder, print, quiet=True)
                wall = time.perf_counter() - wall
                cpu = time.process_time() + children_seconds() - cpu
                if stage.name == "read":
                    recorder.add(
                        what=f"{stage.name}, {workers} workers",
                        n=files,
                        seconds=[wall],
                        cpu_seconds=cpu,
                        wet_mb=wet_mb,
                        wet_mb_per_second=wet_mb / wall,
                        wet_mb_per_cpu_second=wet_mb / cpu,
                    )


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
    root: str, output: str, languages: Sequence[str], files: int, **more: Any
) -> BaselineOptions:
    """Return the options of a job that reads all files of a crawl, 32 of them first."""
    return BaselineOptions(
        models=("-",),
        crawl=CRAWL,
        crawl_root=root,
        languages=tuple(languages),
        output=output,
        first_files=min(files, 32),
        max_files=files,
        **more,
    )


def ingest(recorder: Recorder, *, pages: int = 20_000, rounds: int = 3, keep: str = "") -> None:
    """How fast a WET file is turned into sentences.

    The file is made up, with the mix of languages and the length of pages of a real one; it is all
    prose and menus made from few words. So gzip makes it smaller than a real one, and far more of
    its sentences pass the filters and reach the detector than the tenth to third of real ones: a
    real file takes less time. Text per CPU second is what carries over, and `real_mb_per_second` is
    that in the bytes of a real file. All seconds are CPU seconds of one process.

    `--keep` writes the made-up file to this path and stops.
    """
    if keep:
        Path(keep).write_bytes(wet_bytes(list(made_pages(pages))))
        return
    measure_file(recorder, pages, rounds)


def measure_file(recorder: Recorder, count: int, rounds: int) -> None:
    """Measure a whole file: reading, English alone, and every language."""
    pages = list(made_pages(count))
    text_mb = sum(len(page.text.encode()) for page in pages) / 1e6
    data = wet_bytes(pages)
    del pages
    wet_mb = len(data) / 1e6

    def opened() -> Iterator[Page]:
        return read_pages(BytesIO(data), Counter())

    everything, english = frozenset(SHARES), frozenset({"en"})
    runs: dict[str, Callable[[], object]] = {
        "read only": lambda: sum(1 for _ in opened()),
        "en": lambda: extract_sentences(opened(), english, SEED, PAGE_CAP),
        "all languages": lambda: extract_sentences(opened(), everything, SEED, PAGE_CAP),
    }
    for what, run in runs.items():
        seconds = []
        for _ in range(rounds):
            started = time.process_time()
            run()
            seconds.append(time.process_time() - started)
        recorder.add(
            what=what,
            n=count,
            seconds=seconds,
            wet_mb=wet_mb,
            text_mb=text_mb,
            pages_per_second=count / min(seconds),
            wet_mb_per_second=wet_mb / min(seconds),
            text_mb_per_second=text_mb / min(seconds),
            real_mb_per_second=text_mb / min(seconds) / REAL_COMPRESSION,
        )


def made_pages(count: int) -> Iterator[WetPage]:
    """Yield pages in the mix of a real file, lengths spread as widely."""
    generator = random.Random(SEED)
    characters = {code: len(page_text(code, 50, seed=0)) / 50 for code in SHARES}
    for number in range(count):
        (code,) = generator.choices(list(SHARES), list(SHARES.values()))
        mean = PAGE_CHARACTERS / characters[code]
        prose = min(1 + int(mean * generator.lognormvariate(-0.5, 1.0)), 5_000)
        yield WetPage(
            url=f"https://www.host-{generator.randrange(count // 3 + 1)}.example/{number}",
            text=page_text(code, prose, seed=number),
            languages=() if generator.random() < NO_HEADER_SHARE else (HEADER_CODES[code],),
        )
