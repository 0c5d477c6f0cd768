"""Where each row of a text file stood, and which are no rows: a column beside its rows.

Files that `to_parquet` writes end with `LINE_COLUMN`; `take_lines` splits it off.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.texts import Reason

PARSER_KEY = b"bertscore.text"
"""Key in the metadata of a Parquet file that was written from text; the value is `PARSER`."""
LINE_COLUMN = "bertscore_line"
"""Last column of a Parquet file that was written from text."""
LINE_TYPE = pa.struct(
    [
        pa.field("byte", pa.int64(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("message", pa.string()),
        pa.field("dropped", pa.list_(pa.string())),
    ]
)
"""Of each row: its first byte in the file, decompressed; the number of its line, from 1; why it is
no row, null if it is one; and the names of its fields that are no columns, null if it has none."""

MOST_DROPPED = 100
"""Most names of dropped fields that are kept: a JSON object may use ids as names."""
OTHER_FIELDS = "(other fields)"


def fewer_names(dropped: Mapping[str, int]) -> dict[str, int]:
    """Return the first dropped fields by name, and the number of all others under one name.

    Applied to parts of a sum and to the sum, in any order, it gives the same.
    """
    names = sorted(dropped.keys() - {OTHER_FIELDS})
    kept = {name: dropped[name] for name in names[:MOST_DROPPED]}
    others = sum(dropped[name] for name in names[MOST_DROPPED:]) + dropped.get(OTHER_FIELDS, 0)
    return kept | ({OTHER_FIELDS: others} if others else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """Why a line could not be read as a row.

    Attributes:
        reason: In one word.
        message: In a sentence without the line's content; "" if there is no more to say.
    """

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines that the rows of a split were read from.

    Attributes:
        offsets: First byte of each row in the file, decompressed. Shape (rows,).
        numbers: Line number of each row, from 1; a record of several lines has that of its first.
            Shape (rows,).
        bad: Rows that could not be read, by position. All their columns are null.
        dropped: Fields that are no columns, with the number of rows that have them, as
            `fewer_names` returns them.
    """

    offsets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    bad: Mapping[int, BadLine] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def join(cls, pieces: Iterable["Lines"]) -> "Lines":
        """Return the lines of several runs of rows, one after the other."""
        offsets: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        numbers: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        bad: dict[int, BadLine] = {}
        dropped: Counter[str] = Counter()
        rows = 0
        for piece in pieces:
            offsets.append(piece.offsets)
            numbers.append(piece.numbers)
            bad.update({rows + row: line for row, line in piece.bad.items()})
            dropped.update(piece.dropped)
            rows += len(piece.offsets)
        return cls(
            offsets=np.concatenate(offsets),
            numbers=np.concatenate(numbers),
            bad=bad,
            dropped=fewer_names(dropped),
        )

    @property
    def reasons(self) -> dict[int, str]:
        """The reason of each row that could not be read, by position."""
        return {row: str(line.reason) for row, line in self.bad.items()}

    def digest(self) -> str:
        """Digest the places of the rows and the reasons; 16 hexadecimal digits."""
        whole = hashlib.sha256(self.offsets.astype("<i8").tobytes())
        whole.update(repr(sorted((row, line.reason) for row, line in self.bad.items())).encode())
        return whole.hexdigest()[:16]


def without_lines(schema: pa.Schema) -> tuple[pa.Schema, str]:
    """Return the schema of a Parquet file without what is only there if it was written from text.

    Returns:
        The columns of the text, and a digest of how it was read, 16 hexadecimal digits; the schema
        itself and "" for any other file.
    """
    metadata = dict(schema.metadata or {})
    parser = metadata.pop(PARSER_KEY, None)
    place = schema.get_field_index(LINE_COLUMN)
    if parser is None or place < 0 or schema.field(place).type != LINE_TYPE:
        return schema, ""
    schema = schema.remove(place).with_metadata(metadata)
    return schema, hashlib.sha256(parser + schema.serialize().to_pybytes()).hexdigest()[:16]


def take_lines(table: pa.Table) -> tuple[pa.Table, Lines | None]:
    """Split the lines off a table that was read from a Parquet file.

    Args:
        table: Some rows of the file.

    Returns:
        The table without `LINE_COLUMN`, and what that says; the table itself and None if the file
        was not written from text.
    """
    schema, text = without_lines(table.schema)
    if not text:
        return table, None
    byte, line, reason, message, dropped = table[LINE_COLUMN].combine_chunks().flatten()
    rows = np.flatnonzero(reason.is_valid().to_numpy(zero_copy_only=False))
    told = zip(
        rows.tolist(), reason.take(rows).to_pylist(), message.take(rows).to_pylist(), strict=True
    )
    names = Counter(pc.list_flatten(dropped).to_pylist())
    return table.drop_columns(LINE_COLUMN).replace_schema_metadata(schema.metadata), Lines(
        offsets=byte.to_numpy(),
        numbers=line.to_numpy(),
        bad={row: BadLine(reason=Reason(why), message=said or "") for row, why, said in told},
        dropped=fewer_names(names),
    )
