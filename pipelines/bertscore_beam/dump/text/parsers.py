"""Parse rows of JSON lines, CSV and TSV, each with the place where it stood.

A record whose quotes are wrong is its first line alone: the next begins on the next line.
"""

import csv
import io
import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from bertscore_beam.dump.lines import BadLine, Places
from bertscore_beam.dump.reasons import Reason


@dataclass(slots=True, kw_only=True)
class ParsedRecords:
    """Some records of a file, one after the other. Blank ones are left out.

    Attributes:
        rows: Of each record its object, or the number of its fields; None for a bad one.
        cells: The fields of all records of CSV, one after the other.
        bad: Why records are not rows, by position.
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


MARK = b"\xef\xbb\xbf"
"""The byte order mark, which some programs write first. Files that were joined have it within: in
JSON it is no part of a line, elsewhere it may be the first character of a text."""

# Parse lines of JSON, each on its own.
#
# orjson decides what it accepts; what it refuses (NaN, Infinity, halves of surrogate pairs,
# integers of 310 digits and more), the json module of Python decides. So it does where an integer
# has so many digits that it may not fit 64 bits: orjson rounds it.

MAX_NESTING = 500
"""Most levels of objects and lists in a line: fewer than a limit of either reader."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.S)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_IS_OPENING = np.isin(np.arange(256), list(b"[{"))
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_DIGITS = b"0" * 19
_LONG_INTEGER = re.compile(rb"[:\[,]\s*-?[0-9]{19}")


def parse_json(data: bytes) -> ParsedRecords:
    """Parse whole lines: each is an object, of equal keys the last, or bad, or blank."""
    records = ParsedRecords()
    may_be_long = _LONG_DIGITS in data.translate(_AS_ZEROS)  # faster than to look at each line
    for line in data.removesuffix(b"\n").split(b"\n"):
        records.add(parse_line(line, may_be_long=may_be_long))
    return records


def parse_line(line: bytes, *, may_be_long: bool = True) -> dict[str, Any] | BadLine | None:
    """Return the object on a line, or why there is none, or None if the line is blank.

    `may_be_long` is false if the line holds no integer of 19 digits or more.
    """
    line = line.removeprefix(MARK)
    if len(line) > MAX_NESTING and _nests_deep(line):
        return BadLine(reason=Reason.BAD_LINE, message=f"it nests deeper than {MAX_NESTING} levels")
    is_long = may_be_long and _LONG_INTEGER.search(line) is not None
    try:
        row = parse_refused(line) if is_long else orjson.loads(line)
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
END_LINES = r"tr '\r' '\n' < FILE > NEW_FILE"
_RETURN = BadLine(
    reason=Reason.BAD_LINE,
    message="it holds a carriage return outside quotes; if these end lines, convert them to "
    f"line feeds: {END_LINES}",
)
_QUOTE = BadLine(reason=Reason.BAD_LINE, message="a quote is not closed")
_RAW = "; where quotes are a part of the texts, give --input-format tsv-raw"
_TAB = "\t"
_EITHER = BadLine(reason=Reason.BAD_LINE, message="its quotes or line ends are not those of CSV")
_INVALID = re.compile("[\udc80-\udcff]")
_NOT_UTF8 = BadLine(reason=Reason.INVALID_UTF8)


def parse_csv(data: bytes, delimiter: str, *, is_last: bool, is_full: bool) -> ParsedRecords:
    """Parse records with quotes, from whole lines from the beginning of a record on.

    Unless the file ends here, a record that does not end here is not taken; but the first one is if
    the data are as long as a record may be (`is_full`).
    """
    if csv.field_size_limit() < _LONGEST_FIELD:  # of this process: anyone may have changed it
        csv.field_size_limit(_LONGEST_FIELD)
    # A stream of bytes shares them, where one of text would be a copy of four bytes a character.
    stream = io.BytesIO(data)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    records = ParsedRecords()
    while records.taken < lines:
        failed = _parse_until_wrong(stream, delimiter, records)
        if failed is None:
            break
        if failed == lines and not is_last and (records.taken or not is_full):
            break  # its quotes may be closed by what follows
        records.add(_explain(_decode(stream.readline()), delimiter))
        # A line that leaves a quote open leads to where the record failed, and fails there too.
        while records.taken < failed - 1:
            records.add(_parse_alone(_decode(stream.readline()), delimiter))
    return _without_invalid(records, data)


def parse_raw(data: bytes, delimiter: str) -> ParsedRecords:
    """Parse lines without quotes."""
    records = ParsedRecords()
    for line in _decode(data).removesuffix("\n").split("\n"):
        bare = line.removesuffix("\r")
        if not bare.strip("\r"):
            records.add(None)
        else:
            records.add(_RETURN if "\r" in bare else bare.split(delimiter))
    return _without_invalid(records, data)


def parse_texts(data: bytes) -> ParsedRecords:
    """Parse lines that are a text each, an empty one as well."""
    records = ParsedRecords()
    for line in data.removesuffix(b"\n").split(b"\n"):
        try:
            records.add(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            records.add(_NOT_UTF8)
    return records


def _decode(data: bytes) -> str:
    """Return some text; of bytes that are not UTF-8, halves of surrogate pairs are in it."""
    return data.decode("utf-8", "surrogateescape")


def _parse_until_wrong(stream: io.BytesIO, delimiter: str, records: ParsedRecords) -> int | None:
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


def _parse_alone(line: str, delimiter: str) -> list[str] | BadLine | None:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True)) or None
    except csv.Error:
        return _explain(line, delimiter)


def _explain(line: str, delimiter: str) -> BadLine:
    if _INVALID.search(line):
        return _NOT_UTF8
    if "\r" in line.rstrip("\r\n"):
        return _EITHER if '"' in line else _RETURN
    return replace(_QUOTE, message=_QUOTE.message + _RAW) if delimiter == _TAB else _QUOTE


def _without_invalid(records: ParsedRecords, data: bytes) -> ParsedRecords:
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
