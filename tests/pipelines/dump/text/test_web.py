"""Text files of web servers: all rows, or an error for that file, whatever the server sends."""

import gzip
import os

import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.text import read_columns, text_source, to_parquet
from bertscore_beam.run import BROKEN, DONE, UNUSABLE
from bertscore_core.errors import InputError
from tests.pipelines.dump.text.convert import convert, text_file
from tests.support.dumps import read_output
from tests.support.text_files import to_csv, to_jsonl, write_text
from tests.support.web import web_server

pytestmark = pytest.mark.process

ROWS = [{"candidate": f"the cat {n} {n * n}", "reference": "a cat"} for n in range(3_000)]
CSV = to_csv([list(ROWS[0]), *(list(row.values()) for row in ROWS)])
DATA = {".jsonl": to_jsonl(ROWS), ".jsonl.gz": to_jsonl(ROWS), ".csv": CSV, ".csv.zst": CSV}


@pytest.mark.parametrize("suffix", DATA)
@pytest.mark.parametrize("way", ["ok", "until close", "no length", "encoded"])
def test_all_rows_come_from_any_server(tmp_path, monkeypatch, way, suffix):
    """Some say of a .gz file that the transfer is compressed, and not the file."""
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(to_parquet, "PIECE_BYTES", 20_000)
    path = write_text(tmp_path / f"web{suffix}", DATA[suffix])
    way = "ok" if way == "encoded" and path.suffix != ".gz" else way
    with web_server(tmp_path, {f"/{path.name}": [way] * 2}) as web:
        table, lines = convert(f"{web.url}/{path.name}")
        _, estimated = read_columns(text_file(f"{web.url}/{path.name}"))
    assert table.to_pylist() == ROWS
    assert not lines.bad
    assert (estimated.num_rows > 0) is (way in ("ok", "encoded"))


def test_server_that_compresses_what_it_sends_is_read_too():
    packed = gzip.compress(DATA[".jsonl"])
    content = {"/web.jsonl": packed, "/web.jsonl.gz": gzip.compress(packed)}
    with web_server(content, {path: ["encoded"] for path in content}) as web:
        assert convert(f"{web.url}/web.jsonl")[0].to_pylist() == ROWS
        with pytest.raises(InputError, match="does not hold lines of JSON"):
            convert(f"{web.url}/web.jsonl.gz")


@pytest.mark.parametrize("suffix", DATA)
@pytest.mark.parametrize("way", ["cut", "no length, cut"])
def test_file_that_breaks_off_is_an_error(tmp_path, monkeypatch, way, suffix):
    monkeypatch.setattr(to_parquet, "SAMPLE_BYTES", 1_000)
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 2_000)
    write_text(tmp_path / f"web{suffix}", DATA[suffix])
    with (
        web_server(tmp_path, {f"/web{suffix}": [way]}) as web,
        pytest.raises((OSError, InputError), match=r"does not send all|cannot be decompr"),
    ):
        convert(f"{web.url}/web{suffix}")


def test_server_that_refuses_is_an_error_of_the_file():
    server = web_server({"/web.csv": CSV}, {"/web.csv": ["403"]})
    with server as web, pytest.raises(OSError, match="got 403"):
        convert(f"{web.url}/web.csv")
    with pytest.raises(OSError, match="Cannot connect"):
        convert(f"{web.url}/web.csv")


@pytest.mark.parametrize("way", ["ok", "until close"])
def test_file_of_a_server_is_imported_again_by_every_run_that_cannot_see_its_version(tmp_path, way):
    write_text(tmp_path / "web" / "a.jsonl", to_jsonl(ROWS[:10]))
    with web_server(tmp_path / "web", {"/a.jsonl": [way] * 9}) as web:
        words = ["score", "--input", f"{web.url}/a.jsonl", "--output", str(tmp_path / "out")]
        assert cli.main([*words, "--device", "cpu", "--quiet"]) == DONE
        write_text(tmp_path / "web" / "a.jsonl", to_jsonl(ROWS[:9]))
        os.utime(tmp_path / "web" / "a.jsonl", (1, 1))
        assert cli.main([*words, "--device", "cpu", "--quiet"]) == DONE
        texts = read_output(tmp_path / "out")["candidate"].to_pylist()
        assert texts == [row["candidate"] for row in ROWS[:9]]
    # A server that does not answer is no reason to take an earlier import for the file.
    assert cli.main([*words, "--device", "cpu", "--quiet"]) in (BROKEN, UNUSABLE)
    assert read_output(tmp_path / "out").num_rows == len(texts)
