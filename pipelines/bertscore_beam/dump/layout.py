"""What the footer of a Parquet file says: its columns, its row groups, what needs special care."""

from dataclasses import dataclass

import pyarrow as pa

from bertscore_beam.dump.int96 import (
    COARSE,
    choose_unit,
    int96_paths,
    int96_ranges,
    written_by_spark,
)
from bertscore_beam.dump.logical_types import has_utc_times, lost_types, text_enums
from bertscore_beam.dump.null_lists import null_lists
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.splits import RowGroup
from bertscore_beam.dump.text.lines import without_lines
from bertscore_beam.files.read import source_size


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """What the footer of a Parquet file says.

    Attributes:
        schema: Arrow schema, with the metadata of the file.
        row_groups: Size of each row group, in order.
        num_rows: Rows of the file.
        file_size: Size of the file in bytes.
        null_lists: Columns of fixed-size lists in which a list is null: Arrow writes these but
            cannot read them.
        lost_types: Columns whose logical type the output would not have, each with that type.
        utc_times: Whether times of day are marked as UTC.
        int96: Paths of the INT96 columns, which hold timestamps.
        text: How the rows were read, if they once were text, a digest; "" otherwise.
    """

    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    num_rows: int
    file_size: int
    null_lists: tuple[str, ...] = ()
    lost_types: tuple[str, ...] = ()
    utc_times: bool = False
    int96: tuple[str, ...] = ()
    text: str = ""


def read_layout(path: str, size: int | None = None, version: str = "") -> FileLayout:
    """Read the footer of a file, not its rows.

    Args:
        path: Path of the file.
        size: As for `open_source`. Without it fsspec looks through the listing of the whole folder.
        version: As for `open_source`.

    Raises:
        InputError: If it is not a whole Parquet file.
        OSError: If it cannot be reached.
    """
    with open_parquet(path, size=size, version=version) as (file, source):
        footer = file.metadata
        groups = tuple(
            RowGroup(num_rows=group.num_rows, num_bytes=group.total_byte_size)
            for group in map(footer.row_group, range(footer.num_row_groups))
        )
        schema, text = without_lines(text_enums(file.schema, file.schema_arrow))
        utc_times = has_utc_times(file.schema)
        return FileLayout(
            schema=schema,
            row_groups=groups,
            num_rows=footer.num_rows,
            file_size=source_size(source),
            null_lists=null_lists(file),
            lost_types=tuple(lost_types(file.schema, schema, utc_times=utc_times)),
            utc_times=utc_times,
            int96=int96_paths(file.schema),
            text=text,
        )


def exact_unit(path: str) -> str:
    """Return the unit in which no INT96 timestamp of a file changes.

    This reads these columns, unless Spark wrote the file: its timestamps are microseconds.

    Raises:
        InputError: If no unit is exact, or the file is damaged.
        OSError: If it cannot be reached.
    """
    with open_parquet(path) as (file, source):
        if written_by_spark(file.metadata.metadata):
            return COARSE
        paths = int96_paths(file.schema)
        every_group = range(file.metadata.num_row_groups)
        return choose_unit(int96_ranges(file, source, paths, every_group), paths)
