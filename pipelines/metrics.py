"""Names of the job's Beam counters and distributions, units in the name."""

from apache_beam.metrics import Metrics

NAMESPACE = "bertscore"

PAIRS_SCORED = "pairs_scored"
ROWS_REJECTED = "rows_rejected"  # one counter a reason: rows_rejected_null_candidate, ...
PARTS_WRITTEN = "parts_written"
SPLITS_FAILED = "splits_failed"
DOCUMENTS_COUNTED = "documents_counted"
SPLIT_MSEC = "split_msec"
CRAWL_FILES_READ = "crawl_files_read"
CRAWL_FILES_FAILED = "crawl_files_failed"
CRAWL_BYTES = "crawl_bytes"
SENTENCES_KEPT = "sentences_kept"
PAIRS_MADE = "pairs_made"


def count(name: str, number: int = 1) -> None:
    """Add to a counter."""
    Metrics.counter(NAMESPACE, name).inc(number)


def observe(name: str, value: float) -> None:
    """Add a value, rounded to an integer, to a distribution."""
    Metrics.distribution(NAMESPACE, name).update(round(value))
