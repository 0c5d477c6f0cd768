"""A small dump with every kind of row that gets a reason instead of a score."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.dumps import pair_rows

FILES = 6
ROWS_PER_FILE = 100
SPLIT_ROWS = 10

_TEXTS = {3: None, 17: "", 31: " \t ", 44: "a cat \xff\xfe", 58: None, 71: "\u200b", 93: ""}
"""Hostile texts by row; `\\xff` stands for that byte, which is no UTF-8."""


def write_hostile_dump(folder: Path) -> Path:
    """Write the dump; every second file has lists of references. The same bytes every time."""
    folder.mkdir(parents=True)
    for number in range(FILES):
        rows = pair_rows(ROWS_PER_FILE, number * ROWS_PER_FILE)
        candidates, references = _spoil(rows["candidate"], 0), _spoil(rows["reference"], 5)
        table = pa.table(
            {
                "id": pa.array(rows["id"], pa.int64()),
                "candidate": _strings(candidates),
                "reference": _lists(references) if number % 2 else _strings(references),
            }
        )
        pq.write_table(table, folder / f"shard {number:03d}.parquet", row_group_size=2 * SPLIT_ROWS)
    return folder


def _spoil(texts: list[str], shift: int) -> list[str | None]:
    return [_TEXTS.get(row - shift, text) for row, text in enumerate(texts)]


def _strings(texts: list[str | None]) -> pa.Array:
    encoded = [None if text is None else text.encode("latin-1", "replace") for text in texts]
    return pa.array(encoded, pa.binary()).view(pa.string())


def _lists(texts: list[str | None]) -> pa.Array:
    """Make lists of one to three references, of none, and none at all."""
    lists: list[list[str | None] | None] = []
    for row, text in enumerate(texts):
        lists.append([text, "the cat sat", "rain fell"][: 1 + row % 3])
        if row in (8, 64):
            lists[-1] = []
        elif row in (22, 79):
            lists[-1] = None
    values = _strings([text for entry in lists if entry is not None for text in entry])
    offsets = [0]
    for entry in lists:
        offsets.append(offsets[-1] + len(entry or []))
    # A null instead of the first offset marks a list that is not there.
    marked = [None if lists[row] is None else offsets[row] for row in range(len(lists))]
    return pa.ListArray.from_arrays(pa.array([*marked, offsets[-1]], pa.int32()), values)
