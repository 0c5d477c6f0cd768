"""Fixtures of the tests of what every job needs."""

import pytest

from tests.support.offline import refuse_connections


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection during a test."""
    refuse_connections(monkeypatch)
