import gzip
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.crawl import given_files
from bertscore_beam.crawl.fetch import CrawlFileError
from bertscore_beam.crawl.filters import WordLimits
from bertscore_beam.crawl.given_files import MAX_LINE, read_sentences
from tests.support.text_files import write_text

NO_LIMITS = WordLimits()
COMMAND = """
import sys
from bertscore_beam.crawl.filters import WordLimits
from bertscore_beam.crawl.given_files import read_sentences
blocks = read_sentences(open(sys.argv[1], "rb"), "en", 0, WordLimits())
print([text for block in blocks for text in block['text'].to_pylist()])
"""


def read(path: Path, language: str = "en", words: WordLimits = NO_LIMITS) -> list[list[str]]:
    with open(path, "rb") as file:
        blocks = read_sentences(file, language, 0, words)
        return [block["text"].to_pylist() for block in blocks]


@pytest.mark.process
def test_a_line_without_end_costs_no_memory_and_is_no_sentence(tmp_path):
    """Of 400 MB, in 0.4 MB of gzip: 1.3 GB of memory when lines had no limit."""
    path = tmp_path / "a.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"A cat sat.\n")
        for _ in range(400):
            file.write(b"x" * 1_000_000)
        file.write(b"\nA dog ran.\n")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30)),
    )
    assert "['A cat sat.', 'A dog ran.']" in done.stdout


def test_text_and_parquet_give_the_same_sentences_each_once(tmp_path):
    lines = ["One.", "Two  é.", "", "Three.", "One."]
    write_text(tmp_path / "a.txt", "\n".join(lines).encode())
    write_text(tmp_path / "b.txt.gz", "\r\n".join(lines[::-1]).encode())
    pq.write_table(pa.table({"text": [*lines, None]}), tmp_path / "c.parquet")
    for file in tmp_path.iterdir():
        assert read(file) == [["One.", "Three.", "Two é."]]


@pytest.mark.parametrize("kind", ["txt", "gz", "parquet"])
def test_the_longest_line_is_a_sentence_and_one_more_letter_is_none(tmp_path, kind):
    lines = ["a" * MAX_LINE, "b" * (MAX_LINE + 1), "c", "", "d" * (5 * MAX_LINE)]
    path = tmp_path / f"a.txt.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": lines}), path)
    else:
        write_text(path, "\r\n".join(lines).encode())
    (texts,) = read(path)
    assert [(text[0], len(text)) for text in texts] == [("a", MAX_LINE), ("c", 1)]


def test_long_lines_come_in_blocks_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(given_files, "_BLOCK_CHARACTERS", 1000)
    (tmp_path / "a.txt").write_text("".join(f"{number:0300}\n" for number in range(10)))
    assert [len(block) for block in read(tmp_path / "a.txt")] == [4, 4, 2]


def test_nothing_but_lines_that_are_too_long_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("x" * (MAX_LINE + 1))
    with pytest.raises(CrawlFileError, match=f"more than {MAX_LINE} characters"):
        read(tmp_path / "a.txt")


def test_sentences_of_other_lengths_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("One.\nOne two.\nOne two three.\nOne two.\n\n")
    assert read(tmp_path / "a.txt", words=WordLimits(least=2, most=2)) == [["One two."]]
    (tmp_path / "b.txt").write_text("渡轮中午出发。", encoding="utf-8")  # seven characters
    with pytest.raises(CrawlFileError, match="do not have at most 2 words"):
        read(tmp_path / "b.txt", "zh", WordLimits(most=2))
