"""Splits of input files: how they are cut, and put into chunks.

    file                 |  row group 0  |  row group 1  |          row group 2          |
    splits               |       split (groups 0-1)      |  rows 0-k  |  k-2k  |  2k-3k  |
    skip_rows            |  0                            |  0         |  k     |  2k     |

A split is a run of rows of one file. Small row groups are put together, an oversized one is cut by
rows. The cut depends on the file and the two targets only, so every run cuts alike. A file of text
is cut as the Parquet file that is made of it.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from bertscore_beam.dump.columns import ReferenceFile
from bertscore_beam.dump.partitions import Partition
from bertscore_beam.files.checked import digest_of, to_line

# 20,000 rows of sentences take a GPU seconds and a core minutes: small enough that a lost split
# costs little, large enough that a part is worth a file.
MOST_SPLIT_ROWS = 20_000
# As the Parquet file counts them, encoded and not compressed: a column of repeated long texts can
# be many times larger in memory. A worker holds a split as Arrow, as Python texts and as tokens.
MOST_SPLIT_BYTES = 64 * 1024 * 1024
# Texts are sorted by length within a split: smaller splits have more padding.
_LEAST_SPLIT_ROWS = 500
# The last split of each worker ends at another time. With four, the wait is an eighth on average.
_SPLITS_PER_WORKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """What the footer of a Parquet file says about one row group.

    Attributes:
        num_rows: Rows in the group.
        num_bytes: Size of all its columns, encoded but not compressed.
        num_pairs: Rows once their candidates are multiplied out; 0 for as many as there are.
    """

    num_rows: int
    num_bytes: int
    num_pairs: int = 0

    @property
    def pairs(self) -> int:
        """Rows of the output."""
        return self.num_pairs or self.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A run of rows of one input file: the unit of work, of retry and of resume.

    Attributes:
        path: Path of the file, for fsspec.
        input_name: Path below the common root of all inputs, safe to write below any folder.
        file_rows: Rows of the whole file.
        file_size: Size of the file in bytes when it was planned.
        file_version: Version of the file when it was planned, such as an etag, or "".
        first_row_group: First row group that holds rows of the split.
        row_group_stop: One past the last such row group.
        row_offset: Position of the first row, counted in the file.
        num_rows: Rows of the split, 0 only for a file without rows.
        skip_rows: Rows to skip, counted from the start of `first_row_group`.
        estimated_rows: About the rows of its part where a row has several candidates; 0 otherwise.
        timestamp_unit: Unit in which the INT96 timestamps of the file are exact.
        utc_times: Whether the file's times of day are marked as UTC.
        text: How a file of text was read, a digest; "" for Parquet.
        data: The Parquet file that was made of a file of text; "" for Parquet, and before it is
            made.
        partitions: Columns that the path of the file or the log of its table gives to it.
        left_out: Columns that are not read.
        references: The file of references whose columns are added; None if the input has them.
    """

    path: str
    input_name: str
    file_size: int
    file_version: str
    file_rows: int = 0
    first_row_group: int = 0
    row_group_stop: int = 0
    row_offset: int = 0
    num_rows: int = 0
    skip_rows: int = 0
    estimated_rows: int = 0
    timestamp_unit: str = "us"
    utc_times: bool = False
    text: str = ""
    data: str = ""
    partitions: tuple[Partition, ...] = ()
    left_out: tuple[str, ...] = ()
    references: ReferenceFile | None = None

    @property
    def about_rows(self) -> int:
        """Rows of the part, estimated if they are not known."""
        return self.estimated_rows or self.num_rows

    @property
    def is_estimated(self) -> bool:
        """Whether it is of a file of text that is not imported: its rows cannot be read."""
        return bool(self.text) and not self.data

    @property
    def part_name(self) -> str:
        """Path of the part below the output folder. Names sort in row order."""
        return part_name(self.input_name, self.row_offset)

    @property
    def reading(self) -> str:
        """Digest of how the file is read beyond its own schema; "" for plain Parquet.

        16 hexadecimal digits. It is the same for all splits of a file.
        """
        # Wherever the references are, their bytes count.
        references = self.references and asdict(replace(self.references, path=""))
        # Not `asdict`, which takes thrice as long as the rest: a plan may have a million splits.
        given = [(own.name, own.value, own.kind, own.is_in_file) for own in self.partitions]
        how = (self.text, given, self.left_out, references)
        return digest_of(to_line({"how": how}), 16) if any(how) else ""


def rows_for_workers(rows: int, workers: int | None) -> int:
    """Return how many rows a split should have, so that all workers have work until the end."""
    if workers is None:
        return MOST_SPLIT_ROWS
    evenly = math.ceil(rows / (workers * _SPLITS_PER_WORKER))
    return min(max(evenly, _LEAST_SPLIT_ROWS), MOST_SPLIT_ROWS)


def part_name(input_name: str, row_offset: int) -> str:
    """Name the part that starts at a row of an input. Twelve digits keep names in row order."""
    return f"{input_name}/part-{row_offset:012d}.parquet"


def note_name(part_name: str) -> str:
    """Name the notes on a part, without a suffix: its record, its rejected rows.

    Names of inputs end in .parquet, and a reader that looks for such names must find parts only. So
    a digest replaces the input's name, which also keeps notes no deeper in the tree than parts.
    """
    input_name, _, file = part_name.rpartition("/")
    return f"{digest_of(input_name)}/{file.removesuffix('.parquet')}"


def plan_file(
    blank: Split, row_groups: Sequence[RowGroup], *, target_rows: int, target_bytes: int
) -> list[Split]:
    """Cut one file into splits of at most the target size, in row order.

    Each row is in exactly one split. A file without rows gives one empty split, so that it is still
    represented by a part. A single row may exceed `target_bytes`; nothing else does.

    Args:
        blank: What all splits of the file share.
        row_groups: All row groups of the file, in order.
        target_rows: Most rows of the part of a split. At least 1.
        target_bytes: Most encoded bytes in a split. At least 1.
    """
    file_rows = sum(group.num_rows for group in row_groups)
    splits: list[Split] = []
    row_offset = 0
    runs = list(_runs(row_groups, target_rows, target_bytes)) or [(0, len(row_groups), 0, 0, 0)]
    for first, stop, skip, rows, pairs in runs:
        splits.append(
            replace(
                blank,
                file_rows=file_rows,
                first_row_group=first,
                row_group_stop=stop,
                row_offset=row_offset,
                num_rows=rows,
                skip_rows=skip,
                estimated_rows=0 if pairs == rows else pairs,
            )
        )
        row_offset += rows
    return splits


def _runs(
    row_groups: Sequence[RowGroup], target_rows: int, target_bytes: int
) -> Iterator[tuple[int, int, int, int, int]]:
    first = stop = rows = pairs = size = 0
    for index, group in enumerate(row_groups):
        if group.num_rows == 0:
            continue
        if rows and (pairs + group.pairs > target_rows or size + group.num_bytes > target_bytes):
            yield first, stop, 0, rows, pairs
            rows = pairs = size = 0
        if group.pairs > target_rows or group.num_bytes > target_bytes:
            yield from _cut(index, group, target_rows, target_bytes)
            continue
        if not rows:
            first = index
        stop, rows, size = index + 1, rows + group.num_rows, size + group.num_bytes
        pairs += group.pairs
    if rows:
        yield first, stop, 0, rows, pairs


def _cut(
    index: int, group: RowGroup, target_rows: int, target_bytes: int
) -> Iterator[tuple[int, int, int, int, int]]:
    fewest = max(math.ceil(group.pairs / target_rows), math.ceil(group.num_bytes / target_bytes))
    pieces = min(fewest, group.num_rows)
    bounds = [piece * group.num_rows // pieces for piece in range(pieces + 1)]
    for start, end in itertools.pairwise(bounds):
        # Rounded up: pieces that add up to the rows of the group then have one candidate a row.
        pairs = -(-(end - start) * group.pairs // group.num_rows)
        yield index, index + 1, start, end - start, pairs


# Chunks of splits: the splits of one row group that are read as one stream.
#
#     row group of 1,000,000 rows    | split | split | split | split | split | split | ...
#     chunks                         |        chunk          |        chunk          | ...
#
# Every chunk decodes the row group from its start. So one chunk a row group reads every byte once;
# more of them let workers share a large row group.

MOST_CHUNKS = 40
"""Most chunks of a row group if the number of workers is not known."""
_MANY_CHUNKS = 1000
"""Chunks of an input with many row groups if the number of workers is not known."""


@dataclass(frozen=True, slots=True)
class RowGroupSplits:
    """Splits of one row group, in the order of their rows; or one split of anything else.

    It is the element of a pipeline. Each split has its own part and record.

    Attributes:
        splits: The splits. At least one.
    """

    splits: tuple[Split, ...]

    @property
    def name(self) -> str:
        """The names of its parts: of the first and, if there are more, of the last one."""
        first, last = self.splits[0].part_name, self.splits[-1].part_name
        return first if first == last else f"{first} to {last.rpartition('/')[2]}"


def row_group_of(split: Split) -> tuple[str, str, int, int]:
    """Return what only splits of one row group have in common."""
    return split.path, split.input_name, split.first_row_group, split.row_group_stop


def split_chunks(splits: Sequence[Split], chunks: int | None) -> Iterator[RowGroupSplits]:
    """Yield the chunks of the splits of a plan, in its order, so that all workers have work.

    The splits of a row group become the fewest chunks of about equal length that are no longer than
    an equal share of all rows; a single split may be.

    Args:
        splits: The splits.
        chunks: How many chunks share the rows; None if the number of workers is not known.
    """
    rows = sum(split.about_rows for split in splits)
    most_rows = max(math.ceil(rows / (chunks or _MANY_CHUNKS)), 1)
    most_chunks = chunks or MOST_CHUNKS
    for _, row_group in itertools.groupby(splits, row_group_of):
        pieces = tuple(row_group)
        rows = sum(split.about_rows for split in pieces)
        number = min(math.ceil(rows / most_rows), most_chunks, len(pieces)) or 1
        bounds = [place * len(pieces) // number for place in range(number + 1)]
        for start, stop in itertools.pairwise(bounds):
            yield RowGroupSplits(pieces[start:stop])


def reading_note(splits: Sequence[Split], chunks: int | None) -> str:
    """Say how many times the rows of splits are decoded, on average."""
    rows = decoded = most = 0
    for chunk in split_chunks(splits, chunks):
        last = chunk.splits[-1]
        end = last.skip_rows + last.num_rows  # from the start of the row group
        rows += sum(split.num_rows for split in chunk.splits)
        decoded += end
        most = max(most, end)
    if decoded == rows:
        return "once"
    return (
        f"about {decoded / rows:.1f} times over: workers share row groups of up to {most:,} rows, "
        "and each decodes them from their start"
    )
