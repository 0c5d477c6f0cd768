"""The job gives a device its next split before it is done with the one before."""

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.score.show_run import show_summary
from tests.support.jobs import job_options, run_options
from tests.support.pretended import PretendedDevice, PretendedMoment, pretend

pytestmark = pytest.mark.job

GENEROUS = 60.0
SPLITS, ROWS = 6, 20


class _Held(PretendedMoment):
    """A moment that a thread waits for until the device has been given the work of two splits."""

    def __init__(self, device, moment):
        super().__init__(moment)
        self._device = device

    def wait(self):
        self._device.waits += 1
        assert self._device.has_two.wait(GENEROUS), "the second split came only after the first"
        super().wait()


class _HeldDevice(PretendedDevice):
    """A device that is done with nothing before it has the work of two splits."""

    def __init__(self, tokens_per_second):
        super().__init__(tokens_per_second)
        self.has_two = threading.Event()
        self.matched = self.waits = 0

    def mark(self):
        return _Held(self, super().mark()._moment)

    def matching(self):
        self.matched += 1
        if self.matched == 2:
            self.has_two.set()
        return super().matching()


def test_second_split_is_queued_before_the_first_is_done_and_the_summary_says_how_busy_it_was(
    tmp_path, monkeypatch
):
    """A job of two threads on the device."""
    device, dump = _HeldDevice(1e5), tmp_path / "dump.parquet"
    texts = [f"cat number {row}" for row in range(SPLITS * ROWS)]
    pq.write_table(pa.table({"candidate": texts, "reference": texts[::-1]}), dump)
    options = job_options(dump, tmp_path / "out", split_rows=ROWS, backend="torch")
    flags = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
    pretend(monkeypatch, device)
    summary = run_options(options, FnApiRunner(), flags)
    assert device.matched == device.waits == summary["parts"] == SPLITS
    scores = pq.read_table(tmp_path / "out" / "dump.parquet")["bertscore_f1"]
    assert scores.to_pylist() == [0.5] * SPLITS * ROWS
    busy, idle = summary["device_busy_seconds"], summary["device_idle_seconds"]
    assert busy >= device.busy_seconds - 0.001  # rounded
    assert min(idle, summary["host_waited_seconds"]) > 0
    shown = dict(show_summary(summary, "out").rows)
    assert shown["device busy"] == f"{busy:.1f} s, and {idle:.1f} s without work"
