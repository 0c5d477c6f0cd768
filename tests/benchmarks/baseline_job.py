"""What a baseline costs and how sure it is: a whole run of the job, by number of pairs.

    python -m tests.benchmarks.baseline_job --pairs 1000 10000 100000 --workers 2

Makes a crawl of English pages, serves it on loopback, and makes baselines of the embedded model for
each number of pairs, from the start each time. Prints one JSON line a run: seconds, the highest
resident memory of the command's own process and of its largest worker, and for the layer that is
scored F1, its standard error, the naive one, and the first times the root of the number of pairs,
which stays the same if the error falls as it should.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.harness import Recorder, add_out
from tests.benchmarks.job_memory import measure
from tests.support.crawl_texts import HEADER_CODES
from tests.support.hosted_texts import sentences_of_hosts
from tests.support.web import web_server
from tests.support.wet import CRAWL, WetPage, wet_bytes, write_crawl

MODEL = "all-MiniLM-L6-v2"
SENTENCES_PER_PAGE = 8
PAGES_PER_FILE = 2_000


def made_files(count: int) -> Iterator[bytes]:
    """Yield WET files of so many sentences: each host has a topic, and one page about it."""
    hosts = sentences_of_hosts(count // SENTENCES_PER_PAGE, SENTENCES_PER_PAGE, seed=9)
    pages = [
        WetPage(
            url=f"https://host{number}.example/",
            text=" ".join(texts),
            languages=(HEADER_CODES["en"],),
        )
        for number, texts in enumerate(hosts)
    ]
    for start in range(0, len(pages), PAGES_PER_FILE):
        yield wet_bytes(pages[start : start + PAGES_PER_FILE])


def main() -> None:
    """Measure each number of pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--sentences", type=int, default=500_000, help="of the crawl")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("baseline_job", given.out)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        # There are 250,000 such sentences, so that hosts repeat some.
        write_crawl(root / "crawl", list(made_files(given.sentences)))
        with web_server(root / "crawl") as web:
            for pairs in given.pairs:
                output = root / f"out-{pairs}"
                flags = ["--crawl", CRAWL, "--crawl-root", f"{web.url}/", "--fetch-pause", 0.01]
                flags += ["--languages", "en", "--models", MODEL, "--pairs", pairs]
                flags += ["--first-files", 100, "--workers", given.workers]
                flags += ["--dtype", given.dtype, "--output", output]
                command = [str(Path(sys.executable).with_name("bertscore-beam")), "baseline"]
                result = measure([*command, *map(str, flags)])
                made = json.loads((output / "en" / f"{MODEL}.json").read_text())
                f1 = made["layers"][-1]["f1"]
                recorder.add(
                    model=MODEL,
                    what=f"{given.workers} workers, {given.dtype}",
                    n=made["pairs"],
                    seconds=[result.pop("seconds")],
                    **result,
                    f1=f1["mean"],
                    standard_error=f1["standard_error"],
                    naive_error=f1["naive_error"],
                    error_times_root=f1["standard_error"] * made["pairs"] ** 0.5,
                    bleu=made["sample"]["overlap"]["bleu"],
                    effective_hosts=made["sample"]["effective_hosts"],
                    failed_checks=[c["name"] for c in made["checks"] if c["passed"] is False],
                )


if __name__ == "__main__":
    main()
