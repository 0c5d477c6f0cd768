"""Where each row of a text file stood, and which are not rows: a column beside its rows.

Files that `text/to_parquet.py` writes end with `LINE_COLUMN`; `take_lines` splits it off.
"""

import json
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.reasons import Reason
from bertscore_beam.files.checked import digest_of

PARSER_KEY = b"bertscore.text"
"""Key in the metadata of a Parquet file that was written from text; the value is `PARSER`."""
SOURCE_KEY = b"bertscore.source"
"""Key of the path of that text, if the Parquet file is deleted before anyone can look into it."""
_PYTHON = ".".join(platform.python_version_tuple()[:2])
PARSER = f"4, orjson {orjson.__version__}, Python {_PYTHON}"
"""Version of everything that decides a value. Files of another one must be written again."""
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
no row, null if it is one; and the names of its fields that are not columns, null if it has none."""

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
    """Why a line could not be read as a row; the message never holds the line's content."""

    reason: Reason
    message: str = ""


Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines that the rows of a split were read from.

    Attributes:
        offsets: First byte of each row in the file, decompressed. Shape (rows,).
        numbers: Line number of each row, from 1; a record of several lines has that of its first.
            Shape (rows,).
        bad: Rows that could not be read, by position. The columns that the run names are null.
        dropped: Fields that are not columns, with the number of rows that have them, as
            `fewer_names` returns them.
        file: The file they were read from, if it is not the one that was given.
    """

    offsets: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    bad: Mapping[int, BadLine] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    file: str | None = None

    @property
    def reasons(self) -> dict[int, str]:
        """The reason of each row that could not be read, by position."""
        return {row: str(line.reason) for row, line in self.bad.items()}

    def digest(self) -> str:
        """Digest the places of the rows and the reasons; 16 hexadecimal digits."""
        reasons = json.dumps(sorted(self.reasons.items()))
        return digest_of(self.offsets.astype("<i8").tobytes() + reasons.encode(), 16)


def without_lines(schema: pa.Schema) -> tuple[pa.Schema, str]:
    """Return the schema of a Parquet file without what is only there if it was written from text.

    With it comes a digest of how the text was read, 16 hexadecimal digits; "" for any other file.
    """
    metadata = dict(schema.metadata or {})
    parser, _ = metadata.pop(PARSER_KEY, None), metadata.pop(SOURCE_KEY, None)
    place = schema.get_field_index(LINE_COLUMN)
    if parser is None or place < 0 or schema.field(place).type != LINE_TYPE:
        return schema, ""
    schema = schema.remove(place).with_metadata(metadata)
    return schema, digest_of(parser + schema.serialize().to_pybytes(), 16)


def take_lines(table: pa.Table) -> tuple[pa.Table, Lines | None]:
    """Split the lines off a table that was read from a Parquet file.

    None stands for the lines if the file was not written from text.
    """
    schema, text = without_lines(table.schema)
    if not text:
        return table, None
    byte, line, reason, messages, dropped = table[LINE_COLUMN].combine_chunks().flatten()
    rows = np.flatnonzero(reason.is_valid().to_numpy(zero_copy_only=False))
    bad = zip(
        rows.tolist(), reason.take(rows).to_pylist(), messages.take(rows).to_pylist(), strict=True
    )
    names = Counter(pc.list_flatten(dropped).to_pylist())
    return table.drop_columns(LINE_COLUMN).replace_schema_metadata(schema.metadata), Lines(
        offsets=byte.to_numpy(),
        numbers=line.to_numpy(),
        bad={row: BadLine(reason=Reason(why), message=message or "") for row, why, message in bad},
        dropped=fewer_names(names),
        file=table.schema.metadata.get(SOURCE_KEY, b"").decode() or None,
    )
