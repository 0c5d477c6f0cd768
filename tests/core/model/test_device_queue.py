"""The queue of a device: turns, copies that nobody waits for, and the times of the device."""

import threading
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from bertscore_core.model.device import CudaMoment, DeviceQueue
from bertscore_core.model.memory import Budget
from bertscore_core.work import Work

GENEROUS = 60.0


class FakeEvent:
    """An event of a stream that is computed step by step: `torch.cuda.Event` without a GPU."""

    stream: ClassVar[list["FakeEvent"]] = []
    done: ClassVar[int] = 0

    def __init__(self, **how):
        assert how == {"enable_timing": True, "blocking": True}

    def record(self, stream):
        assert stream == "stream of cuda:1"
        self.place = len(self.stream)
        self.stream.append(self)

    def query(self):
        return self.place < type(self).done

    def synchronize(self):
        type(self).done = max(type(self).done, self.place + 1)

    def elapsed_time(self, later):
        assert self.query()
        assert later.query()
        return 1000.0 * (later.place - self.place)  # milliseconds, as CUDA's


@pytest.fixture
def cuda_events(monkeypatch):
    """CUDA's events on a machine without a GPU: every event is a second after the one before."""
    monkeypatch.setattr(FakeEvent, "stream", [])
    monkeypatch.setattr(FakeEvent, "done", 0)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")


@pytest.fixture
def queue(cuda_events, monkeypatch):
    """The queue of a GPU whose memory is that of the CPU."""
    gpu = DeviceQueue.of(torch.device("cuda:1"))
    monkeypatch.setattr(gpu, "_pin", torch.Tensor.clone)
    gpu.device = torch.device("cpu")
    return gpu


def test_times_are_those_between_events_once_they_have_passed(queue):
    first, second, waited = Work(), Work(), Work()
    begun = queue.begin()  # event 0
    queue.end(begun, first)  # 1
    begun = queue.begin()  # 2
    queue.begin()  # 3, of nothing
    queue.end(begun, second)  # 4
    fetched = queue.fetch(torch.tensor([1.0, 2.0]))  # 5
    assert FakeEvent.done == 0  # so far nobody has waited
    assert first == second == Work()
    np.testing.assert_array_equal(queue.received(fetched, waited), [1, 2])
    assert (first.idle_seconds, first.busy_seconds) == (0, 1)
    assert (second.idle_seconds, second.busy_seconds) == (1, 2)
    assert waited.waited_seconds > 0
    assert first.late_seconds == second.late_seconds == 0


def test_work_that_the_device_begins_while_it_is_queued_is_late(queue):
    """The device has nothing else to do, and waits for the rest of what is queued."""
    prompt, late = Work(), Work()
    queue.end(queue.begin(), prompt)
    begun = queue.begin()
    begun.moment.wait()
    queue.end(begun, late)
    assert prompt.late_seconds == 0
    assert late.late_seconds > 0


def test_time_of_overlapping_work_is_counted_once(queue):
    """As on OpenVINO, where several batches are computed side by side."""
    both = Work()
    first, second = queue.begin(), queue.begin()  # 0, 1
    queue.end(first, both)  # 2
    queue.end(second, both)  # 3
    queue.received(queue.fetch(torch.ones(1)), both)
    assert (both.idle_seconds, both.busy_seconds) == (0, 3)


def test_what_is_fetched_is_a_copy_in_pinned_memory(queue, monkeypatch):
    pinned = []
    monkeypatch.setattr(queue, "_pin", lambda values: pinned.append(values.clone()) or pinned[-1])
    values = torch.tensor([3.0, 4.0])
    fetched = queue.fetch(values)
    sent = queue.send(np.array([5, 6]))
    values.zero_()
    assert [fetched.on_host.data_ptr(), sent.data_ptr()] == [copy.data_ptr() for copy in pinned]
    np.testing.assert_array_equal(queue.received(fetched, Work()), [3, 4])
    assert sent.tolist() == [5, 6]


def test_waiting_for_the_turn_is_counted():
    queue, waiting, asked = DeviceQueue.of(torch.device("cpu")), Work(), threading.Event()

    def wait():
        asked.set()
        with queue.turn(waiting):
            pass

    with queue.turn(Work()):
        thread = threading.Thread(target=wait)
        thread.start()
        assert asked.wait(GENEROUS)
        assert waiting.waited_seconds == 0
    thread.join(GENEROUS)
    assert not thread.is_alive()
    assert waiting.waited_seconds > 0


class SlowMoment:
    """A moment that is reached only when the test lets the device compute."""

    device = threading.Event()

    def __init__(self):
        self.waited = threading.Event()

    def wait(self):
        self.waited.set()
        assert self.device.wait(GENEROUS)

    def reached(self):
        return self.device.is_set()

    def seconds_after(self, earlier):
        return 1.0


@pytest.fixture
def slow_scorer(tiny_scorer, monkeypatch):
    """A scorer on a device that computes nothing until `SlowMoment.device` is set."""
    monkeypatch.setattr(SlowMoment, "device", threading.Event())
    slow = DeviceQueue(torch.device("cpu"), SlowMoment, torch.Tensor.clone)
    return tiny_scorer(queue=slow), tiny_scorer()


def test_all_blocks_are_queued_before_the_first_scores_are_waited_for(slow_scorer, monkeypatch):
    scorer, plain = slow_scorer
    texts = [f"{a} {b}" for a in "abcd" for b in "efgh"]
    blocks = [0, 0]
    for user in (scorer, plain):
        budget = Budget(batch_tokens=64, block_bytes=2000, match_elements=1 << 20)
        user._engine = replace(user._engine, budget=budget)
    fetch, received = DeviceQueue.fetch, DeviceQueue.received

    def counted_fetch(queue, values):
        blocks[0] += queue is scorer.queue
        return fetch(queue, values)

    def counted_received(queue, fetched, work):
        if queue is scorer.queue and not SlowMoment.device.is_set():
            blocks[1] = blocks[0]
            SlowMoment.device.set()
        return received(queue, fetched, work)

    monkeypatch.setattr(DeviceQueue, "fetch", counted_fetch)
    monkeypatch.setattr(DeviceQueue, "received", counted_received)
    scores = scorer.score(texts, texts[::-1])
    assert blocks[0] == blocks[1] > 2
    np.testing.assert_array_equal(scores.f1, plain.score(texts, texts[::-1]).f1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_events_of_a_gpu_time_its_work():
    device = torch.device("cuda:0")
    queue, work = DeviceQueue.of(device), Work()
    for _ in range(2):
        begun = queue.begin()
        square = torch.ones((512, 512), device=device)
        product = square @ square
        queue.end(begun, work)
    fetched = queue.fetch(product)
    assert isinstance(fetched.arrived, CudaMoment)
    assert fetched.on_host.is_pinned()
    assert (queue.received(fetched, work) == 512).all()
    assert work.busy_seconds > 0
    assert work.idle_seconds >= 0
