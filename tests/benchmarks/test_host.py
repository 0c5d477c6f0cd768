"""The pretended device takes its time, and the pretended processors tokenise as the real ones."""

import pytest

from bertscore_core.model import resolve_model
from bertscore_core.tokenizer import load_tokenizer
from tests.benchmarks.host import ElsewhereBackend
from tests.support import pretended
from tests.support.pretended import PretendedDevice


@pytest.fixture
def clock(monkeypatch):
    """A clock that only sleep moves."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(pretended, "time", made)
    return made


def test_device_works_in_order_and_is_idle_where_nothing_is_queued(clock):
    device = PretendedDevice(1000)
    device.enqueue(2.0, launches=1)
    device.enqueue(3.0, launches=1)
    moment = device.mark()
    assert not moment.reached()
    assert clock.now == 100
    moment.wait()
    assert clock.now == 105
    clock.sleep(4)
    later = device.mark()
    device.enqueue(1.0, launches=1)
    assert later.seconds_after(moment) == 4
    assert (device.first_at, device.done_at, device.busy_seconds) == (100, 110, 6)


def test_host_waits_where_too_many_launches_are_queued(clock, monkeypatch):
    monkeypatch.setattr(pretended, "MOST_LAUNCHES", 5)
    device = PretendedDevice(1000)
    for _ in range(2):
        device.enqueue(2.0, launches=2)
    assert clock.now == 100
    device.enqueue(2.0, launches=2)
    assert clock.now == 102
    assert device.done_at == 106


@pytest.mark.model
def test_tokens_from_elsewhere_are_the_same():
    texts = ["a cat sat on the mat", "", "the dog barked"]
    tokenizer = load_tokenizer(resolve_model("all-MiniLM-L6-v2"))
    expected = tokenizer.encode(texts)
    tokenizer._backend = ElsewhereBackend(tokenizer._backend, processors=8)
    for _ in range(2):  # found anew, then known
        found = tokenizer.encode(texts)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.offsets.tolist() == expected.offsets.tolist()
