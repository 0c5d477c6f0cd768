"""A server on loopback that speaks as much of the Hugging Face Hub as reading a dataset takes."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.web import Handler, serving

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
                self._send_entries(entries)
            elif path.startswith(_API):
                self._say(200, json.dumps({"id": REPOSITORY, "sha": _COMMIT}).encode())
            elif (name := path.removeprefix(f"/datasets/{REPOSITORY}/resolve/main/")) in files:
                self._send_file(files[name])
            else:
                self._say(404, b"{}")

        do_HEAD = do_GET

        def _send_entries(self, entries: list[dict[str, Any]]) -> None:
            if entries:
                self._say(200, json.dumps(entries).encode())
            else:
                self._say(404, b"{}", {"X-Error-Code": "EntryNotFound"})

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
