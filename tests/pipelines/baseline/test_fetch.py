"""Files of the web: fetched a few at a time, read by all workers, and deleted then."""

import pytest

from bertscore_beam.baseline import (
    ExtractSettings,
    FileBlock,
    SentenceFile,
    SentenceIndex,
    blocks_of_files,
    extract,
    extract as module,
    extract_block,
    fetch_file,
    labels_fetched,
    lanes_of_files,
    record_path,
    waves_of_files,
)
from bertscore_beam.cli.main import main
from bertscore_beam.crawl import FetchPolicy, PageRules
from bertscore_beam.run import DONE
from tests.support.crawls import baseline, crawl_files, make_crawl, read_tables, run_baseline
from tests.support.web import web_server

QUICK = FetchPolicy(attempts=2, timeout=1.0, pause=0.01)


def files_of(number, scheme="http://host.example/"):
    return [
        SentenceFile(name=f"f{n:04d}", path=f"{scheme}f{n:04d}", languages=("en",))
        for n in range(number)
    ]


@pytest.mark.parametrize(("files", "downloads"), [(0, 4), (3, 4), (10, 4), (10, 1)])
def test_no_more_lanes_than_downloads_and_every_file_in_one(files, downloads):
    sources = files_of(files)
    lanes = lanes_of_files(sources, downloads)
    assert len(lanes) == min(files, downloads)
    assert sorted(file.name for lane in lanes for file in lane) == [file.name for file in sources]


def test_fetched_files_take_bounded_room_and_others_take_none(tmp_path):
    for output, most in ((str(tmp_path), 128), ("memory://bucket/out", 1024)):
        waves = waves_of_files(files_of(3_000), output)
        assert max(map(len, waves)) == most
        assert [file for wave in waves for file in wave] == files_of(3_000)
        assert waves_of_files(files_of(3_000, "/disk/"), output) == [files_of(3_000, "/disk/")]
    assert waves_of_files([], str(tmp_path)) == []


@pytest.mark.parametrize(
    ("files", "blocks", "largest"),
    [(0, 0, 0), (1, 1, 1), (100, 100, 1), (128, 64, 2), (3_000, 188, 16)],
)
def test_blocks_are_few_for_the_folder_and_many_for_the_workers(files, blocks, largest):
    result = blocks_of_files(files_of(files))
    assert len(result) == blocks == len({block.name for block in result})
    assert max([len(block.files) for block in result], default=0) == largest
    assert [file for block in result for file in block.files] == files_of(files)


def test_each_file_of_given_sentences_is_a_block_of_its_own():
    sources = [
        SentenceFile(name=str(n), path="/x", languages=("en",), given=True) for n in range(500)
    ]
    assert len(blocks_of_files(sources)) == 500


def settings_of(folder):
    return ExtractSettings(
        folder=folder, seed=0, page_cap=8, rules=PageRules(), policy=QUICK, source="wet"
    )


def test_fetched_file_is_read_from_the_folder_and_deleted(folder):
    content = {"/f0000": crawl_files(1, pages=5)[0]}
    with web_server(content, {"/f0000": ["503"]}) as web:
        (file,) = files_of(1, f"{web.url}/")
        assert fetch_file(file, folder, QUICK)
        assert fetch_file(file, folder, QUICK)  # as when a lane is tried again
        assert len(web.requests) == 2
    assert labels_fetched(folder) == {"f0000"}
    block = FileBlock(files=(file,))
    assert list(extract_block(block, settings_of(folder))) == ["f0000"]  # the server is gone
    assert folder.files("_fetched") == {}
    record = record_path(block.name)
    written = folder.read(record)
    assert b"attempt 1: 503" in written
    assert list(extract_block(block, settings_of(folder))) == []  # as when a bundle is tried again
    assert folder.read(record) == written


def test_file_that_cannot_be_read_is_noted_and_its_copy_deleted(folder):
    good, bad = crawl_files(2, pages=5)
    with web_server({"/f0000": good, "/f0001": bad[:-50]}) as web:
        files = files_of(3, f"{web.url}/")
        assert [fetch_file(file, folder, QUICK) for file in files] == [True, True, False]
    assert list(folder.files("_failed")) == ["f0002.json"]
    assert list(extract_block(FileBlock(files=tuple(files[:2])), settings_of(folder))) == ["f0000"]
    assert list(folder.files("_failed")) == ["f0001.json", "f0002.json"]
    assert folder.files("_fetched") == {}


def test_slower_attempt_at_a_block_leaves_what_the_faster_one_wrote(folder, monkeypatch):
    with web_server({f"/f000{n}": data for n, data in enumerate(crawl_files(2, pages=5))}) as web:
        files = tuple(files_of(2, f"{web.url}/"))
        assert all(fetch_file(file, folder, QUICK) for file in files)
    block, settings = FileBlock(files=files), settings_of(folder)
    slow = extract_block(block, settings)
    real = extract._extract_file

    def overtaken(*given):
        monkeypatch.setattr(extract, "_extract_file", real)
        done = real(*given)
        assert list(extract_block(block, settings)) == ["f0000", "f0001"]
        return done

    monkeypatch.setattr(extract, "_extract_file", overtaken)
    assert list(slow) == []
    index = SentenceIndex(folder)
    index.refresh()
    assert index.has("en", "f0000")
    assert index.has("en", "f0001")
    assert folder.files("_failed") == {}


def test_waves_leave_the_tables_as_they_are_and_no_copy(
    tmp_path, crawl, model, tables, monkeypatch, capsys
):
    monkeypatch.setattr(module, "_ON_A_DISK", 1)
    with web_server(crawl) as web:
        flags = ("--fetch-pause", "0.01", "--downloads", 1, "--contact", "mailto:me@a.example")
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *flags) == DONE
        assert web.most_at_once == 1
        agents = {request.headers["user-agent"] for request in web.requests}
        paths = [request.path for request in web.requests]
    assert all("mailto:me@a.example" in agent for agent in agents)
    assert len(paths) == len(set(paths)) == 1 + 4  # each file once, whole
    assert read_tables(tmp_path / "out") == tables
    assert capsys.readouterr().err.count("Fetching 1 files") == 4
    assert not (tmp_path / "out" / "_fetched").exists()


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
