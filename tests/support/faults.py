"""Faults of an object store, put in front of a real server and switched while it runs.

    store = Faults(application)              # a WSGI application around the server's own
    store.set(FaultRule(rate=0.3, kinds=("500",), seconds=2))

What a fault does to a request:

- `500`, `503`, `429`, `403`, `501`: the store answers with that status and does nothing (`503` as
  SlowDown; `403` as AccessDenied and `501` as NotImplemented, after which no client asks again:
  they come only where named);
- `lost`: the store does what it was asked, and the connection breaks before a word of the answer;
- `cut`: as `lost`, but half of the answer's body arrives first;
- `stall`: the store waits before it does what it was asked.
"""

import contextlib
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

KINDS = ("500", "503", "429", "lost", "cut", "stall")

_STATUS = {
    "500": ("500 Internal Server Error", "InternalError"),
    "503": ("503 Slow Down", "SlowDown"),
    "429": ("429 Too Many Requests", "TooManyRequests"),
    "403": ("403 Forbidden", "AccessDenied"),
    "501": ("501 Not Implemented", "NotImplemented"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Which requests go wrong, and how.

    Attributes:
        rate: Share of the requests, 0 to 1.
        kinds: What goes wrong, one of them at random; names of :data:`KINDS`.
        seconds: How long from now.
        stall: Seconds a stalled request waits.
        client: Only requests signed with this access key; "" for all.
        method: Only requests of this method, such as PUT; "" for all.
        query: Only requests that have this in their query; "" for all.
    """

    rate: float = 0.0
    kinds: Sequence[str] = KINDS
    seconds: float = 1e9
    stall: float = 5.0
    client: str = ""
    method: str = ""
    query: str = ""

    def means(self, environ: dict[str, Any]) -> bool:
        """Tell whether a request is one of those."""
        signed = environ.get("HTTP_AUTHORIZATION", "")
        return (
            (not self.client or f"Credential={self.client}/" in signed)
            and self.method in ("", environ["REQUEST_METHOD"])
            and self.query in unquote(environ.get("QUERY_STRING", ""))
        )


class Faults:
    """A WSGI application that lets some requests to another one go wrong.

    Several rules may hold at a time, one a client.

    Attributes:
        watch: Is called with each request before it is answered; None for nobody.
        happened: Faults so far, by kind.
        requests: Method and path of each request since this was set to a list; None for no list.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        """Keep what to stand in front of."""
        self._application = application
        self._random = random.Random(0)
        self._lock = threading.Lock()
        self._rules: dict[str, tuple[FaultRule, float]] = {}
        self.happened: Counter[str] = Counter()
        self.watch: Callable[[dict[str, Any]], object] | None = None
        self.requests: list[tuple[str, str]] | None = None

    def set(self, rule: FaultRule) -> None:
        """Let a rule hold from now on, in the place of an earlier one for the same client."""
        with self._lock:
            self._rules[rule.client] = (rule, time.monotonic() + rule.seconds)

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        """Answer a request."""
        if self.watch is not None:
            self.watch(environ)
        if self.requests is not None:
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        rule, kind = self._draw(environ)
        if rule is None:
            return self._application(environ, start_response)
        if kind in _STATUS:
            return _refuse(kind, environ, start_response)
        if kind == "stall":
            time.sleep(rule.stall)
            return self._application(environ, start_response)
        return self._break_off(environ, start_response, with_half=kind == "cut")

    def _draw(self, environ: dict[str, Any]) -> tuple[FaultRule | None, str]:
        """Decide what happens to a request."""
        with self._lock:
            now = time.monotonic()
            for rule, until in self._rules.values():
                if rule.means(environ) and now < until and self._random.random() < rule.rate:
                    kind = self._random.choice(tuple(rule.kinds))
                    self.happened[kind] += 1
                    return rule, kind
        return None, ""

    def _break_off(
        self, environ: dict[str, Any], start_response: Callable, *, with_half: bool
    ) -> Iterator[bytes]:
        """Carry a request out and break the connection; the web server keeps quiet about it."""
        answer: list[Any] = []
        body = b"".join(self._application(environ, lambda *given: answer.extend(given)))
        if with_half and len(body) > 1:
            headers = [pair for pair in answer[1] if pair[0].lower() != "content-length"]
            start_response(answer[0], [*headers, ("Content-Length", str(len(body)))])
            yield body[: len(body) // 2]
        with contextlib.suppress(OSError):
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError


def _refuse(kind: str, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
    """Answer as an object store that will not do it now."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    status, code = _STATUS[kind]
    body = f"<Error><Code>{code}</Code><Message>made up by a test</Message></Error>".encode()
    start_response(
        status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    )
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
