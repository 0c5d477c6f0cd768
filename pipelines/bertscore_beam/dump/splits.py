"""Cut input files into splits, and name the part of each split. Pure: no file is opened here.

    file                 |  row group 0  |  row group 1  |          row group 2          |
    splits               |       split (groups 0-1)      |  rows 0-k  |  k-2k  |  2k-3k  |
    skip_rows            |  0                            |  0         |  k     |  2k     |

A split is a run of rows of one file. Small row groups are put together, an oversized one is cut by
rows. The cut depends on the file and the two targets only, so every run cuts alike. A file of text
is cut as the Parquet file that is made of it.
"""

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertscore_core.errors import ConfigError

# 20,000 rows of sentences take a GPU seconds and a core minutes: small enough that a lost split
# costs little, large enough that a part is worth a file.
MOST_SPLIT_ROWS = 20_000
# Texts are sorted by length within a split: smaller splits have more padding.
LEAST_SPLIT_ROWS = 500
# The last split of each worker ends at another time. With four, the wait is an eighth on average.
SPLITS_PER_WORKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """What the footer of a Parquet file says about one row group.

    Attributes:
        num_rows: Rows in the group.
        num_bytes: Size of all its columns, encoded but not compressed.
    """

    num_rows: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A run of rows of one input file: the unit of work, of retry and of resume.

    Attributes:
        path: Path of the file, for fsspec.
        input_name: Path below the common root of all inputs, safe to write below any folder.
        file_rows: Rows of the whole file; None in a sketch.
        file_size: Size of the file in bytes when it was planned.
        file_version: Version of the file when it was planned, such as an etag, or "".
        first_row_group: First row group that holds rows of the split.
        row_group_stop: One past the last such row group.
        row_offset: Position of the first row, counted in the file.
        num_rows: Rows of the split, 0 only for a file without rows; None in a sketch: of a file of
            text only the first rows were seen, and the split cannot be read.
        skip_rows: Rows to skip, counted from the start of `first_row_group`.
        estimated_rows: About the rows of the split where `num_rows` is None.
        timestamp_unit: Unit in which the INT96 timestamps of the file are exact.
        utc_times: Whether the file's times of day are marked as UTC.
        text: How a file of text was read, a digest; "" for Parquet.
        data: The Parquet file that was made of a file of text; "" for Parquet.
        partitions: Partition columns of the file, as `partitions.partitions_of` returns them.
    """

    path: str
    input_name: str
    file_rows: int | None
    file_size: int
    file_version: str
    first_row_group: int = 0
    row_group_stop: int = 0
    row_offset: int = 0
    num_rows: int | None = None
    skip_rows: int = 0
    estimated_rows: int = 0
    timestamp_unit: str = "us"
    utc_times: bool = False
    text: str = ""
    data: str = ""
    partitions: str = ""

    @property
    def about_rows(self) -> int:
        """Rows of the split, estimated if they are not known."""
        return self.estimated_rows if self.num_rows is None else self.num_rows

    @property
    def part_name(self) -> str:
        """Path of the part below the output folder. Names sort in row order."""
        return part_name(self.input_name, self.row_offset)

    @property
    def file_reading(self) -> str:
        """Digest of how the file is read beyond its own schema; "" for plain Parquet.

        16 hexadecimal digits. It is the same for all splits of a file.
        """
        return _digest(self.text or "parquet", "", "", self.partitions, plain="parquet")

    @property
    def reading(self) -> str:
        """The same, as records have it."""
        return _digest(self.file_reading)


def rows_for_workers(rows: int, workers: int | None) -> int:
    """Return how many rows a split should have, so that all workers have work until the end.

    Args:
        rows: Rows of all files.
        workers: Number of workers that share them; None if it is not known.
    """
    if workers is None:
        return MOST_SPLIT_ROWS
    evenly = math.ceil(rows / (workers * SPLITS_PER_WORKER))
    return min(max(evenly, LEAST_SPLIT_ROWS), MOST_SPLIT_ROWS)


def part_name(input_name: str, row_offset: int) -> str:
    """Name the part that starts at a row of an input. Twelve digits keep names in row order."""
    return f"{input_name}/part-{row_offset:012d}.parquet"


def _digest(*words: str, plain: str = "") -> str:
    """Digest some words; "" if all of them are empty, or the plain word."""
    if all(word in ("", plain) for word in words):
        return ""
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def note_name(part_name: str) -> str:
    """Name the notes on a part, without a suffix: its record, its rejected rows.

    Names of inputs end in .parquet, and a reader that looks for such names must find parts only. So
    a digest replaces the input's name, which also keeps notes no deeper in the tree than parts.
    """
    input_name, _, file = part_name.rpartition("/")
    digest = hashlib.sha256(input_name.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{digest[:32]}/{file.removesuffix('.parquet')}"


def plan_file(
    path: str,
    input_name: str,
    row_groups: Sequence[RowGroup],
    *,
    target_rows: int,
    target_bytes: int,
    file_size: int = 0,
    file_version: str = "",
) -> list[Split]:
    """Cut one file into splits of at most the target size, in row order.

    Each row is in exactly one split. A file without rows gives one empty split, so that it is still
    represented by a part. A single row may exceed `target_bytes`; nothing else does.

    A split inside an oversized row group is decoded from the start of that row group; see `runs`.

    Args:
        path: Path of the file.
        input_name: Its name below the common root.
        row_groups: All row groups of the file, in order.
        target_rows: Most rows in a split. At least 1.
        target_bytes: Most encoded bytes in a split. At least 1.
        file_size: Size of the file in bytes.
        file_version: Modification time or etag of the file, if it has one.

    Raises:
        ConfigError: If a target is below 1.
    """
    check_targets(target_rows, target_bytes)
    file_rows = sum(group.num_rows for group in row_groups)
    runs = list(_runs(row_groups, target_rows, target_bytes)) or [(0, len(row_groups), 0, 0)]
    splits: list[Split] = []
    row_offset = 0
    for first, stop, skip, rows in runs:
        splits.append(
            Split(
                path=path,
                input_name=input_name,
                file_rows=file_rows,
                file_size=file_size,
                file_version=file_version,
                first_row_group=first,
                row_group_stop=stop,
                row_offset=row_offset,
                num_rows=rows,
                skip_rows=skip,
            )
        )
        row_offset += rows
    return splits


def check_targets(target_rows: int, target_bytes: int) -> None:
    """Raise if a target is below 1.

    Raises:
        ConfigError: If it is.
    """
    if target_rows < 1 or target_bytes < 1:
        raise ConfigError(
            f"the target size of a split is too small: got {target_rows} rows and {target_bytes} "
            "bytes; expected at least 1 of each. Raise split_rows or split_bytes."
        )


def _runs(
    row_groups: Sequence[RowGroup], target_rows: int, target_bytes: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first row group, row group stop, rows to skip, rows) of each split."""
    first = stop = rows = size = 0
    for index, group in enumerate(row_groups):
        if group.num_rows == 0:
            continue
        if rows and (rows + group.num_rows > target_rows or size + group.num_bytes > target_bytes):
            yield first, stop, 0, rows
            rows = size = 0
        if group.num_rows > target_rows or group.num_bytes > target_bytes:
            yield from _cut(index, group, target_rows, target_bytes)
            continue
        if not rows:
            first = index
        stop, rows, size = index + 1, rows + group.num_rows, size + group.num_bytes
    if rows:
        yield first, stop, 0, rows


def _cut(
    index: int, group: RowGroup, target_rows: int, target_bytes: int
) -> Iterator[tuple[int, int, int, int]]:
    """Cut an oversized row group into the fewest runs of (nearly) equal length that fit."""
    wanted = max(math.ceil(group.num_rows / target_rows), math.ceil(group.num_bytes / target_bytes))
    pieces = min(wanted, group.num_rows)
    bounds = [piece * group.num_rows // pieces for piece in range(pieces + 1)]
    for start, end in itertools.pairwise(bounds):
        yield index, index + 1, start, end - start
