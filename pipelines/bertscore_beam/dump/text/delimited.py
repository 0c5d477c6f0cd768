"""Parse records of CSV and TSV. Python's csv module decides where a record ends and what it holds.

A record whose quotes are wrong is its first line alone: the next begins on the next line.
"""

import csv
import io
import re
from collections.abc import Callable

from bertscore_beam.dump.text.lines import BadLine
from bertscore_beam.dump.text.parsed import Parsed
from bertscore_beam.dump.texts import Reason

# Longer than any record.
_LONGEST_FIELD = 1 << 30
_RETURN = BadLine(reason=Reason.BAD_LINE, message="it holds a carriage return outside quotes")
_QUOTE = BadLine(reason=Reason.BAD_LINE, message="a quote is not closed")
_EITHER = BadLine(reason=Reason.BAD_LINE, message="its quotes or line ends are not those of CSV")
_INVALID = re.compile("[\udc80-\udcff]")
_NOT_UTF8 = BadLine(reason=Reason.INVALID_UTF8)


def parse_csv(data: bytes, delimiter: str, *, is_last: bool, is_full: bool) -> Parsed:
    """Parse records with quotes.

    Args:
        data: Whole lines from the beginning of a record on.
        delimiter: What stands between two fields.
        is_last: Whether the file ends here. If not, a record that does not end here is not taken.
        is_full: Whether the data are as long as a record may be, so that the first one is taken.
    """
    if csv.field_size_limit() < _LONGEST_FIELD:  # of this process: anyone may have changed it
        csv.field_size_limit(_LONGEST_FIELD)
    is_utf8 = _is_utf8(data)
    # A stream of bytes shares them, where one of text would be a copy of four bytes a character.
    stream = io.BytesIO(data)
    decode = bytes.decode if is_utf8 else _decode
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    parsed = Parsed()
    while parsed.taken < lines:
        failed = _parse_until_wrong(stream, decode, delimiter, parsed)
        if failed is None:
            break
        is_first = not parsed.taken
        if failed == lines and not is_last and not (is_full and is_first):
            break  # its quotes may be closed by what follows
        _add(parsed, _why(decode(stream.readline())))
        # A line that leaves a quote open leads to where the record failed, and fails there too.
        while parsed.taken < failed - 1:
            _add(parsed, _alone(decode(stream.readline()), delimiter))
    if not all(parsed.rows):
        parsed.blank.update(row for row, width in enumerate(parsed.rows) if width == 0)
    return parsed if is_utf8 else _without_invalid(parsed)


def parse_raw(data: bytes, delimiter: str) -> Parsed:
    """Parse lines without quotes.

    Args:
        data: Whole lines.
        delimiter: What stands between two fields.
    """
    parsed = Parsed()
    for line in _decode(data).removesuffix("\n").split("\n"):
        bare = line.removesuffix("\r")
        if not bare.strip("\r"):
            parsed.blank.add(parsed.taken)
            _add(parsed, [])
        else:
            _add(parsed, _RETURN if "\r" in bare else bare.split(delimiter))
    return parsed if _is_utf8(data) else _without_invalid(parsed)


def _add(parsed: Parsed, fields: list[str] | BadLine) -> None:
    """Add a record of one line."""
    parsed.lines.append(parsed.taken)
    parsed.taken += 1
    if isinstance(fields, BadLine):
        parsed.bad[len(parsed.rows)] = fields
        parsed.rows.append(None)
    else:
        parsed.rows.append(len(fields))
        parsed.cells += fields


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode(data: bytes) -> str:
    """Return some text; of bytes that are not UTF-8, halves of surrogate pairs are in it."""
    return data.decode("utf-8", "surrogateescape")


def _parse_until_wrong(
    stream: io.BytesIO, decode: Callable[[bytes], str], delimiter: str, parsed: Parsed
) -> int | None:
    """Parse the records of a stream up to one that is wrong or open at the end, and stop before it.

    Returns:
        The number of lines after the one where that one failed; None if all are right.
    """
    start = stream.tell()
    reader = csv.reader(map(decode, stream), delimiter=delimiter, strict=True)
    ends = [0]
    failed = None
    try:
        # A list for each row would keep the garbage collector busy.
        for fields in reader:
            ends.append(reader.line_num)
            parsed.rows.append(len(fields))
            parsed.cells += fields
    except csv.Error:
        failed = parsed.taken + reader.line_num
        stream.seek(start)
        for _ in range(ends[-1]):
            stream.readline()
    parsed.lines += [parsed.taken + end for end in ends[:-1]]
    parsed.taken += ends[-1]
    return failed


def _alone(line: str, delimiter: str) -> list[str] | BadLine:
    """Parse a line that must hold a whole record."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return _why(line)


def _why(line: str) -> BadLine:
    """Say what is wrong with a line that the csv module refuses."""
    if _INVALID.search(line):
        return _NOT_UTF8
    if "\r" in line.rstrip("\r\n"):
        return _EITHER if '"' in line else _RETURN
    return _QUOTE


def _without_invalid(parsed: Parsed) -> Parsed:
    """Mark the records that are not UTF-8."""
    start, cells = 0, []
    for row, width in enumerate(parsed.rows):
        fields = parsed.cells[start : start + (width or 0)]
        start += len(fields)
        if _INVALID.search("".join(fields)):
            parsed.rows[row], parsed.bad[row] = None, _NOT_UTF8
        else:
            cells += fields
    parsed.cells = cells
    return parsed
