"""Files of a crawl that cannot be read, for a while or for good."""

import gzip
import json
import re
import shutil

from bertscore_beam.run import BROKEN, DONE
from tests.support.crawls import (
    TABLES,
    crawl_files,
    description,
    read_tables,
    run_baseline,
)
from tests.support.web import web_server
from tests.support.wet import CRAWL, member, write_crawl

SPLIT = b"WARC/1.0\r\n"
LENGTH = re.compile(rb"Content-Length: (\d+)")
SOON = ("--fetch-pause", "0.01", "--fetch-timeout", "0.5")


def test_each_fault_that_passes_costs_a_retry(tmp_path, crawl, model, names, tables):
    several = (
        ["503", "stall", "stall"],
        ["429 Retry-After: 1"],
        ["close early", "close early", "503", "503"],
        ["reset", "429 Retry-After: 1", "reset", "reset"],
    )
    faults = {f"/{name}": of_file for name, of_file in zip(names, several, strict=True)}
    with web_server(crawl, faults) as web:
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *SOON) == DONE
    unchanged = tuple(name for name in TABLES if not name.endswith(".json"))
    assert read_tables(tmp_path / "out", unchanged) == {name: tables[name] for name in unchanged}
    assert description(tmp_path / "out")["source"]["retries"] == 12


def test_file_that_cannot_be_read_ends_the_run_and_is_tried_again(
    tmp_path, crawl, model, names, tables, capsys
):
    output = tmp_path / "out"
    flags = (*SOON, "--fetch-attempts", 2)
    with web_server(crawl, {f"/{names[0]}": ["503"] * 2, f"/{names[3]}": ["404"]}) as web:
        assert run_baseline(f"{web.url}/", output, model, *flags) == BROKEN
        said = capsys.readouterr().err
        assert not list(output.glob("*/*.tsv"))
        assert "could not be read, more than --max-reject-fraction 0.01 allows" in said
        assert run_baseline(f"{web.url}/", output, model, *flags) == DONE
        paths = [request.path for request in web.requests]
    unchanged = tuple(name for name in TABLES if name.endswith(".tsv"))
    assert read_tables(output, unchanged) == {name: tables[name] for name in unchanged}
    assert paths.count(f"/{names[1]}") == 1  # what was read is not read again
    assert not list((output / "_failed").rglob("*.json"))


def test_truncated_file_is_counted_and_named(tmp_path, crawl, model, names, capsys):
    cut = shutil.copytree(crawl, tmp_path / "crawl")
    file = cut / names[0]
    file.write_bytes(file.read_bytes()[:-1000])
    output = tmp_path / "out"
    allowed = ("--max-reject-fraction", 0.5, "--first-files", 4)
    assert run_baseline(cut, output, model, *allowed) == DONE
    assert "files could not be read: en 1, de 1; see _failed/." in capsys.readouterr().err
    failed = description(output)["source"]["failed"]
    assert [note["file"] for note in failed] == [names[0]]
    assert "ends" in failed[0]["reason"]
    assert len(description(output)["source"]["files"]) == 3
    # Repaired, it is read by the next run, which takes the sample again.
    shutil.copy(crawl / names[0], file)
    assert run_baseline(cut, output, model, "--first-files", 4) == DONE
    assert description(output)["source"]["failed"] == []
    assert len(description(output)["source"]["files"]) == 4


def crawl_with_broken_records(root, broken, pages):
    """Write a crawl of one file, one record a member, with wrong lengths in so many of them."""
    (whole,) = crawl_files(1, pages=pages)
    members = [member(content) for content in gzip.decompress(whole).split(SPLIT)[1:]]
    first, *others = [SPLIT + gzip.decompress(item) for item in members]
    wrong = [
        LENGTH.sub(lambda found: b"Content-Length: %d" % (int(found[1]) + 5), item)
        for item in others[:broken]
    ]
    write_crawl(root, [b"".join(map(member, [first, *wrong, *others[broken:]]))])
    return root


def test_file_with_many_broken_records_fails_by_name_and_one_with_few_says_so(
    tmp_path, model, capsys
):
    bad = crawl_with_broken_records(tmp_path / "bad", 120, 133)
    assert run_baseline(bad, tmp_path / "out", model) == BROKEN
    said = capsys.readouterr().err
    assert "00000.warc.wet.gz: CrawlFileError: a crawl file has too many broken records" in said
    assert "got 120 of 134 that cannot be read (89.6%); expected at most 1%" in said
    assert not list((tmp_path / "out").glob("*/*.tsv"))
    fine = crawl_with_broken_records(tmp_path / "fine", 2, 299)
    assert run_baseline(fine, tmp_path / "few", model, "--languages", "en") == DONE
    said = capsys.readouterr().err
    assert "records could not be read and were left out: en 2 of 300." in said
    source = description(tmp_path / "few")["source"]
    assert (source["records"], source["records_broken"]) == (300, 2)
    summary = json.loads((tmp_path / "few" / "_summary.json").read_text())
    assert summary["languages"]["en"]["records_broken"] == 2


def test_server_that_is_down_stops_the_run(tmp_path, crawl, model, capsys):
    listing = f"/crawl-data/{CRAWL}/wet.paths.gz"
    flags = (*SOON, "--fetch-attempts", 2)
    with web_server(crawl, {listing: ["503", "503"]}) as web:
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *flags) == BROKEN
    assert "continues from there" in capsys.readouterr().err
