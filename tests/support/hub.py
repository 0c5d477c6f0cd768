"""A server on loopback that speaks as much of the Hugging Face Hub as reading a dataset takes."""

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if self.headers.get("Authorization") != f"Bearer {token}":
                self._send(401, b"{}")
            elif path.startswith(f"{_API}/tree/main"):
                entries = _tree(files, path.removeprefix(f"{_API}/tree/main").strip("/"))
                self._send_entries(entries)
            elif path.startswith(_API):
                self._send(200, json.dumps({"id": REPOSITORY, "sha": _COMMIT}).encode())
            elif (name := path.removeprefix(f"/datasets/{REPOSITORY}/resolve/main/")) in files:
                self._send_file(files[name])
            else:
                self._send(404, b"{}")

        do_HEAD = do_GET

        def _send_entries(self, entries: list[dict[str, Any]]) -> None:
            if entries:
                self._send(200, json.dumps(entries).encode())
            else:
                self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})

        def _send_file(self, data: bytes) -> None:
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
            if wanted is None:
                self._send(200, data)
                return
            start, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            place = {"Content-Range": f"bytes {start}-{last}/{len(data)}"}
            self._send(206, data[start : last + 1], place)

        def _send(self, status: int, data: bytes, more: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            headers = {"Content-Length": str(len(data)), "ETag": f'"{_digest(data)}"'}
            for name, value in {**headers, "X-Repo-Commit": _COMMIT, **(more or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


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
