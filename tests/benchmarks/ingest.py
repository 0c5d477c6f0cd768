"""How fast a WET file is turned into sentences, where the time goes, and the worst of pages.

    python -m tests.benchmarks.ingest --out build/bench/ingest.jsonl

The file is made up, with the mix of languages and the length of pages of a real one; it is all
prose and menus made from few words. So gzip makes it smaller than a real one, and far more of its
sentences pass the filters and reach the detector than the tenth to third of real ones: a real file
takes less time. Text per CPU second is what carries over, and `real_mb_per_second` is that in the
bytes of a real file.
All seconds are CPU seconds of one process.
"""

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path

from bertscore_beam.crawl.extract import SentenceRows, extract_sentences, host_of
from bertscore_beam.crawl.filters import form_reason
from bertscore_beam.crawl.sampling import host_hash, page_order
from bertscore_beam.crawl.sentences import (
    MAX_LINE_CHARACTERS,
    MAX_LINE_MARKS,
    is_kept,
    normalize,
    page_language,
    page_sentences,
    split_sentences,
)
from bertscore_beam.crawl.warc import Page, read_pages
from tests.benchmarks.harness import BUILD, Recorder, add_out
from tests.support.crawl_texts import HEADER_CODES, page_text
from tests.support.wet import WetPage, wet_bytes

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


def stages(pages: Iterable[Page], languages: frozenset[str]) -> dict[str, float]:
    """Do what `extract_sentences` does, one stage of a page after the other; return their seconds.

    The steps stand apart here, so that their sum is a little more than what the whole takes.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    clock = time.process_time
    source = iter(pages)
    while True:
        at = clock()
        page = next(source, None)
        at = _take(spent, "read", at)
        if page is None:
            return dict(spent)
        language = page_language(page.text, page.languages)
        at = _take(spent, "language", at)
        if language not in languages:
            continue
        pieces = list(split_sentences(page.text, language, Counter()))
        at = _take(spent, "split", at)
        normalized = list(map(normalize, pieces))
        at = _take(spent, "normalize", at)
        good = [text for text in normalized if form_reason(text, language) is None]
        at = _take(spent, "filter", at)
        ranked = sorted((page_order(SEED, language, text), text) for text in set(good))
        at = _take(spent, "hash", at)
        own = (text for _, text in ranked if is_kept(text, language, Counter()))
        kept = list(islice(own, PAGE_CAP))
        at = _take(spent, "detect", at)
        host = host_hash(host_of(page.url))
        SentenceRows.of(SEED, language, [(host, text) for text in kept])
        _take(spent, "hash", at)


def _take(spent: defaultdict[str, float], stage: str, since: float) -> float:
    """Add the time since then to a stage; return the time."""
    now = time.process_time()
    spent[stage] += now - since
    return now


def seconds_of(run: Callable[[], object]) -> float:
    """Return the CPU seconds that something takes."""
    started = time.process_time()
    run()
    return time.process_time() - started


def measure_file(recorder: Recorder, count: int, rounds: int) -> None:
    """Measure a whole file: reading, English alone, every language, and the stages."""
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
        seconds = [seconds_of(run) for _ in range(rounds)]
        recorder.add(
            model="-",
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
    spent = stages(opened(), everything)
    total = sum(spent.values())
    for stage, seconds_spent in spent.items():
        recorder.add(
            model="-",
            what=f"stage {stage}",
            n=count,
            seconds=[seconds_spent],
            share=seconds_spent / total,
            slowest=stage == max(spent, key=lambda name: spent[name]) or None,
        )


def worst_pages() -> Iterator[tuple[str, int, str, str]]:
    """Yield pages made to be slow: what, its size, language and text."""
    for size in (75_000, 150_000, 300_000, 600_000):
        for name, unit in (("quotes", '"'), ("brackets", "[("), ("mixed", "'“'")):
            line = (unit * size)[:size]
            yield f"one line of {name}", size, "en", line
            lines = [line[:MAX_LINE_CHARACTERS]] * (size // MAX_LINE_CHARACTERS)
            yield f"longest lines of {name}", size, "en", "\n".join(lines)
            # As many marks as a line may have: what is left of the splitter's quadratic time.
            lines = [line[: MAX_LINE_MARKS - 3] + " and so on"] * (size // (MAX_LINE_MARKS + 7))
            yield f"lines of {name} that are split", size, "en", "\n".join(lines)
    for size in (1_250_000, 2_500_000, 5_000_000, 10_000_000):
        prose = "The ferry leaves the island at noon. " * (size // 37)
        yield "one line of prose", size, "en", prose
        yield "one sentence on a line", size, "en", prose.replace(". ", ".\n")
        yield (
            "longest lines of Thai phrases",
            size,
            "th",
            ("เรือออกเดินทาง " * 300 + "\n") * (size // 4501),
        )
        yield "Khmer without marks", size, "km", ("ទូកចេញដំណើរ" * 400 + "\n") * (size // 4801)
    for size in (125_000, 250_000, 500_000, 1_000_000):
        yield "one-word lines", size, "en", "Home\n" * size


def measure_worst(recorder: Recorder) -> None:
    """Measure each worst page; the ratio is seconds per unit against the smallest of its kind."""
    first: dict[str, float] = {}
    for what, size, language, text in worst_pages():
        counts: Counter[str] = Counter()
        seconds = seconds_of(lambda: list(page_sentences(text, language, counts)))  # noqa: B023
        each = seconds / size
        recorder.add(
            model="-",
            what=what,
            n=size,
            seconds=[seconds],
            ratio=each / first.setdefault(what, each),
        )


def main() -> None:
    """Measure a file and the worst pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000, help="pages of the made-up file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="write the made-up file here and stop")
    add_out(parser)
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.parent.mkdir(parents=True, exist_ok=True)
        given.keep.write_bytes(wet_bytes(list(made_pages(given.pages))))
        return
    recorder = Recorder("ingest", given.out or BUILD / "ingest.jsonl")
    measure_file(recorder, given.pages, given.rounds)
    measure_worst(recorder)


if __name__ == "__main__":
    main()
