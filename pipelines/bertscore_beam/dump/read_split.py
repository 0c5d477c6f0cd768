"""Read the rows of one split, whatever the format of its file."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bertscore_beam.dump.columns import roots_of
from bertscore_beam.dump.inputs import file_version
from bertscore_beam.dump.lines import Lines
from bertscore_beam.dump.partitions import with_partitions
from bertscore_beam.dump.read_parquet import file_changed, read_parquet
from bertscore_beam.dump.read_text import read_text
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.ranges import is_other_version, reads_one_version


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRows:
    """The rows of a split.

    Attributes:
        table: The rows, with the partition columns after those of the file.
        lines: The lines they were read from; None for Parquet.
    """

    table: pa.Table
    lines: Lines | None = None


def read_rows(split: Split) -> SplitRows:
    """Read the rows of a split with all columns; see `read_split` for errors."""
    if not split.is_text:
        return SplitRows(table=read_split(split))
    with _one_version(split):
        table, lines = read_text(split)
    return SplitRows(table=with_partitions(table, split.partitions), lines=lines)


def read_split(split: Split, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a split, in order, with their types and the file's metadata.

    Args:
        split: What to read.
        columns: The columns to read, in the order wanted, by default all. Of a dotted path the
            whole top-level column is read: `columns.column_of` finds the path in it.

    Returns:
        The rows: exactly `split.num_rows` if that is known.

    Raises:
        InputError: The file has changed since it was planned, its bytes are damaged, or its rows
            take far more space in memory than on disk.
        OSError: It cannot be reached.
    """
    if split.is_text:
        table = read_rows(split).table
    else:
        with _one_version(split):
            rows = read_parquet(split, columns)
        table = with_partitions(rows, split.partitions)
    return table if columns is None else table.select(roots_of(table.schema, columns))


@contextlib.contextmanager
def _one_version(split: Split) -> Iterator[None]:
    """Check that what the body reads is the file that was planned.

    Where the reads themselves do not tell, the file is asked for its version at the end.

    Raises:
        InputError: It has changed.
    """
    try:
        yield
    except OSError as error:
        if not is_other_version(error):
            raise
        raise file_changed(split, "another version", f"version {split.file_version}") from error
    if not split.file_version or reads_one_version(split.path):
        return
    version = file_version(split.path)
    if version != split.file_version:
        raise file_changed(split, f"version {version}", f"version {split.file_version}")
