"""The job: Beam wiring, Parquet, plans, manifests and the command line; no mathematics."""

import logging


def _is_not_about_bigquery(record: logging.LogRecord) -> bool:
    """Drop what Beam logs on every import where its optional BigQuery client is not installed."""
    return not record.getMessage().startswith("apitools not found")


logging.getLogger().addFilter(_is_not_about_bigquery)
