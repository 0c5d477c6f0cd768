"""Take runs of rows from a stream of batches."""

from collections.abc import Iterator

import pyarrow as pa


class Batches:
    """A stream of batches whose rows are taken once, from its start to its end."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._position = 0
        self._rest: pa.RecordBatch | None = None  # what follows in the batch read last

    def take(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield rows, and read no further than needed.

        Args:
            start: Position of the first row in the stream; rows before it are passed over.
            rows: Number of rows; fewer are yielded only at the end of the stream.

        Raises:
            ValueError: The rows were passed already.
        """
        if start < self._position:
            raise ValueError(f"row {start} was passed: the stream is at row {self._position}")
        while rows > 0:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                return
            skip = min(max(start - self._position, 0), batch.num_rows)
            piece = batch.slice(skip, rows)
            used = skip + piece.num_rows
            self._rest = batch.slice(used) if used < batch.num_rows else None
            self._position += used
            rows -= piece.num_rows
            if piece.num_rows:
                yield piece
