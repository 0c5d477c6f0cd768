"""Rejected rows, splits and files as Parquet: file, row, rows, reason, message, candidate and more.

    OUT/_rejects/rows/<digest>/part-000000020000.pq    rows of one part without scores
    OUT/_rejects/files.pq                              files and splits that could not be read

All files have one schema, so `OUT/_rejects` can be read as one table. It does not repeat the texts,
which are in the parts.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from bertscore_beam.dump.parquet import write_part
from bertscore_beam.dump.plan import RejectedFile
from bertscore_beam.dump.splits import Split, note_name
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.credentials import mask_credentials

REJECTS_FOLDER = "_rejects"
FILES_FILE = f"{REJECTS_FOLDER}/files.pq"
REJECTED_ROWS_FOLDER = f"{REJECTS_FOLDER}/rows"

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
        # A sentence with details, or null.
        "message": pa.string(),
        # First byte of the row in a file of text, decompressed; null for Parquet.
        "byte": pa.int64(),
        # Number of its line, from 1; null for Parquet.
        "line": pa.int64(),
        # As in bertscore_candidate_from; null where a row has one candidate.
        "candidate": pa.string(),
    }
)


def rows_path(part_name: str) -> str:
    """Return the path of the list of a part's rejected rows, below the output folder."""
    # Only parts are named *.parquet, so that globs match nothing else.
    return f"{REJECTED_ROWS_FOLDER}/{note_name(part_name)}.pq"


def rejected_rows(
    split: Split, rejected: Mapping[int, str], rows: Rows, messages: Mapping[int, str]
) -> bytes:
    """List the rows of a split without scores; reasons and messages are by position in `rows`."""
    lines = rows.lines
    of_lines = {} if lines is None else {row: bad.message for row, bad in lines.bad.items()}
    file = (lines and lines.file) or mask_credentials(split.path)
    places = ((place, int(rows.input_rows[place])) for place in sorted(rejected))
    return _to_bytes(
        {
            "file": file,
            "row": split.row_offset + row,
            "rows": 1,
            "reason": rejected[place],
            "message": of_lines.get(row) or messages.get(place),
            "byte": None if lines is None else int(lines.offsets[row]),
            "line": None if lines is None else int(lines.numbers[row]),
            "candidate": rows.origins[place],
        }
        for place, row in places
    )


def rejected_files(
    files: Iterable[RejectedFile], splits: Iterable[Split], messages: Mapping[str, str]
) -> bytes:
    """List rejected files, and splits whose rows could not be read."""
    rows: list[dict[str, object]] = [
        {"file": file.path, "reason": str(file.reason), "message": file.message} for file in files
    ]
    rows += [
        {
            "file": mask_credentials(split.path),
            "row": split.row_offset,
            "rows": split.num_rows,
            "reason": UNREADABLE_ROWS,
            "message": messages.get(split.part_name),
        }
        for split in splits
    ]
    return _to_bytes(rows)


def _to_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    return write_part(pa.Table.from_pylist(list(rows), schema=SCHEMA))
