"""Text files of web servers that do not say their length, or send them from the beginning only."""

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.formats import Codec, Format
from bertscore_beam.dump.read_split import read_rows
from bertscore_beam.dump.text.source import open_text
from bertscore_beam.run.exit_status import BROKEN, DONE, UNUSABLE
from tests.support.dumps import pair_rows, read_output
from tests.support.text_files import plan_text, to_csv, to_jsonl, write_text

ROWS = [
    dict(zip(("id", "candidate", "reference"), row, strict=True))
    for row in zip(*pair_rows(40).values(), strict=True)
]
DATA = {
    ".jsonl": to_jsonl(ROWS),
    ".jsonl.gz": to_jsonl(ROWS),
    ".csv": to_csv([list(ROWS[0]), *([str(value) for value in row.values()] for row in ROWS)]),
}
TEXTS = [row["candidate"] for row in ROWS]


class WithoutRanges(http.server.SimpleHTTPRequestHandler):
    """Answers with whole files, as `python -m http.server` does."""

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class WithoutLength(WithoutRanges):
    """Does not say how long files are, either: the end of the connection ends a file."""

    def send_header(self, keyword: str, value: str) -> None:
        """Send a line of the head, unless it is the length."""
        if keyword != "Content-Length":
            super().send_header(keyword, value)


class SaysSo(WithoutRanges):
    """Says in its answers that it sends no ranges."""

    def end_headers(self) -> None:
        """End the head."""
        self.send_header("Accept-Ranges", "none")
        super().end_headers()


@contextmanager
def served(folder: Path, handler: type[WithoutRanges]) -> Iterator[str]:
    """Serve a folder on loopback; return its address."""
    made = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


HANDLERS = (WithoutRanges, WithoutLength, SaysSo)


@pytest.mark.process
@pytest.mark.parametrize("rows", [20_000, 7])
@pytest.mark.parametrize("suffix", DATA)
@pytest.mark.parametrize("handler", HANDLERS)
def test_every_row_of_a_server_without_ranges_or_length_is_read(
    tmp_path: Path, handler: type[WithoutRanges], suffix: str, rows: int
) -> None:
    write_text(tmp_path / f"web{suffix}", DATA[suffix])
    good = write_text(tmp_path / "good.csv", DATA[".csv"])
    with served(tmp_path, handler) as url:
        plan = plan_text((str(good), f"{url}/web{suffix}"), tmp_path / "out", rows)
    found = [text for one in plan.splits for text in read_rows(one).table["candidate"].to_pylist()]
    assert found == TEXTS * 2
    assert not plan.rejected_files
    assert len(plan.splits) == 2 if rows > len(TEXTS) else 12


@pytest.mark.process
@pytest.mark.parametrize("handler", HANDLERS)
def test_file_of_a_server_is_imported_again_by_every_run_that_cannot_see_its_version(
    tmp_path: Path, handler: type[WithoutRanges]
) -> None:
    write_text(tmp_path / "web" / "a.jsonl", DATA[".jsonl"])
    with served(tmp_path / "web", handler) as url:
        words = ["score", "--input", f"{url}/a.jsonl", "--output", str(tmp_path / "out")]
        assert cli.main([*words, "--device", "cpu", "--quiet"]) == DONE
        write_text(tmp_path / "web" / "a.jsonl", to_jsonl(ROWS[:-1]))
        os.utime(tmp_path / "web" / "a.jsonl", (1, 1))
        assert cli.main([*words, "--device", "cpu", "--quiet"]) == DONE
        assert read_output(tmp_path / "out")["candidate"].to_pylist() == TEXTS[:-1]
    # A server that does not answer is no reason to take an earlier import for the file.
    before = read_output(tmp_path / "out").num_rows
    assert cli.main([*words, "--device", "cpu", "--quiet"]) in (BROKEN, UNUSABLE)
    assert read_output(tmp_path / "out").num_rows == before


def test_an_error_of_a_store_is_not_taken_for_one_of_a_web_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not an address")
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # of other tests
    whole = open_text("s3://some-bucket/x.jsonl", Format.JSONL, Codec.NONE, size=9, version="1")
    with pytest.raises(ValueError, match="Invalid endpoint: not an address"), whole:
        pass
