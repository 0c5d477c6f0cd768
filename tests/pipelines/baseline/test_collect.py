"""Files of a crawl that cannot be read, for a while or for good."""

import json
import shutil

from bertscore_beam.cli.main import main
from bertscore_beam.run.output import BROKEN, DONE
from tests.support.crawl_texts import sentences
from tests.support.crawls import NAMES, assert_same, description, run_baseline
from tests.support.text_files import to_jsonl, write_text
from tests.support.web import web_server
from tests.support.wet import CRAWL

SOON = ("--fetch-pause", "0.01", "--fetch-timeout", "0.5")


def test_file_that_cannot_be_read_ends_the_run_and_is_tried_again(
    tmp_path, crawl, model, tables, capsys
):
    output = tmp_path / "out"
    flags = (*SOON, "--fetch-attempts", 2, "--downloads", 1, "--contact", "mailto:me@a.example")
    faults = {NAMES[0]: ["503"] * 2, NAMES[1]: ["close early"], NAMES[3]: ["404"]}
    with web_server(crawl, {f"/{name}": of_file for name, of_file in faults.items()}) as web:
        assert run_baseline(f"{web.url}/", output, model, *flags) == BROKEN
        said = capsys.readouterr().err
        assert not list(output.glob("*/*.tsv"))
        assert "could not be read, more than --max-reject-fraction 0.01 allows" in said
        assert run_baseline(f"{web.url}/", output, model, *flags) == DONE
        assert web.most_at_once == 1
        paths = [request.path for request in web.requests]
        agents = {request.headers["user-agent"] for request in web.requests}
    assert_same(output, tables, ".tsv")
    assert all("mailto:me@a.example" in agent for agent in agents)
    # What was read is not read again.
    assert [paths.count(f"/{name}") for name in NAMES] == [3, 2, 1, 2]
    assert description(output)["source"]["retries"] == 1
    assert not list((output / "_failed").rglob("*.json"))


def test_truncated_file_is_counted_and_named(tmp_path, crawl, model, capsys):
    cut = shutil.copytree(crawl, tmp_path / "crawl")
    file = cut / NAMES[0]
    file.write_bytes(file.read_bytes()[:-1000])
    output = tmp_path / "out"
    allowed = ("--max-reject-fraction", 0.5, "--first-files", 4)
    assert run_baseline(cut, output, model, *allowed) == DONE
    assert "files could not be read: en 1, de 1; see _failed/." in capsys.readouterr().err
    failed = description(output)["source"]["failed"]
    assert [note["file"] for note in failed] == [NAMES[0]]
    assert "Compressed file ended" in failed[0]["reason"]
    assert len(description(output)["source"]["files"]) == 3
    # Repaired, it is read by the next run, which takes the sample again.
    shutil.copy(crawl / NAMES[0], file)
    assert run_baseline(cut, output, model, "--first-files", 4) == DONE
    assert description(output)["source"]["failed"] == []
    assert len(description(output)["source"]["files"]) == 4


def test_broken_documents_are_left_out_and_said(tmp_path, model, capsys):
    texts = sentences("en", 100, 1)
    rows = [{"text": text, "url": f"https://h{n}.example/"} for n, text in enumerate(texts)]
    file = write_text(tmp_path / "a.jsonl", to_jsonl([*rows, {}]))
    words = f"baseline --documents en={file} --output {tmp_path}/out --models {model} --pairs 20"
    assert main(words.split()) == DONE
    assert "records could not be read and were left out: en 1 of 101." in capsys.readouterr().err
    source = description(tmp_path / "out")["source"]
    assert (source["records"], source["records_broken"]) == (101, 1)
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["languages"]["en"]["records_broken"] == 1


def test_server_that_is_down_stops_the_run(tmp_path, crawl, model, capsys):
    listing = f"/crawl-data/{CRAWL}/wet.paths.gz"
    flags = (*SOON, "--fetch-attempts", 2)
    with web_server(crawl, {listing: ["503", "503"]}) as web:
        assert run_baseline(f"{web.url}/", tmp_path / "out", model, *flags) == BROKEN
    assert "Nothing was started" in capsys.readouterr().err
