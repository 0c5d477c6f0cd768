"""Text files of web servers that do not say their length, or send them from the beginning only."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha512
from pathlib import Path

import pytest

from bertscore_beam.dump.formats import Codec
from bertscore_beam.dump.plan import FileReason
from bertscore_beam.dump.read_split import read_rows
from bertscore_beam.dump.text_source import open_text
from tests.support.dumps import pair_rows
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


NO_LENGTH = "the length of the file is not known: its server does not say how many bytes it has"
NO_RANGES = "can only be read from its beginning: its server does not send ranges of bytes"
HANDLERS = (WithoutRanges, WithoutLength, SaysSo)
# (handler, suffix, most rows in a split) -> the message about the file; others are read whole
REFUSED = {
    (WithoutRanges, ".jsonl", 7): NO_RANGES,
    # fsspec does not learn the length from a server that says it has no ranges.
    **{(handler, ".jsonl", rows): NO_LENGTH for handler in HANDLERS[1:] for rows in (7, 20_000)},
    **{(handler, ".csv", 7): NO_RANGES for handler in HANDLERS},
}


@pytest.mark.process
@pytest.mark.parametrize("rows", [20_000, 7])
@pytest.mark.parametrize("suffix", DATA)
@pytest.mark.parametrize("handler", HANDLERS)
def test_file_of_a_server_without_ranges_is_read_whole_or_refused_by_name(
    tmp_path: Path, handler: type[WithoutRanges], suffix: str, rows: int
) -> None:
    write_text(tmp_path / f"web{suffix}", DATA[suffix])
    good = write_text(tmp_path / "good.csv", DATA[".csv"])
    with served(tmp_path, handler) as url:
        plan = plan_text((str(good), f"{url}/web{suffix}"), rows)
        found = [
            text for one in plan.splits for text in read_rows(one).table["candidate"].to_pylist()
        ]
    words = REFUSED.get((handler, suffix, rows))
    assert found == TEXTS * (2 if words is None else 1)
    assert [(file.path, file.reason) for file in plan.rejected_files] == (
        [] if words is None else [(f"{url}/web{suffix}", FileReason.UNREADABLE)]
    )
    assert all(words in file.message for file in plan.rejected_files)


@pytest.mark.process
@pytest.mark.parametrize("suffix", [".jsonl.gz", ".csv"])
def test_file_that_is_read_block_by_block_is_refused_by_name_without_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr("bertscore_beam.dump.text_source.BLOCK_BYTES", 100)
    # Arrow asks for 64 KiB of a compressed file at once, however small the blocks are.
    noise = [{"candidate": sha512(b"%d" % n).hexdigest(), "reference": ""} for n in range(2_000)]
    data = to_jsonl(noise) if suffix == ".jsonl.gz" else DATA[suffix]
    write_text(tmp_path / f"web{suffix}", data)
    good = write_text(tmp_path / "good.jsonl", DATA[".jsonl"])
    with served(tmp_path, WithoutRanges) as url:
        plan = plan_text((str(good), f"{url}/web{suffix}"))
    assert [split.path for split in plan.splits] == [str(good)]
    assert [NO_RANGES in file.message for file in plan.rejected_files] == [True]


@pytest.mark.process
def test_server_that_sends_no_ranges_after_planning_fails_only_its_own_splits(
    tmp_path: Path,
) -> None:
    write_text(tmp_path / "web.csv", DATA[".csv"])
    with served(tmp_path, WithoutRanges) as url:
        (split,) = plan_text(f"{url}/web.csv").splits
        later = replace(split, start=500, format="tsv-raw")
        with pytest.raises(OSError, match=NO_RANGES):
            read_rows(later)


def test_an_error_of_a_store_is_not_taken_for_one_of_a_web_server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not an address")
    whole = open_text("s3://some-bucket/x.jsonl", Codec.NONE, size=9, version="1", span=(0, 9))
    with pytest.raises(ValueError, match="Invalid endpoint: not an address"), whole:
        pass
