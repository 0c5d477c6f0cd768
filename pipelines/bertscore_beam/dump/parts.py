"""Write parts, the Parquet files of an output, and read them back."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.parquet import open_parquet
from bertscore_core.errors import InputError

SIGNATURE_KEY = "bertscore.signature"
"""Key of a part's metadata that holds its signature."""
SIGNATURES_KEY = "bertscore.signatures"
"""The same for a part whose rows have languages: a JSON object, the signature of each language."""


def write_part(table: pa.Table, *, utc_times: bool = False) -> bytes:
    """Return a table as the bytes of a Parquet file. Equal tables give equal bytes.

    Args:
        table: Its rows.
        utc_times: Whether to mark times of day as UTC, which Arrow's types cannot say.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        version="2.6",
        write_statistics=True,
        write_time_adjusted_to_utc=utc_times,
    )
    return bytes(sink.getvalue())


def write_row_groups(tables: Sequence[pa.Table]) -> bytes:
    """Return tables with equal columns as a Parquet file in which each is one row group.

    Equal tables give equal bytes.

    Args:
        tables: At least one, none of them empty.
    """
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, tables[0].schema, compression="zstd", version="2.6") as writer:
        for table in tables:
            writer.write_table(table, row_group_size=len(table))
    return bytes(sink.getvalue())


def read_part(path: str, columns: Collection[str]) -> pa.Table:
    """Read those of the given columns that a part has.

    Raises:
        InputError: If it is damaged.
        OSError: If it cannot be reached.
    """
    with open_parquet(path) as (file, _):
        return file.read([name for name in file.schema_arrow.names if name in columns])


def is_signed(path: str) -> bool:
    """Tell whether a file is a part that this project scored: its metadata hold a signature."""
    try:
        with open_parquet(path) as (file, _):
            metadata = file.schema_arrow.metadata or {}
            return any(key.encode() in metadata for key in (SIGNATURE_KEY, SIGNATURES_KEY))
    except (InputError, FileNotFoundError):
        return False
