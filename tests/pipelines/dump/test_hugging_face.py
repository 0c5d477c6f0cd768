"""Reading a dataset through `hf://`: the real client against a server on loopback."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.text_files import to_csv, to_jsonl
from tests.support.web import Handler, serving

pytestmark = [pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).parents[3]
TOKEN = "hf_secret_of_the_test"
# In a process of its own: the client reads its environment once.
READ = """
import json, sys
from bertscore_beam.dump.read_rows import read_split
from tests.support.text_files import plan_text

plan = plan_text(sys.argv[1], sys.argv[2], rows=20)
read = [(split, read_split(split)) for split in plan.splits]
print(json.dumps({
    "splits": [(s.input_name, s.row_offset, bool(s.file_version)) for s, _ in read],
    "rows": [row for _, rows in read for row in rows.to_pylist()],
}))
"""

REPOSITORY = "team/texts"
_API = f"/api/datasets/{REPOSITORY}"
_COMMIT = "1" * 40


@contextlib.contextmanager
def hub(files: Mapping[str, bytes], token: str) -> Iterator[str]:
    """Serve the files of one private dataset; yield the address for HF_ENDPOINT.

    Args:
        files: Content by path in the repository.
        token: Without it every answer is 401.
    """

    class Hub(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if self.headers.get("Authorization") != f"Bearer {token}":
                self._say(401, b"{}")
            elif path.startswith(f"{_API}/tree/main"):
                entries = _tree(files, path.removeprefix(f"{_API}/tree/main").strip("/"))
                missing = {} if entries else {"X-Error-Code": "EntryNotFound"}
                self._say(200 if entries else 404, json.dumps(entries or {}).encode(), missing)
            elif path.startswith(_API):
                self._say(200, json.dumps({"id": REPOSITORY, "sha": _COMMIT}).encode())
            elif (name := path.removeprefix(f"/datasets/{REPOSITORY}/resolve/main/")) in files:
                self._send_file(files[name])
            else:
                self._say(404, b"{}")

        do_HEAD = do_GET

        def _send_file(self, data: bytes) -> None:
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
            if wanted is None:
                self._say(200, data)
                return
            start, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            place = {"Content-Range": f"bytes {start}-{last}/{len(data)}"}
            self._say(206, data[start : last + 1], place)

        def _say(self, status: int, data: bytes, more: Mapping[str, str] | None = None) -> None:
            headers = {"ETag": f'"{_digest(data)}"', "X-Repo-Commit": _COMMIT, **(more or {})}
            self.send(status, headers, data)

    with serving(Hub) as url:
        yield url


def _tree(files: Mapping[str, bytes], folder: str) -> list[dict[str, Any]]:
    """Return what lies directly in a folder."""
    entries: dict[str, dict[str, Any]] = {}
    above = f"{folder}/" if folder else ""
    for name, data in files.items():
        if name.startswith(above):
            path = above + name.removeprefix(above).partition("/")[0]
            kind = "file" if path == name else "directory"
            size = len(data) if path == name else 0
            entries[path] = {"type": kind, "path": path, "size": size, "oid": _digest(data)}
    return list(entries.values())


def _digest(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def read_through(
    endpoint: str, path: str, folder: Path, token: str = TOKEN
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "HF_ENDPOINT": endpoint,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_TOKEN": token,
        "PYTHONPATH": str(ROOT),
    }
    source = f"hf://datasets/{REPOSITORY}/{path}"
    command = [sys.executable, "-c", READ, source, str(folder / path.replace("/", "_"))]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


def test_private_dataset_is_listed_cut_and_read_with_its_partitions(tmp_path):
    rows = [{"candidate": f"a {n}", "reference": f"the {n}"} for n in range(50)]
    cells = [["candidate", "reference"], ["ein Hund", "der\nHund"]]
    files = {
        "README.md": b"about",
        "data/a.jsonl": to_jsonl(rows),
        "data/lang=de/b.csv.gz": gzip.compress(to_csv(cells)),
        "other/c.jsonl": to_jsonl(rows),
    }
    with hub(files, TOKEN) as endpoint:
        found = [read_through(endpoint, path, tmp_path) for path in ("data", "data/**/*.gz")]
        refused = read_through(endpoint, "data", tmp_path / "refused", token="hf_wrong")
    whole, packed = (json.loads(one.stdout) for one in found)
    german = {"candidate": "ein Hund", "reference": "der\nHund", "lang": "de"}
    assert whole["rows"] == [*rows, german]
    assert whole["splits"] == [
        *(["a.jsonl", row, True] for row in (0, 16, 33)),
        ["lang=de/b.csv.gz", 0, True],
    ]
    assert packed["rows"] == [german]
    assert refused.returncode != 0
    assert "hf_wrong" not in refused.stdout + refused.stderr
