"""End a transfer that makes no progress.

The timeout of a socket limits the wait for the next byte. A server that sends a byte now and then,
in the head of its answer or between two chunks, keeps each of these waits short, and the reader
waits forever. So a separate thread watches the clock and shuts the connection.
"""

import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

import requests
import requests.adapters
import urllib3

SLOWEST = 1024.0
"""Bytes a second below which a transfer counts as stalled. A WET file would take 18 hours."""


class Watch:
    """Watches one request, in a thread, from the connection to the last byte.

    The head of the answer must have arrived after two windows: one for the connection, one for the
    server. The body must arrive with at least `SLOWEST` bytes a second in every window.

    Attributes:
        problem: Why the transfer was ended, None if it was not.
    """

    def __init__(self, window: float) -> None:
        self.problem: str | None = None
        self._window = window
        self._begun: float | None = None  # when the body began
        self._received = 0
        self._sockets: list[socket.socket] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._over.set()
        self._thread.join()

    def session(self) -> requests.Session:
        """Return a session whose connections can be shut by this watch."""
        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _WatchedAdapter(self))
        return session

    def connected(self, connection: socket.socket) -> None:
        """Register a connection. With redirects there are several."""
        self._sockets.append(connection)
        if self.problem is not None:
            self._shut()

    def received(self, num_bytes: int) -> None:
        """Register how many bytes of the body have arrived: 0 when it begins."""
        if self._begun is None:
            self._begun = time.monotonic()
        self._received = num_bytes

    def _look_on(self) -> None:
        if self._over.wait(2 * self._window):
            return
        if self._begun is None:
            self._end(f"no answer within {2 * self._window:g} s")
            return
        before, seen = self._begun, 0
        while self.problem is None:
            now, received = time.monotonic(), self._received
            if now - before >= self._window:
                speed = (received - seen) / (now - before)
                if speed < SLOWEST:
                    self._end(f"a stalled transfer ({speed:.0f} bytes a second)")
                before, seen = now, received
            if self._over.wait(self._window):
                return

    def _end(self, problem: str) -> None:
        self.problem = problem
        self._shut()

    def _shut(self) -> None:
        for connection in list(self._sockets):
            try:
                # `shutdown` of the plain socket: that of a TLS socket discards its TLS state, which
                # the reading thread still uses.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:  # closed already
                continue


class _WatchedAdapter(requests.adapters.HTTPAdapter):
    """Connects as requests does, and registers every connection with a watch."""

    def __init__(self, watch: Watch) -> None:
        self._pools = {
            "http": _watched_pool(urllib3.HTTPConnectionPool, watch),
            "https": _watched_pool(urllib3.HTTPSConnectionPool, watch),
        }
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the manager of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the manager of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager


def _watched_pool(pool: Any, watch: Watch) -> Any:
    """Return a subclass of a pool whose connections register with a watch."""

    class Connection(pool.ConnectionCls):
        def connect(self) -> None:
            super().connect()
            watch.connected(self.sock)

    return type(pool.__name__, (pool,), {"ConnectionCls": Connection})
