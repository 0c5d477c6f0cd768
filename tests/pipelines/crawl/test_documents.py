"""Documents of other collections, Parquet or JSON lines, are read as pages."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.crawl import CrawlFileError, Page, check_given, crawl_files, read_documents
from bertscore_core import InputError
from tests.support.text_files import to_jsonl, write_text

ROWS = [{"id": n, "text": f"One.\nText {n} é.", "url": f"https://h{n}.example/a"} for n in range(9)]


def read(path):
    counts: Counter[str] = Counter()
    with open(path, "rb") as file:
        return list(read_documents(file, counts)), counts


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "no-suffix"])
@pytest.mark.parametrize("address", ["url", "u"])
def test_every_form_gives_the_same_pages(tmp_path, name, address):
    rows = [{"text": row["text"], address: row["url"], "id": row["id"]} for row in ROWS]
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name, row_group_size=4)
    else:
        write_text(tmp_path / name, to_jsonl(rows))
    pages, counts = read(tmp_path / name)
    assert pages == [Page(url=row["url"], languages=(), text=row["text"]) for row in ROWS]
    assert counts == {"records": 9}


def test_what_is_no_document_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(crawl_files, "MAX_PAGE_BYTES", 100)
    monkeypatch.setattr(crawl_files, "MOST_BROKEN", 0.5)
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


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b"", "too few documents: got 0 of 0"),
        ("a.jsonl", b"One.\nTwo.\n", "too few documents: got 2 of 2"),
        ("a.jsonl.gz", b"\x1f\x8bxx", "cannot be read: got"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfdxx", "cannot be read: got"),
        ("a.parquet", b"PAR1xx", "cannot be read: got"),
    ],
)
def test_other_and_damaged_files_are_errors(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CrawlFileError, match=words):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_a_file_that_was_cut_off_is_an_error(tmp_path, name):
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        write_text(path, to_jsonl(ROWS))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(CrawlFileError, match="cannot be read"):
        read(path)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("text", "has no column 'url': got text; expected"),
        ("sentence", "has no column 'text': got sentence"),
    ],
)
def test_parquet_without_a_column_is_refused_before_it_is_read(tmp_path, column, words):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({column: ["One."]}), path)
    with pytest.raises(InputError, match=words):
        check_given(str(path), has_pages=True)
    with pytest.raises(CrawlFileError, match=words):
        read(path)
    if column == "text":
        check_given(str(path))
