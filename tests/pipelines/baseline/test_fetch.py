"""Files are read once, those of the web a few at a time, and what came of them is written down."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.baseline import extract
from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.extract import SentenceIndex, lanes_of_files, read_lane, read_rows
from bertscore_beam.baseline.sources import SentenceFile
from bertscore_beam.cli.main import main
from bertscore_beam.run.output import DONE
from tests.support.crawl_texts import sentences
from tests.support.crawls import baseline, crawl_files, make_crawl, read_tables, run_baseline
from tests.support.web import web_server

QUICK = {"fetch_attempts": 2, "fetch_timeout": 1.0, "fetch_pause": 0.01}


def files_of(number, where="http://host.example/", languages=("en",)):
    return [
        SentenceFile(name=f"f{n:04d}", path=f"{where}f{n:04d}", languages=languages)
        for n in range(number)
    ]


@pytest.mark.parametrize(("files", "downloads"), [(0, 4), (3, 4), (10, 4), (10, 1)])
def test_no_more_lanes_than_downloads_and_every_file_in_one(files, downloads):
    web, local = files_of(files), files_of(9, "/disk/")
    lanes = lanes_of_files([*web, *local], downloads)
    assert len(lanes) == min(files, downloads) + len(local)
    assert lanes[-9:] == [(file,) for file in local]
    assert sorted(file.path for lane in lanes[:-9] for file in lane) == [file.path for file in web]


def read(folder, *files, **source):
    """Read files as those of a source, of WET files unless another is given."""
    asked = source or {"wet": ("x",), "languages": ("en",), "sentences_per_page": 1}
    options = BaselineOptions(output="out", **asked, **QUICK)
    return list(read_lane(files, options, folder))


def index_of(folder):
    index = SentenceIndex(folder)
    index.refresh()
    return index


@pytest.mark.process
def test_file_is_read_once_and_another_that_cannot_be_read_is_noted(folder):
    good, bad = crawl_files(2, pages=5)
    with web_server({"/f0000": good, "/f0001": bad[:-50]}, {"/f0000": ["503"]}) as web:
        files = files_of(3, f"{web.url}/", ("de", "en", "is"))
        assert read(folder, *files) == ["f0000"]
        assert read(folder, files[0]) == []  # as when a lane is retried
        assert [request.path for request in web.requests].count("/f0000") == 2
    assert list(folder.files("_failed")) == ["f0001.json", "f0002.json"]
    index = index_of(folder)
    (record,) = index.files("en", ["f0000", "f0001", "f0002"]).values()
    assert sum(record.rows.values()) <= 5  # a sentence of each page
    assert record.retries[0].startswith("attempt 1: 503")
    assert (record.bytes, record.counts) == (len(good), {"records": 6})
    assert sum(record.rows.values()) > record.rows["en"] > record.rows["is"] == 0
    assert index.has("is", "f0000")
    assert not index.has("fr", "f0000")
    assert not index.has("en", "f0001")
    (path,) = index.files("en", ["f0000", "f0001"])
    for language in ("de", "en", "is"):
        rows = [table for table in read_rows(folder, path, language, ["host", "text"])]
        assert sum(map(len, rows)) == record.rows[language]
        assert all(table.column_names == ["host", "text"] for table in rows)


def test_sentences_come_in_pieces_and_the_same_file_in_two_languages_is_two(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("bertscore_beam.crawl.given_files._BLOCK", 7)
    texts = sentences("en", 20, 1)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a")
    files = [
        SentenceFile(name="a", path=f"{tmp_path}/a", languages=(code,), given=True)
        for code in ("en", "de")
    ]
    for file in files:
        assert read(folder, file, sentences=("en=x",)) == [file.label]
    index = index_of(folder)
    assert [*index.files("en", ["a"])] == [files[0].sentences] != [files[1].sentences]
    tables = list(read_rows(folder, files[0].sentences, "en", ["text"]))
    assert [len(table) for table in tables] == [7, 7, 6]
    assert sorted(pa.concat_tables(tables)["text"].to_pylist()) == sorted(texts)
    assert index.files("en", ["a"])[files[0].sentences].rows == {"en": 20}


def test_index_forgets_what_is_gone_and_counts_a_file_once(folder, tmp_path, monkeypatch):
    (tmp_path / "f0000").write_bytes(crawl_files(1, pages=5)[0])
    files = [files_of(1, f"{tmp_path}/", codes)[0] for codes in (("en",), ("de", "en"))]
    assert read(folder, *files) == ["f0000", "f0000"]
    index = index_of(folder)
    assert [*index.files("en", ["f0000"])] == [min(file.sentences for file in files)]
    folder.delete(files[1].sentences)
    monkeypatch.setattr(extract.SentenceIndex, "_read", None)  # no record is read twice
    index.refresh()
    assert [*index.files("en", ["f0000"])] == [files[0].sentences]
    assert not index.has("de", "f0000")


@pytest.mark.long
def test_three_workers_never_ask_for_more_files_at_once_than_the_cap(tmp_path, model):
    root = make_crawl(tmp_path / "crawl", 9, pages=8)
    waits = {f"/{path.relative_to(root)}": ["wait 0.5"] for path in root.rglob("*.wet.gz")}
    with web_server(root, waits) as web:
        flags = ("--fetch-pause", "0.01", "--downloads", 2, "--workers", 3, "--first-files", 9)
        assert main(baseline(f"{web.url}/", tmp_path / "out", model, *flags)) == DONE
        assert web.most_at_once <= 2
    assert run_baseline(root, tmp_path / "alone", model, "--first-files", 9) == DONE
    assert read_tables(tmp_path / "out") == read_tables(tmp_path / "alone")
