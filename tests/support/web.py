"""A real web server on loopback whose answers go wrong as a test says.

    with web_server({"/a.gz": b"..."}, {"/a.gz": ["503 Retry-After: 1", "close early"]}) as web:
        ...  # the third request for /a.gz gets the file

What an answer can be:

- `ok`: the file;
- `wait SECONDS`: the file, after a while;
- a status, such as `503` or `404`, and perhaps one header: `429 Retry-After: 2`;
- `close early`: the length of the whole file and half of it, then the connection is closed;
- `reset`: the same, but the connection is reset;
- `stall`: the same, but then nothing more comes;
- `drip`: the same, but then a byte comes now and then;
- `no length`: the whole file in HTTP chunks;
- `no length cut`: the same, without the chunk that ends it;
- `until close`: the whole file without a length, ended by closing the connection, as HTTP/1.0 did;
- `encoded`: the file, said to be Content-Encoding: gzip;
- `page`: a web page with the status 200 in place of the file.
"""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_DRIP_SECONDS = 0.02
_PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html><html><body>Please log in.</body></html>"
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """A request that came in.

    Attributes:
        path: What was asked for, without the query.
        headers: Names in lower case.
        time: When, as `time.monotonic` says it.
    """

    path: str
    headers: Mapping[str, str]
    time: float


@dataclass(slots=True)
class Web:
    """A running server.

    Attributes:
        url: Its address, without a slash at the end.
        content: The files by path, such as `/a.gz`, or the folder they lie in.
        faults: The next answers by path; used up from the front, then it is `ok`.
        requests: What was asked so far.
        at_once: Requests that are being answered.
        most_at_once: Most that there were.
    """

    url: str
    content: Mapping[str, bytes] | Path
    faults: dict[str, list[str]] = field(default_factory=dict)
    requests: list[WebRequest] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)
    at_once: int = 0
    most_at_once: int = 0

    def begin(self, request: WebRequest) -> str:
        """Register a request; return what its answer is."""
        with self.lock:
            self.requests.append(request)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            script = self.faults.get(request.path, [])
            return script.pop(0) if script else "ok"

    def end(self) -> None:
        """Register that a request was answered."""
        with self.lock:
            self.at_once -= 1

    def read(self, path: str) -> bytes | None:
        """Return a file, None if there is none."""
        if not isinstance(self.content, Path):
            return self.content.get(path)
        file = self.content / path.lstrip("/")
        return file.read_bytes() if file.is_file() else None

    def times(self) -> list[float]:
        """Return when the requests came."""
        return [request.time for request in self.requests]


@contextlib.contextmanager
def web_server(
    content: Mapping[str, bytes] | Path, faults: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Web]:
    """Run a server in a thread, and end it with all its connections."""
    web = Web(url="", content=content, faults={p: list(f) for p, f in (faults or {}).items()})
    with serving(partial(_Handler, web)) as web.url:
        try:
            yield web
        finally:
            web.closing.set()


def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> AbstractContextManager[str]:
    """Answer requests by a handler in a thread; yield the address, without a slash at the end."""
    return running(_Server(("127.0.0.1", 0), handler))


@contextlib.contextmanager
def running(server: HTTPServer) -> Iterator[str]:
    """Run a server of loopback in a thread; yield its address, without a slash at the end."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close waits for them

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: clients that go away are what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    """Answers requests without a word on standard error."""

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer; of one to HEAD no body."""
        self.start(status, {**headers, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def end_headers(self) -> None:
        """Close the connection after the answer, so that no thread waits for another request."""
        self.send_header("Connection", "close")
        super().end_headers()


class _Handler(Handler):
    protocol_version = "HTTP/1.1"

    def __init__(self, web: Web, *given: Any) -> None:
        self.web = web
        super().__init__(*given)

    def do_GET(self) -> None:
        """Answer as the script says."""
        self.close_connection = True
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        kind = self.web.begin(WebRequest(path=path, headers=headers, time=time.monotonic()))
        body = self.web.read(path)
        try:
            self._answer(kind, body)
        finally:
            self.web.end()

    def _answer(self, kind: str, body: bytes | None) -> None:
        if kind.startswith("wait "):
            time.sleep(float(kind[5:]))
            kind = "ok"
        with contextlib.suppress(OSError):
            if body is None:
                self.send(404, {}, b"nothing here")
            elif kind[:3].isdigit():
                name, _, value = kind[4:].partition(": ")
                self.send(int(kind[:3]), {name: value} if name else {}, b"made up by a test")
            else:
                self._send(kind, body)

    def _send(self, kind: str, body: bytes) -> None:
        """Send a file, or what the fault leaves of it."""
        if kind.startswith("no length"):
            self.start(200, {"Transfer-Encoding": "chunked"})
            half = len(body) // 2
            for part in (body[:half], body[half:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n" if kind == "no length" else b"")
        elif kind == "until close":
            self.start(200, {})
            self.wfile.write(body)
        elif kind == "page":
            self.send(200, {}, _PAGE)
        elif kind in ("ok", "encoded"):
            self.send(200, {"Content-Encoding": "gzip"} if kind == "encoded" else {}, body)
        else:
            self.start(200, {"Content-Length": str(len(body))})
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self._leave_off(kind)

    def _leave_off(self, kind: str) -> None:
        """Do what a fault does after half of a file."""
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        while kind in ("stall", "drip") and not self._client_has_gone():
            if kind == "drip":
                self.wfile.write(b"x")
                time.sleep(_DRIP_SECONDS)

    def _client_has_gone(self) -> bool:
        """Wait a moment; tell whether there is nobody left to wait for."""
        readable, _, _ = select.select([self.connection], [], [], _LOOK_SECONDS)
        return self.web.closing.is_set() or bool(readable and not self.connection.recv(1))
