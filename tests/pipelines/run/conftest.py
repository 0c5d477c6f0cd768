"""Fixtures of the tests of what every job needs."""

from collections.abc import Iterator

import pytest

from bertscore_beam.run import activity
from tests.support.offline import refuse_connections


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection during a test."""
    refuse_connections(monkeypatch)


@pytest.fixture
def nothing_at_work() -> Iterator[None]:
    """Forget what other tests have left at work, and what this one leaves."""
    activity.reset()
    yield
    activity.reset()
