"""Documents of other collections, Parquet or JSON lines, are read as pages."""

import codecs
import math
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.crawl import given_files
from bertscore_beam.crawl.fetch import CrawlFileError
from bertscore_beam.crawl.filters import WordLimits
from bertscore_beam.crawl.given_files import check_given, read_documents, read_sentences
from bertscore_beam.crawl.warc import Page
from bertscore_core import InputError
from tests.support.text_files import to_jsonl, write_text

# Python's json module writes NaN for a number that is missing.
ROWS = [
    {"id": n or math.nan, "text": f"One.\nText {n} é.", "url": f"https://h{n}.example/a"}
    for n in range(9)
]


def read(path):
    counts: Counter[str] = Counter()
    with open(path, "rb") as file:
        return list(read_documents(file, counts)), counts


def read_as_sentences(path):
    with open(path, "rb") as file:
        return list(read_sentences(file, "en", 0, WordLimits()))


def test_what_is_no_document_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(given_files, "MAX_PAGE_BYTES", 100)
    monkeypatch.setattr(given_files, "MOST_BROKEN", 0.5)
    other = [{"text": None, "url": "x"}, {"text": "x", "url": 3}, {"text": "x"}, ["text", "url"]]
    long = [{"text": "x" * 101, "url": "x"}, {"text": "x" * 500, "url": "x"}]
    data = to_jsonl([*other, *long, *ROWS]) + b'\n \r\n{"text": "cut'
    pages, counts = read(write_text(tmp_path / "a.jsonl", data))
    assert len(pages) == 9
    # A line of twice the most bytes of a page is read as pieces, none of which is JSON.
    assert counts == {"records": 9 + 1 + 8, "records_broken": 4 + 3 + 1}


def test_a_text_that_is_not_utf8_is_a_broken_record_of_which_one_in_a_hundred_may_be(tmp_path):
    for sound in (98, 99):
        texts = pa.array([b"\xff", *[b"One."] * sound], pa.binary()).view(pa.string())
        table = pa.table({"text": texts, "url": ["https://a.example/"] * (sound + 1)})
        pq.write_table(table, tmp_path / "a.parquet")
        if sound == 99:
            assert read(tmp_path / "a.parquet")[1] == {"records": 100, "records_broken": 1}
        else:
            with pytest.raises(CrawlFileError, match="got 1 of 99 rows or lines without a text"):
                read(tmp_path / "a.parquet")


def write(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4)
    else:
        write_text(path, codecs.BOM_UTF8 + to_jsonl(rows))
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "no-suffix"])
@pytest.mark.parametrize("address", ["url", "u"])
def test_every_form_gives_the_same_pages_or_an_error_if_it_is_cut_off(tmp_path, name, address):
    rows = [{"text": row["text"], address: row["url"], "id": row["id"]} for row in ROWS]
    path = write(tmp_path / name, rows)
    pages, counts = read(path)
    assert pages == [Page(url=row["url"], languages=(), text=row["text"]) for row in ROWS]
    assert counts == {"records": 9}
    path.write_bytes(path.read_bytes()[:-12])
    words = "got 1 of 9 rows" if name in ("a.jsonl", "no-suffix") else "cannot be read"
    with pytest.raises(CrawlFileError, match=words):
        read(path)


@pytest.mark.parametrize(
    ("data", "words"),
    {
        b"": "too few documents: got 0 of 0",
        b"One.\nTwo.\n": "too few documents: got 2 of 2",
        **dict.fromkeys((b"\x1f\x8bxx", b"\x28\xb5\x2f\xfdxx", b"PAR1xx"), "cannot be read: got"),
    }.items(),
)
def test_other_and_damaged_files_are_errors(tmp_path, data, words):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(CrawlFileError, match=words):
        read(tmp_path / "a")


@pytest.mark.parametrize("read", [read, read_as_sentences])
def test_a_changed_text_is_an_error_where_pages_have_checksums(tmp_path, read):
    path = tmp_path / "a.parquet"
    plain = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    pq.write_table(pa.Table.from_pylist(ROWS), path, write_page_checksum=True, **plain)
    read(path)
    path.write_bytes(path.read_bytes().replace(b"Text 3", b"Text 7"))
    with pytest.raises(CrawlFileError, match="cannot be read: got OSError"):
        read(path)


@pytest.mark.parametrize(
    ("column", "words"),
    [("text", "'url': got text; expected"), ("sentence", "'text': got sentence")],
)
def test_parquet_without_a_column_is_refused_before_it_is_read(tmp_path, column, words):
    path = write(tmp_path / "a.parquet", [{column: "One."}])
    with pytest.raises(InputError, match=f"has no column {words}"):
        check_given(str(path), has_pages=True)
    with pytest.raises(CrawlFileError, match=f"has no column {words}"):
        read(path)
    if column == "text":
        check_given(str(path))
