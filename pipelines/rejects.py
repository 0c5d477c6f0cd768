"""What was rejected, as Parquet: file, row, rows, reason, message.

    OUT/_rejects/rows/<digest>/part-000000020000.pq    rows of one part without scores
    OUT/_rejects/files.pq                              files and splits that could not be read

All have one schema, so that `OUT/_rejects` reads as one table. The rows themselves are in the
parts; their texts are not repeated here.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from pipelines.io.files import join, mask_credentials
from pipelines.io.parquet import write_part
from pipelines.planning import RejectedFile
from pipelines.splits import Split, note_name

REJECTS_FOLDER = "_rejects"
FILES_FILE = f"{REJECTS_FOLDER}/files.pq"
ROWS_FOLDER = f"{REJECTS_FOLDER}/rows"

UNREADABLE_ROWS = "unreadable_rows"
"""Reason of a split that could not be read."""

SCHEMA = pa.schema(
    {
        # Path or URL of the input file, without credentials.
        "file": pa.string(),
        # Position of the first row in it; null when the file is rejected as a whole.
        "row": pa.int64(),
        # How many rows; null when they could not be counted.
        "rows": pa.int64(),
        # One word, as in bertscore_error and in the summary.
        "reason": pa.string(),
        # A sentence, where there is more to say.
        "message": pa.string(),
    }
)


def rows_path(output: str, part_name: str) -> str:
    """Return where the rejected rows of a part are listed."""
    # Only parts are called *.parquet, so that globs find nothing else.
    return join(output, ROWS_FOLDER, note_name(part_name) + ".pq")


def rejected_rows(split: Split, rejected: Mapping[int, str]) -> bytes:
    """List the rows of a split that have no scores, by their position in the split."""
    file = mask_credentials(split.path)
    return _to_bytes(
        {
            "file": file,
            "row": split.row_offset + row,
            "rows": 1,
            "reason": reason,
            "message": None,
        }
        for row, reason in sorted(rejected.items())
    )


def rejected_files(
    files: Iterable[RejectedFile], splits: Iterable[Split], messages: Mapping[str, str]
) -> bytes:
    """List rejected files, and splits whose rows could not be read.

    Args:
        files: Files rejected when planning.
        splits: Splits without a part.
        messages: Why, by part name, as far as it is known.
    """
    whole: list[dict[str, object]] = [
        {
            "file": file.path,
            "row": None,
            "rows": None,
            "reason": str(file.reason),
            "message": file.message,
        }
        for file in files
    ]
    pieces: list[dict[str, object]] = [
        {
            "file": mask_credentials(split.path),
            "row": split.row_offset,
            "rows": split.num_rows,
            "reason": UNREADABLE_ROWS,
            "message": messages.get(split.part_name),
        }
        for split in splits
    ]
    return _to_bytes(whole + pieces)


def _to_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    return write_part(pa.Table.from_pylist(list(rows), schema=SCHEMA))
