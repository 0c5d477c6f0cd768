"""Read the rows of splits."""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import pyarrow as pa

from bertscore_beam.dump.inputs import check_one_version
from bertscore_beam.dump.lines import Lines, take_lines
from bertscore_beam.dump.parquet_rows import read_parquet
from bertscore_beam.dump.partitions import with_partitions
from bertscore_beam.dump.paths import roots_of
from bertscore_beam.dump.reading import reading
from bertscore_beam.dump.reference_file import with_references
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.dump.text.to_parquet import parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRows:
    """The rows of a split.

    Attributes:
        table: The rows, with the partition columns after those of the file.
        lines: The lines they were read from; None if they never were text.
    """

    table: pa.Table
    lines: Lines | None = None


class SplitReader:
    """Reads the rows of splits, one after the other; those of a Parquet file as one stream."""

    def __init__(self, splits: Sequence[Split], columns: Sequence[str] | None = None) -> None:
        """Open nothing yet.

        `splits` may be read, in this order. Of a path in `columns`, by default all, the
        whole top-level column is read: `paths.column_of` finds the path in it.
        """
        self._left = deque(splits)
        self._columns = columns
        self._read = columns
        if columns is not None and splits and (references := splits[0].references):
            self._read = [*columns, references.key]
        self._open: tuple[Split, Generator[pa.Table, Split, None]] | None = None

    def read(self, split: Split) -> SplitRows:
        """Read the rows of a split, in order, with their types and the file's metadata.

        Args:
            split: One of the splits, behind those that were read before; some may be left out.

        Returns:
            The rows: exactly `split.num_rows`.

        Raises:
            InputError: The file has changed since it was planned, its bytes are damaged, or its
                rows take far more space in memory than on disk.
            OSError: It cannot be reached.
        """
        # What was made of a file of text is of one version.
        with check_one_version(split.path, "" if split.data else split.file_version):
            table = self._read_parquet(split)
        with reading(split.data or split.path):  # what it holds may be forged
            rows = _rows_of(table, split)
            if self._columns is not None:
                rows = replace(
                    rows, table=rows.table.select(roots_of(rows.table.schema, self._columns))
                )
        return rows

    def close(self) -> None:
        """Close the file that is open, if there is one."""
        if self._open is not None:
            _, stream = self._open
            self._open = None
            stream.close()

    def _read_parquet(self, split: Split) -> pa.Table:
        while self._left[0] != split:
            self._left.popleft()
        opened, self._open = self._open, None  # after an error the file is opened again
        if opened is not None and opened[0].path == split.path:
            stream = opened[1]
            table = stream.send(split)
        else:
            pieces = list(takewhile(lambda piece: piece.path == split.path, self._left))
            stream = read_parquet(pieces, self._read)
            table = next(stream)
        # Nothing stays open, with its buffers, while the last rows are worked on.
        if len(self._left) > 1 and self._left[1].path == split.path:
            self._open = split, stream
        else:
            stream.close()
        return table


def read_split(split: Split, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of one split; see `SplitReader`."""
    return SplitReader([split], columns).read(split).table


def read_text(text: TextFile, split: Split) -> SplitRows:
    """Read all rows of a small file of text, without a file that is made of it.

    Args:
        text: The file.
        split: The first of its splits.

    Raises:
        InputError: It is not of its format, is damaged, or has changed since it was found.
        OSError: It cannot be reached.
    """
    return _rows_of(parsed(text), split)


def _rows_of(table: pa.Table, split: Split) -> SplitRows:
    table, lines = take_lines(table)
    table = with_references(with_partitions(table, split.partitions), split.references)
    left_out = [name for name in dict.fromkeys(table.column_names) if name in split.left_out]
    return SplitRows(table=table.drop_columns(left_out) if left_out else table, lines=lines)
