"""Take a run of rows from a stream of batches."""

from collections.abc import Iterator

import pyarrow as pa


def take(batches: Iterator[pa.RecordBatch], skip: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows after the first `skip`, and read no further than needed."""
    for batch in batches:
        piece = batch.slice(skip, rows)
        skip = max(0, skip - batch.num_rows)
        if piece.num_rows:
            rows -= piece.num_rows
            yield piece
        if rows <= 0:
            return
