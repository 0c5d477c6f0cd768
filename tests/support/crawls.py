"""A small crawl for tests, and the baseline command on it."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscore_beam.cli.main import main
from bertscore_beam.crawl.warc import Page
from tests.support.crawl_texts import HEADER_CODES, page_text
from tests.support.wet import CRAWL, wet_bytes, wet_name, write_crawl

LANGUAGES = ("en", "de")
TABLES = tuple(f"{language}/bert.{kind}" for language in LANGUAGES for kind in ("tsv", "json"))
NAMES = [wet_name(number) for number in range(4)]
"""Names of the files of a crawl, if no other number of them is asked for."""


def crawl_files(number: int, *, pages: int = 40, seed: int = 1) -> list[bytes]:
    """Make WET files of pages in the languages and in one that is not asked for."""
    generator = random.Random(seed)

    def made(file: int, page: int) -> Page:
        language = generator.choice((*LANGUAGES, "fr"))
        url = f"https://www.host{generator.randrange(200)}.example/{file}/{page}"
        text = page_text(language, 10, 1000 * file + page)
        return Page(url=url, text=text, languages=(HEADER_CODES[language],))

    return [wet_bytes([made(file, page) for page in range(pages)]) for file in range(number)]


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


def assert_same(output: Path, tables: Mapping[str, bytes], *kinds: str) -> None:
    """Check that a result has the same files of some kinds, whose retries may differ."""
    names = [name for name in tables if name.endswith(kinds)]
    assert read_tables(output, names) == {name: tables[name] for name in names}


def run_given(model: object, output: object, *files: object, **changes: object) -> int:
    """Run the command on files of English sentences, and return its status."""
    sources = [f"en={file}" for file in files]
    words = ["baseline", "--sentences", *sources, "--output", output, "--models", model]
    for name, value in ({"pairs": 300, "seed": 1, "device": "cpu"} | changes).items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return main([str(word) for word in words])


def description(output: Path, table: str = "en/bert.json") -> dict[str, Any]:
    """Return the description of a table."""
    said: dict[str, Any] = json.loads((output / table).read_text())
    return said
