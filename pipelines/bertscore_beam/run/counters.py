"""Beam counters and distributions of the jobs; docs/output.md explains each of them.

A child of the pool has no Beam: it collects what is counted, and the launcher adds it to Beam's.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bertscore_core.work import Work

NAMESPACE = "bertscore"

PAIRS_SCORED = "pairs_scored"
ROWS_REJECTED = "rows_rejected"
ROWS_REUSED = "rows_reused"
REUSE_FAILURES = "reuse_failures"
REASON = "reason"  # a prefix, one counter a reason: reason_null_candidate, ...
PARTS_WRITTEN = "parts_written"
PARTS_KEPT = "parts_kept"
PARTS_UNREADABLE = "parts_unreadable"
SPLITS_FAILED = "splits_failed"
DOCUMENTS_COUNTED = "documents_counted"
SPLIT_MSEC = "split_msec"
BATCH_MSEC = "batch_msec"
CRAWL_FILES_READ = "crawl_files_read"
CRAWL_FILES_FAILED = "crawl_files_failed"
CRAWL_BYTES = "crawl_bytes"
SENTENCES_KEPT = "sentences_kept"
PAIRS_MADE = "pairs_made"
OF_WORK: Mapping[str, Callable[[Work], float]] = {
    "tokens": lambda work: work.tokens,
    "padding_tokens": lambda work: work.padded_tokens - work.tokens,
    "batches": lambda work: work.batches,
    "memory_retries": lambda work: work.retries,
    "lowered_batches": lambda work: work.lowered_batches,
    "device_busy_msec": lambda work: work.busy_seconds * 1000,
    "device_idle_msec": lambda work: work.idle_seconds * 1000,
    "device_late_msec": lambda work: work.late_seconds * 1000,
    "host_waited_msec": lambda work: work.waited_seconds * 1000,
}
"""What the work of the device for one call adds to each of its counters."""


@dataclass(slots=True)
class Counted:
    """What a step has counted for an element."""

    counters: Counter[str] = field(default_factory=Counter)
    values: dict[str, list[int]] = field(default_factory=dict)


_lock = threading.Lock()
# Of the process, as Beam's counters are: code deep inside a step does not know its run.
_collected: Counted | None = None


def collect() -> Counted:
    """Collect what is counted in this process from now on; return what was collected so far."""
    global _collected
    with _lock:
        before, _collected = _collected, Counted()
    return before or Counted()


def add(counted: Counted) -> None:
    """Add what another process has counted."""
    for name, number in counted.counters.items():
        count(name, number)
    for name, values in counted.values.items():
        for value in values:
            observe(name, value)


def count(name: str, number: int = 1) -> None:
    """Add to a counter."""
    if _collected is not None:
        with _lock:
            _collected.counters[name] += number
        return
    if "apache_beam" not in sys.modules:  # nothing runs on Beam, and nobody reads counters
        return
    from apache_beam.metrics import Metrics  # here, since a child of the pool has no Beam

    Metrics.counter(NAMESPACE, name).inc(number)


def observe(name: str, value: float) -> None:
    """Add a value, rounded to an integer, to a distribution."""
    if _collected is not None:
        with _lock:
            _collected.values.setdefault(name, []).append(round(value))
        return
    if "apache_beam" not in sys.modules:
        return
    from apache_beam.metrics import Metrics

    Metrics.distribution(NAMESPACE, name).update(round(value))


def count_pairs(*, scored: int, rejected: int, reasons: Mapping[str, int]) -> None:
    """Count pairs with scores, pairs without, and every reason."""
    count(PAIRS_SCORED, scored)
    count(ROWS_REJECTED, rejected)
    for reason, number in reasons.items():
        count(f"{REASON}_{reason}", number)


def count_work(work: Work) -> None:
    """Count the work of the device for one call."""
    for name, of in OF_WORK.items():
        count(name, round(of(work)))
    if work.batches:
        observe(BATCH_MSEC, work.busy_seconds * 1000 / work.batches)
