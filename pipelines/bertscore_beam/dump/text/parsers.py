"""Parse rows of JSON lines, CSV and TSV, each with the place where it stood.

A record whose quotes are wrong is its first line alone: the next begins on the next line.
"""

import csv
import hashlib
import io
import json
import math
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.texts import Reason
from bertscore_beam.files import is_utf8
from bertscore_core.errors import InputError

# Where each row of a text file stood, and which are no rows: a column beside its rows.
#
# Files that `to_parquet` writes end with `LINE_COLUMN`; `take_lines` splits it off.

PARSER_KEY = b"bertscore.text"
"""Key in the metadata of a Parquet file that was written from text; the value is `PARSER`."""
SOURCE_KEY = b"bertscore.source"
"""Key of the path of that text, if the Parquet file is deleted before anyone can look into it."""
_PYTHON = ".".join(platform.python_version_tuple()[:2])
PARSER = f"2, orjson {orjson.__version__}, Python {_PYTHON}"
"""Version of everything that decides a value. Files of another one must be written again."""
_KNOWN = (b"1", b"2")
"""First words of versions that are read: the lines of their files are told alike."""
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
        dropped: Fields that are no columns, with the number of rows that have them, as
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
        whole = hashlib.sha256(self.offsets.astype("<i8").tobytes())
        whole.update(repr(sorted((row, line.reason) for row, line in self.bad.items())).encode())
        return whole.hexdigest()[:16]


def without_lines(schema: pa.Schema) -> tuple[pa.Schema, str]:
    """Return the schema of a Parquet file without what is only there if it was written from text.

    With it comes a digest of how the text was read, 16 hexadecimal digits; "" for any other file.

    Raises:
        InputError: It was written by another version, in a way that this one does not know.
    """
    metadata = dict(schema.metadata or {})
    parser, _ = metadata.pop(PARSER_KEY, None), metadata.pop(SOURCE_KEY, None)
    place = schema.get_field_index(LINE_COLUMN)
    if parser is None or place < 0 or schema.field(place).type != LINE_TYPE:
        return schema, ""
    if (got := parser.partition(b",")[0]) not in _KNOWN:
        raise InputError(
            f"it was made from text by another version of bertscore-beam: got {got!a}; "
            f"expected one of {', '.join(map(ascii, _KNOWN))}. Import the text again."
        )
    schema = schema.remove(place).with_metadata(metadata)
    return schema, hashlib.sha256(parser + schema.serialize().to_pybytes()).hexdigest()[:16]


def take_lines(table: pa.Table) -> tuple[pa.Table, Lines | None]:
    """Split the lines off a table that was read from a Parquet file.

    None stands for the lines if the file was not written from text.
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
        file=table.schema.metadata.get(SOURCE_KEY, b"").decode() or None,
    )


@dataclass(slots=True, kw_only=True)
class Records:
    """Some records of a file, one after the other. Blank ones are left out.

    Attributes:
        rows: Of each record its object, or the number of its fields; None for one that is no row.
        cells: The fields of all records of CSV, one after the other.
        bad: Why records are no rows, by position.
        lines: Position of the first line of each, in the parsed data.
        taken: Lines that these records take; what follows is to be parsed again with more.
        offsets: First byte of each in the file, decompressed. Shape (records,).
        numbers: Number of its first line, from 1. Shape (records,).
        data: The bytes, also of blank lines.
    """

    rows: list[Any] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    bad: dict[int, BadLine] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    taken: int = 0
    offsets: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    data: bytes = b""

    def add(self, row: Any) -> None:
        """Add what the next line holds: an object, the fields of CSV, or a bad line; or None."""
        if row is not None:
            if isinstance(row, BadLine):
                self.bad[len(self.rows)], row = row, None
            elif isinstance(row, list):
                self.cells += row
                row = len(row)
            self.rows.append(row)
            self.lines.append(self.taken)
        self.taken += 1


# Types of JSON columns, found in the first rows.

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
LARGEST_UNSIGNED = (1 << 64) - 1
# Arrow cannot read a schema back that nests deeper than about 60 levels.
_MAX_DEPTH = 24
_TOO_DEEP = "too deep"


@dataclass(slots=True)
class _Seen:
    """What the values of one place have been so far: the first kind that is not null."""

    kind: str = ""
    item: "_Seen | None" = None
    fields: dict[str, "_Seen"] = field(default_factory=dict)


def infer_schema(rows: Iterable[Mapping[str, Any]]) -> pa.Schema:
    """Return the columns of some rows, in the order in which they first appear.

    Where values disagree the first one decides, except that numbers with and without a fraction
    are float64. A column of nulls alone is string. An object that is always empty has no column,
    nor has what is nested deeper than 24 levels.
    """
    whole = _Seen(kind="object")
    for row in rows:
        _look(whole, row)
    return pa.schema(_fields(whole))


def in_words(value: Any) -> str:
    """Name the kind of a value without showing it."""
    kind = kind_of(value)
    return {"object": "an object", "list": "a list", "bool": "a boolean", "str": "a string"}.get(
        kind, "a number"
    )


def kind_of(value: Any) -> str:
    """Return the kind of a value: one of three for numbers, else the name of its Python type."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, int) and not isinstance(value, bool):
        if SMALLEST <= value <= LARGEST:
            return "int"
        return "uint" if 0 <= value <= LARGEST_UNSIGNED else "float"
    return type(value).__name__


_NUMBERS = {
    frozenset(("int", "float")): "float",
    frozenset(("int", "uint")): "uint",
    frozenset(("uint", "float")): "float",
}


def _look(seen: _Seen, value: Any, depth: int = 0) -> None:
    if value is None:
        return
    kind = kind_of(value) if depth <= _MAX_DEPTH else _TOO_DEEP
    seen.kind = _NUMBERS.get(frozenset((seen.kind, kind)), seen.kind or kind)
    if seen.kind == kind == "object":
        for name, inner in value.items():
            _look(seen.fields.setdefault(name, _Seen()), inner, depth + 1)
    elif seen.kind == kind == "list":
        seen.item = seen.item or _Seen()
        for item in value:
            _look(seen.item, item, depth + 1)


def _fields(seen: _Seen) -> list[pa.Field]:
    typed = [(name, _type(inner)) for name, inner in seen.fields.items() if is_utf8(name)]
    return [pa.field(name, kind) for name, kind in typed if kind is not None]


def _type(seen: _Seen) -> pa.DataType | None:
    if seen.kind == _TOO_DEEP:
        return None
    if seen.kind == "object":
        fields = _fields(seen)
        return pa.struct(fields) if fields else None
    if seen.kind == "list":
        item = _type(seen.item or _Seen())
        return None if item is None else pa.list_(item)
    simple = {"bool": pa.bool_(), "int": pa.int64(), "uint": pa.uint64(), "float": pa.float64()}
    return simple.get(seen.kind, pa.string())


# Parse lines of JSON, each on its own.
#
# orjson decides what it accepts; what it refuses (NaN, Infinity, halves of surrogate pairs,
# integers of 310 digits and more), the json module of Python decides.

MAX_NESTING = 500
"""Most levels of objects and lists in a line: fewer than a limit of either reader."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.S)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_IS_OPENING = np.isin(np.arange(256), list(b"[{"))


def parse_json(data: bytes) -> Records:
    """Parse whole lines: each is an object, of equal keys the last, or bad, or blank."""
    records = Records()
    for line in data.removesuffix(b"\n").split(b"\n"):
        records.add(parse_line(line))
    return records


def parse_line(line: bytes) -> dict[str, Any] | BadLine | None:
    """Return the object on a line, why it is none, or None if the line is blank."""
    if len(line) > MAX_NESTING and _nests_deep(line):
        return BadLine(reason=Reason.BAD_LINE, message=f"it nests deeper than {MAX_NESTING} levels")
    try:
        row = orjson.loads(line)
    except ValueError:
        if not line.strip(b" \t\r"):
            return None
        row = parse_refused(line)
    if isinstance(row, dict | BadLine):
        return row
    return BadLine(reason=Reason.BAD_LINE, message="it is JSON, but not an object")


def parse_refused(line: bytes) -> Any:
    """Return the value on a line that orjson refuses, or why it has none."""
    try:
        return json.loads(line.decode("utf-8"), parse_float=_finite)
    except UnicodeDecodeError:
        return BadLine(reason=Reason.INVALID_UTF8)
    except ValueError:
        return BadLine(reason=Reason.BAD_LINE, message="it is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large for a float64")
    return number


def _nests_deep(line: bytes) -> bool:
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return False
    brackets = _STRING.sub(b"", line).translate(None, _NOT_BRACKETS)
    opens = _IS_OPENING[np.frombuffer(brackets, dtype=np.uint8)]
    return bool(np.where(opens, 1, -1).cumsum().max(initial=0) > MAX_NESTING)


# Longer than any record.
_LONGEST_FIELD = 1 << 30
_RETURN = BadLine(reason=Reason.BAD_LINE, message="it holds a carriage return outside quotes")
_QUOTE = BadLine(reason=Reason.BAD_LINE, message="a quote is not closed")
_EITHER = BadLine(reason=Reason.BAD_LINE, message="its quotes or line ends are not those of CSV")
_INVALID = re.compile("[\udc80-\udcff]")
_NOT_UTF8 = BadLine(reason=Reason.INVALID_UTF8)


def parse_csv(data: bytes, delimiter: str, *, is_last: bool, is_full: bool) -> Records:
    """Parse records with quotes, from whole lines from the beginning of a record on.

    Unless the file ends here, a record that does not end here is not taken; but the first one is if
    the data are as long as a record may be (`is_full`).
    """
    if csv.field_size_limit() < _LONGEST_FIELD:  # of this process: anyone may have changed it
        csv.field_size_limit(_LONGEST_FIELD)
    # A stream of bytes shares them, where one of text would be a copy of four bytes a character.
    stream = io.BytesIO(data)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    records = Records()
    while records.taken < lines:
        failed = _parse_until_wrong(stream, delimiter, records)
        if failed is None:
            break
        if failed == lines and not is_last and (records.taken or not is_full):
            break  # its quotes may be closed by what follows
        records.add(_why(_decode(stream.readline())))
        # A line that leaves a quote open leads to where the record failed, and fails there too.
        while records.taken < failed - 1:
            records.add(_alone(_decode(stream.readline()), delimiter))
    return _without_invalid(records, data)


def parse_raw(data: bytes, delimiter: str) -> Records:
    """Parse lines without quotes."""
    records = Records()
    for line in _decode(data).removesuffix("\n").split("\n"):
        bare = line.removesuffix("\r")
        if not bare.strip("\r"):
            records.add(None)
        else:
            records.add(_RETURN if "\r" in bare else bare.split(delimiter))
    return _without_invalid(records, data)


def _decode(data: bytes) -> str:
    """Return some text; of bytes that are not UTF-8, halves of surrogate pairs are in it."""
    return data.decode("utf-8", "surrogateescape")


def _parse_until_wrong(stream: io.BytesIO, delimiter: str, records: Records) -> int | None:
    """Add the records up to one that is wrong; return the number of the line where it fails."""
    start, end = stream.tell(), 0
    reader = csv.reader(map(_decode, stream), delimiter=delimiter, strict=True)
    failed = None
    try:
        # A list for each row would keep the garbage collector busy.
        for fields in reader:
            if fields:
                records.lines.append(records.taken + end)
                records.rows.append(len(fields))
                records.cells += fields
            end = reader.line_num
    except csv.Error:
        failed = records.taken + reader.line_num
        stream.seek(start)
        for _ in range(end):
            stream.readline()
    records.taken += end
    return failed


def _alone(line: str, delimiter: str) -> list[str] | BadLine | None:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True)) or None
    except csv.Error:
        return _why(line)


def _why(line: str) -> BadLine:
    if _INVALID.search(line):
        return _NOT_UTF8
    if "\r" in line.rstrip("\r\n"):
        return _EITHER if '"' in line else _RETURN
    return _QUOTE


def _without_invalid(records: Records, data: bytes) -> Records:
    try:
        data.decode()
    except UnicodeDecodeError:
        start, cells = 0, []
        for row, width in enumerate(records.rows):
            fields = records.cells[start : start + (width or 0)]
            start += len(fields)
            if _INVALID.search("".join(fields)):
                records.rows[row], records.bad[row] = None, _NOT_UTF8
            else:
                cells += fields
        records.cells = cells
    return records
