"""Read the rows of splits."""

import io
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import roots_of
from bertscore_beam.dump.inputs import of_one_version, with_partitions
from bertscore_beam.dump.parquet import GroupRows, damage_told, open_parquet
from bertscore_beam.dump.splits import Split, row_group_of
from bertscore_beam.dump.text.parsers import Lines, take_lines
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.dump.text.to_parquet import write_rows
from bertscore_beam.files import RemoteFile


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
    """Reads the rows of splits, one after the other; those of a row group as one stream."""

    def __init__(self, splits: Sequence[Split], columns: Sequence[str] | None = None) -> None:
        """Open nothing yet.

        `splits` may be read, in this order. Of a dotted path in `columns`, by default all, the
        whole top-level column is read: `columns.column_of` finds the path in it.
        """
        self._left = deque(splits)
        self._columns = columns
        self._open: tuple[ExitStack, pq.ParquetFile, pa.NativeFile | RemoteFile] | None = None
        self._rows: GroupRows | None = None

    def read(self, split: Split) -> SplitRows:
        """Read the rows of a split, in order, with their types and the file's metadata.

        Args:
            split: One of the splits, behind those that were read before; some may be left out.

        Returns:
            The rows: exactly `split.num_rows` if that is known.

        Raises:
            InputError: The file has changed since it was planned, its bytes are damaged, or its
                rows take far more space in memory than on disk.
            OSError: It cannot be reached.
        """
        while self._left[0] != split:
            if self._left.popleft().path != split.path:
                self.close()
        try:
            # What was made of a file of text is of one version.
            with of_one_version(split.path, "" if split.data else split.file_version):
                table, lines = take_lines(self._read_parquet(split))
        except BaseException:
            self.close()
            raise
        # Nothing stays open, with its buffers, while the last rows are worked on.
        if len(self._left) == 1 or self._left[1].path != split.path:
            self.close()
        table = with_partitions(table, split.partitions)
        if self._columns is not None:
            table = table.select(roots_of(table.schema, self._columns))
        return SplitRows(table=table, lines=lines)

    def close(self) -> None:
        """Close the file that is open, if there is one."""
        if self._open is not None:
            stack, *_ = self._open
            self._open = self._rows = None
            stack.close()

    def _read_parquet(self, split: Split) -> pa.Table:
        path = split.data or split.path
        if self._open is None:
            stack = ExitStack()
            opening = open_parquet(
                path,
                split.timestamp_unit,
                size=None if split.data else split.file_size,
                version="" if split.data else split.file_version,
                whole=self._columns is None and split.num_rows == split.file_rows,
            )
            self._open = stack, *stack.enter_context(opening)
        _, file, source = self._open
        with damage_told(path):
            if self._rows is None or self._rows.group != row_group_of(split):
                self._rows = GroupRows(file, source, split, self._columns)
            return self._rows.read(split)


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
    made = io.BytesIO()
    write_rows(text, made)
    table, lines = take_lines(pq.ParquetFile(made).read())
    return SplitRows(table=with_partitions(table, split.partitions), lines=lines)
