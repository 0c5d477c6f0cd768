"""Beam counters and distributions of the jobs; docs/output.md explains each of them.

They are for those who watch a service's job. A child of the pool has no Beam, and counts nothing:
the summary of a run on this machine has the same numbers.
"""

import sys
from collections.abc import Callable, Mapping

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


def count(name: str, number: int = 1) -> None:
    """Add to a counter."""
    if "apache_beam" not in sys.modules:  # nothing runs on Beam, and nobody reads counters
        return
    from apache_beam.metrics import Metrics  # here, since a child of the pool has no Beam

    Metrics.counter(NAMESPACE, name).inc(number)


def observe(name: str, value: float) -> None:
    """Add a value, rounded to an integer, to a distribution."""
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
