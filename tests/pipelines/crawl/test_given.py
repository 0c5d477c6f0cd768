import gzip
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.crawl import MAX_LINE, CrawlFileError, WordLimits, crawl_files, read_sentences

COMMAND = """
import sys
from collections import Counter
from pathlib import Path
from bertscore_beam.crawl.crawl_files import read_sentences
counts = Counter()
blocks = read_sentences(Path(sys.argv[1]), "en", 0, counts)
texts = [text for block in blocks for text in block['text'].to_pylist()]
print(texts, dict(counts))
"""


def read(path: Path) -> tuple[list[str], Counter[str]]:
    counts: Counter[str] = Counter()
    blocks = read_sentences(path, "en", 0, counts)
    return [text for block in blocks for text in block["text"].to_pylist()], counts


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
    assert "'lines': 3" in done.stdout
    assert "'lines_too_long': 1" in done.stdout


@pytest.mark.parametrize("kind", ["txt", "gz", "parquet"])
def test_the_longest_line_is_a_sentence_and_one_more_letter_is_none(tmp_path, kind):
    lines = ["a" * MAX_LINE, "b" * (MAX_LINE + 1), "c", "", "d" * (5 * MAX_LINE)]
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": lines}), path)
    else:
        opened = gzip.open if kind == "gz" else open
        with opened(path, "wt", encoding="utf-8") as file:
            file.write("\r\n".join(lines))
    texts, counts = read(path)
    assert [(text[0], len(text)) for text in texts] == [("a", MAX_LINE), ("c", 1)]
    assert counts == {"lines": 5, "lines_blank": 1, "lines_too_long": 2}


def test_long_lines_come_in_blocks_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(crawl_files, "_BLOCK_CHARACTERS", 1000)
    (tmp_path / "a.txt").write_text("".join(f"{number:0300}\n" for number in range(10)))
    blocks = list(read_sentences(tmp_path / "a.txt", "en", 0, Counter()))
    assert [len(block) for block in blocks] == [4, 4, 2]


def test_nothing_but_lines_that_are_too_long_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("x" * (MAX_LINE + 1))
    with pytest.raises(CrawlFileError, match=f"more than {MAX_LINE} characters"):
        read(tmp_path / "a.txt")


def test_sentences_of_other_lengths_are_counted_and_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("One.\nOne two.\nOne two three.\nOne two.\n\n")
    counts: Counter[str] = Counter()
    limits = WordLimits(least=2, most=2)
    (block,) = read_sentences(tmp_path / "a.txt", "en", 0, counts, limits)
    assert block["text"].to_pylist() == ["One two."]
    assert counts == {"lines": 5, "lines_blank": 1, "sentence_too_short": 1, "sentence_too_long": 1}
    (tmp_path / "b.txt").write_text("渡轮中午出发。", encoding="utf-8")  # seven characters
    with pytest.raises(CrawlFileError, match="do not have at most 2 words"):
        list(read_sentences(tmp_path / "b.txt", "zh", 0, Counter(), WordLimits(most=2)))
