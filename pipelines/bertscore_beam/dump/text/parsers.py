"""Read the records of JSON lines, CSV and TSV, each with the place where it stood.

    blocks of bytes --lines_of--> lines --read_records--> records

What a record holds does not depend on how the bytes arrive. A record whose quotes are wrong is its
first line alone: the next begins on the next line.
"""

import csv
import hashlib
import io
import json
import math
import platform
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump.inputs import Format
from bertscore_beam.dump.texts import Reason

# Where each row of a text file stood, and which are no rows: a column beside its rows.
#
# Files that `to_parquet` writes end with `LINE_COLUMN`; `take_lines` splits it off.

PARSER_KEY = b"bertscore.text"
"""Key in the metadata of a Parquet file that was written from text; the value is `PARSER`."""
SOURCE_KEY = b"bertscore.source"
"""Key of the path of that text, if the Parquet file is deleted before anyone can look into it."""
_PYTHON = ".".join(platform.python_version_tuple()[:2])
PARSER = f"1, orjson {orjson.__version__}, Python {_PYTHON}"
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
        bad: Rows that could not be read, by position. All their columns are null.
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
    """
    metadata = dict(schema.metadata or {})
    parser, _ = metadata.pop(PARSER_KEY, None), metadata.pop(SOURCE_KEY, None)
    place = schema.get_field_index(LINE_COLUMN)
    if parser is None or place < 0 or schema.field(place).type != LINE_TYPE:
        return schema, ""
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


# Cut a file into lines, and lines into records, in bounded memory.

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Size of the largest record that is read. A larger one is a rejected row."""

_BOM = b"\xef\xbb\xbf"

Line: TypeAlias = tuple[int, int, bytes | None]
"""The number of a line, from 1; its first byte; and the line with its end, None if too long."""
Record: TypeAlias = tuple[int, int, dict[str, Any] | list[str] | BadLine]
"""The number of its first line, its first byte, and what it holds: an object of JSON, the fields of
CSV, or why it is no row."""


def lines_of(blocks: Iterable[bytes], number: int = 1, start: int = 0) -> Iterator[Line]:
    """Yield the lines of a file, without the mark of UTF-8 at its start.

    Only LF ends a line. `number` and `start` are those of the first line.
    """
    end, parts = start, list[bytes]()
    for part in chain(chain.from_iterable(map(io.BytesIO, blocks)), [b""]):
        end += len(part)
        if end - start <= MAX_RECORD_BYTES:
            parts.append(part)
        else:
            parts.clear()
        if part.endswith(b"\n") or (not part and end > start):
            line = b"".join(parts) if parts else None
            if start == 0 and line is not None and line.startswith(_BOM):
                start, line = len(_BOM), line.removeprefix(_BOM)
            yield number, start, line
            number, start = number + 1, end
            parts.clear()


def read_records(lines: Iterable[Line], kind: Format) -> Iterator[Record]:
    """Yield the records of a file that are not blank."""
    if kind.is_quoted:
        yield from _Csv(iter(lines), kind.delimiter).records()
        return
    parse = _json_row if kind is Format.JSONL else _raw_row
    for number, start, line in lines:
        row = _too_long() if line is None else parse(line)
        if row is not None:
            yield number, start, row


def _too_long() -> BadLine:
    message = f"expected at most {MAX_RECORD_BYTES} bytes"
    return BadLine(reason=Reason.LINE_TOO_LONG, message=message)


# Parse lines of JSON, each on its own.
#
# orjson decides what it accepts; what it refuses (NaN, Infinity, halves of surrogate pairs,
# integers of 310 digits and more), the json module of Python decides.

MAX_NESTING = 500
"""Most levels of objects and lists in a line: fewer than a limit of either reader."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.S)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_IS_OPENING = np.isin(np.arange(256), list(b"[{"))


def _json_row(line: bytes) -> dict[str, Any] | BadLine | None:
    """Return the object on a line, of equal keys the last, or why it is none; None if blank."""
    if len(line) > MAX_NESTING and _nests_deep(line):
        return BadLine(reason=Reason.BAD_LINE, message=f"it nests deeper than {MAX_NESTING} levels")
    try:
        row = orjson.loads(line)
    except ValueError:
        if not line.strip(b" \t\r\n"):
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


def _raw_row(line: bytes) -> list[str] | BadLine | None:
    """Return the fields of a line without quotes, separated by tabs; None for a blank line."""
    bare = _decode(line.removesuffix(b"\n").removesuffix(b"\r"))
    if not bare.strip("\r"):
        return None
    return _RETURN if "\r" in bare else _valid(bare.split("\t"))


class _Csv:
    """Parses records with quotes; `_held` are the lines of the one that is being read."""

    def __init__(self, lines: Iterator[Line], delimiter: str) -> None:
        if csv.field_size_limit() < _LONGEST_FIELD:  # of this process: anyone may have changed it
            csv.field_size_limit(_LONGEST_FIELD)
        self._lines = lines
        self._delimiter = delimiter
        self._again: deque[Line] = deque()
        self._held = bytearray()
        self._first: Line = (0, 0, None)

    def records(self) -> Iterator[Record]:
        while line := self._next():
            if line[2] is None:
                yield line[0], line[1], _too_long()
                continue
            self._again.appendleft(line)
            try:
                for fields in self._rows(self._texts()):
                    if fields:
                        yield self._first[0], self._first[1], _valid(fields)
                    self._held.clear()
            except csv.Error:
                yield from self._apart()

    def _next(self) -> Line | None:
        return self._again.popleft() if self._again else next(self._lines, None)

    def _rows(self, texts: Iterable[str]) -> "Iterator[list[str]]":
        return csv.reader(texts, delimiter=self._delimiter, strict=True)

    def _texts(self) -> Iterator[str]:
        held = self._held
        for line in iter(self._next, None):
            data = line[2]
            if data is None or len(held) + len(data) > MAX_RECORD_BYTES:
                self._again.appendleft(line)
                return  # as if the file ended here: what is held leaves a quote open
            if not held:
                self._first = line
            held += data
            yield data.decode("utf-8", "surrogateescape")

    def _apart(self) -> Iterator[Record]:
        """Yield the lines of a record that is wrong as records of their own, but for the last.

        One that leaves a quote open leads to the line where the record failed, and fails there too.
        """
        data = bytes(self._held)
        self._held.clear()
        first, begin, _ = self._first
        last = first + data.removesuffix(b"\n").count(b"\n")
        for number, start, line in lines_of([data], first, begin):
            text = _decode(line or b"")
            if number == first:
                yield number, start, _why(text)
            elif number == last:
                self._again.appendleft((number, start, line))
            elif row := self._alone(text):
                yield number, start, row

    def _alone(self, text: str) -> list[str] | BadLine | None:
        try:
            fields = next(self._rows([text]))
        except csv.Error:
            return _why(text)
        return _valid(fields) if fields else None


def _decode(data: bytes) -> str:
    """Return some text; of bytes that are not UTF-8, halves of surrogate pairs are in it."""
    return data.decode("utf-8", "surrogateescape")


def _why(line: str) -> BadLine:
    if _INVALID.search(line):
        return _NOT_UTF8
    if "\r" in line.rstrip("\r\n"):
        return _EITHER if '"' in line else _RETURN
    return _QUOTE


def _valid(fields: list[str]) -> list[str] | BadLine:
    text = "".join(fields)
    return fields if text.isascii() or not _INVALID.search(text) else _NOT_UTF8
