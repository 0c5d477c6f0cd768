"""Fixtures of the tests of what every job needs."""

from collections.abc import Iterator

import pytest

from bertscore_beam.run import activity
from tests.support.offline import refuse_connections


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection during a test; Beam waits for none, as it does for half a minute."""
    refuse_connections(monkeypatch)
    monkeypatch.setattr("apache_beam.utils.retry.Clock.sleep", lambda *_: None)
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", True)


@pytest.fixture
def nothing_at_work() -> Iterator[None]:
    """Forget what other tests have left at work, and what this one leaves."""
    activity.reset()
    yield
    activity.reset()
