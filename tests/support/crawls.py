"""A small crawl for tests, files fetched alone, and the baseline command on the crawl."""

import json
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import main
from pipelines.crawl.fetch import Fetched, FetchError, FetchPolicy, fetched
from tests.support.crawl_texts import HEADER_CODES, page_text
from tests.support.wet import CRAWL, WetPage, some_pages, wet_bytes, write_crawl

LANGUAGES = ("en", "de")
TABLES = tuple(
    f"{language}/bert.{kind}" for language in LANGUAGES for kind in ("tsv", "json", "png")
)

DATA = wet_bytes(some_pages(300))
"""The content of a file to fetch."""

QUICK = FetchPolicy(attempts=4, timeout=0.3, pause=0.02)
"""How it is fetched where a test says nothing else."""


def crawl_files(number: int, *, pages: int = 40, seed: int = 1) -> list[bytes]:
    """Make WET files of pages in the languages and in one that is not asked for."""
    generator = random.Random(seed)
    files = []
    for file in range(number):
        found = []
        for page in range(pages):
            language = generator.choice((*LANGUAGES, "fr"))
            found.append(
                WetPage(
                    url=f"https://www.host{generator.randrange(200)}.example/{file}/{page}",
                    text=page_text(language, 10, 1000 * file + page),
                    languages=(HEADER_CODES[language],),
                )
            )
        files.append(wet_bytes(found))
    return files


def fetch(path: str, folder: Path, policy: FetchPolicy = QUICK) -> tuple[Fetched, bytes]:
    """Fetch a file; return what is said of it, and its content."""
    with fetched(path, policy, str(folder)) as got:
        content = got.file.read_bytes()
    assert list(folder.iterdir()) == [], "nothing may be left behind"
    return got, content


def fail(path: str, folder: Path, policy: FetchPolicy = QUICK) -> FetchError:
    """Fetch a file that cannot be fetched; return the error."""
    with ExitStack() as stack, pytest.raises(FetchError) as caught:
        stack.enter_context(fetched(path, policy, str(folder)))
    assert not folder.is_dir() or list(folder.iterdir()) == [], "nothing may be left behind"
    return caught.value


def make_crawl(root: Path, number: int = 4, **how: int) -> Path:
    """Write a crawl below a folder and return the folder."""
    write_crawl(root, crawl_files(number, **how))
    return root


def baseline(root: object, output: object, model: object, *more: object) -> list[str]:
    """Return the words of a command that makes small baselines of a crawl."""
    flags = ["--crawl", CRAWL, "--crawl-root", root, "--output", output, "--models", model]
    if "--languages" not in more:
        flags += ["--languages", *LANGUAGES]
    flags += ["--pairs", 120, "--first-files", 2, "--seed", 3, "--device", "cpu", *more]
    return ["baseline", *map(str, flags)]


def run_baseline(root: object, output: object, model: object, *more: object) -> int:
    """Run the command in this process and return its status."""
    return main(baseline(root, output, model, *more))


def read_tables(output: Path, names: Sequence[str] = TABLES) -> dict[str, bytes]:
    """Return the content of the result's files by name."""
    return {name: (output / name).read_bytes() for name in names}


def run_given(model: object, output: object, *files: object, **changes: object) -> int:
    """Run the command on files of English sentences, and return its status."""
    flags = {"pairs": 300, "seed": 1, "device": "cpu"} | changes
    words = []
    for name, value in flags.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    given = [f"en={file}" for file in files]
    command = ["baseline", "--sentences", *given, "--output", output, "--models", model, *words]
    return main([str(word) for word in command])


def description(output: Path, table: str = "en/bert.json") -> dict[str, Any]:
    """Return the description of a table."""
    said: dict[str, Any] = json.loads((output / table).read_text())
    return said
