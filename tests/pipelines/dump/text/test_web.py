"""Text files of web servers: all rows, or an error for that file, whatever the server sends."""

import functools
import gzip
import os
from contextlib import AbstractContextManager
from pathlib import Path

import fsspec
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.text import text_records, text_source
from bertscore_beam.dump.text.text_source import open_text
from bertscore_beam.dump.text.to_parquet import read_columns
from bertscore_beam.run.output import BROKEN, DONE, UNUSABLE
from bertscore_core.errors import InputError
from tests.pipelines.dump.text.convert import convert, text_file
from tests.support.dumps import read_output
from tests.support.text_files import to_csv, to_jsonl, write_text
from tests.support.web import Handler, serving

pytestmark = pytest.mark.process

ROWS = [{"candidate": f"the cat {n} {n * n}", "reference": "a cat"} for n in range(3_000)]
CSV = to_csv([list(ROWS[0]), *(list(row.values()) for row in ROWS)])
DATA = {".jsonl": to_jsonl(ROWS), ".jsonl.gz": to_jsonl(ROWS), ".csv": CSV, ".csv.zst": CSV}


class Server(Handler):
    """Sends whole files and no ranges; `ways` says how."""

    def __init__(self, *arguments, folder: Path, ways: str) -> None:
        self.folder, self.ways = folder, ways
        self.protocol_version = "HTTP/1.1" if "chunked" in ways else "HTTP/1.0"
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        self.begin()

    def do_GET(self) -> None:
        data = self.begin()
        if "breaks off" in self.ways:
            # Between two lines, so that no line tells; in a compressed file anywhere.
            data = data[: data.find(b"\n", len(data) // 2) + 1 or len(data) // 2]
        if "chunked" not in self.ways:
            self.wfile.write(data)
            return
        for start in range(0, len(data), 5_000):
            piece = data[start : start + 5_000]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if "breaks off" in self.ways:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def begin(self) -> bytes:
        data = (self.folder / self.path[1:]).read_bytes()
        if "packed on the fly" in self.ways:
            data = gzip.compress(data)
        self.send_response(403 if "refuses" in self.ways else 200)
        if "chunked" in self.ways:
            self.send_header("Transfer-Encoding", "chunked")
        elif "without a length" not in self.ways:
            self.send_header("Content-Length", str(len(data)))
        # Some say of a .gz file that the transfer is compressed, and not the file.
        is_called_so = "calls it encoded" in self.ways and self.path.endswith(".gz")
        if is_called_so or "packed on the fly" in self.ways:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        return data


def served(folder: Path, ways: str = "") -> AbstractContextManager[str]:
    return serving(functools.partial(Server, folder=folder, ways=ways))


@pytest.mark.parametrize("suffix", DATA)
@pytest.mark.parametrize("ways", ["", "without a length", "chunked", "calls it encoded"])
def test_all_rows_come_from_any_server(tmp_path, monkeypatch, ways, suffix):
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(text_records, "PIECE_BYTES", 20_000)
    path = write_text(tmp_path / f"web{suffix}", DATA[suffix])
    with served(tmp_path, ways) as url:
        table, lines = convert(f"{url}/{path.name}")
        _, estimated = read_columns(text_file(f"{url}/{path.name}"))
    assert table.to_pylist() == ROWS
    assert not lines.bad
    assert (estimated.num_rows > 0) is (ways in ("", "calls it encoded"))


def test_server_that_compresses_what_it_sends_is_read_too(tmp_path):
    write_text(tmp_path / "web.jsonl", DATA[".jsonl"])
    write_text(tmp_path / "web.jsonl.gz", DATA[".jsonl"])
    with served(tmp_path, "packed on the fly") as url:
        assert convert(f"{url}/web.jsonl")[0].to_pylist() == ROWS
        with pytest.raises(InputError, match="does not hold lines of JSON"):
            convert(f"{url}/web.jsonl.gz")


@pytest.mark.parametrize("suffix", DATA)
@pytest.mark.parametrize("ways", ["", "chunked ", "without a length "])
def test_file_that_breaks_off_is_an_error(tmp_path, monkeypatch, ways, suffix):
    monkeypatch.setattr("bertscore_beam.dump.text.to_parquet.SAMPLE_BYTES", 1_000)
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 2_000)
    write_text(tmp_path / f"web{suffix}", DATA[suffix])
    with served(tmp_path, f"{ways}breaks off") as url:
        if ways == "without a length " and suffix in (".jsonl", ".csv"):
            # HTTP ends such a file where the connection ends: nothing can tell.
            assert 1 <= len(convert(f"{url}/web{suffix}")[0]) < len(ROWS)
            return
        with pytest.raises(
            (OSError, InputError), match=r"cannot be reached: got Resp[^<]*$|cannot be decompr"
        ):
            convert(f"{url}/web{suffix}")


def test_server_that_refuses_is_an_error_of_the_file(tmp_path):
    write_text(tmp_path / "web.csv", DATA[".csv"])
    with (
        served(tmp_path, "refuses") as url,
        pytest.raises(OSError, match=r"web.csv. cannot be reached: got status 403 Forb"),
    ):
        convert(f"{url}/web.csv")
    with pytest.raises(OSError, match=r"got no connection to 127\.0\.0\.1:"):
        convert(f"{url}/web.csv")


@pytest.mark.parametrize("ways", ["", "without a length"])
def test_file_of_a_server_is_imported_again_by_every_run_that_cannot_see_its_version(
    tmp_path, ways
):
    write_text(tmp_path / "web" / "a.jsonl", to_jsonl(ROWS[:10]))
    with served(tmp_path / "web", ways) as url:
        words = ["score", "--input", f"{url}/a.jsonl", "--output", str(tmp_path / "out")]
        assert cli.main([*words, "--device", "cpu", "--quiet"]) == DONE
        write_text(tmp_path / "web" / "a.jsonl", to_jsonl(ROWS[:9]))
        os.utime(tmp_path / "web" / "a.jsonl", (1, 1))
        assert cli.main([*words, "--device", "cpu", "--quiet"]) == DONE
        texts = read_output(tmp_path / "out")["candidate"].to_pylist()
        assert texts == [row["candidate"] for row in ROWS[:9]]
    # A server that does not answer is no reason to take an earlier import for the file.
    assert cli.main([*words, "--device", "cpu", "--quiet"]) in (BROKEN, UNUSABLE)
    assert read_output(tmp_path / "out").num_rows == len(texts)


def test_an_error_of_a_store_is_not_taken_for_one_of_a_web_server(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not an address")
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # of other tests
    text = text_file("s3://some-bucket/x.jsonl", size=9, version="1")
    with pytest.raises(ValueError, match="Invalid endpoint"), open_text(text) as stream:
        next(stream.blocks())
