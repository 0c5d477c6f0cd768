"""A test without a network."""

import socket
from typing import Any, NoReturn

import pytest


def refuse_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection, and every look-up of a name."""

    def refuse(*args: Any, **_: Any) -> NoReturn:
        raise AssertionError(f"a connection was tried: {args}")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
