"""Parse lines of JSON, each on its own.

orjson decides what it accepts; what it refuses (NaN, Infinity, halves of surrogate pairs, integers
of 310 digits and more), the json module of Python decides.
"""

import json
import math
import re
from typing import Any

import numpy as np
import orjson

from bertscore_beam.dump.text.lines import BadLine
from bertscore_beam.dump.text.parsed import Parsed
from bertscore_beam.dump.texts import Reason

MAX_NESTING = 500
"""Most levels of objects and lists in a line: fewer than a limit of either reader."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.S)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_IS_OPENING = np.isin(np.arange(256), list(b"[{"))


def parse_json(data: bytes) -> Parsed:
    """Parse whole lines: each is an object, of equal keys the last, or bad, or blank."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    rows: list[Any] = list(map(parse_line, lines))
    parsed = Parsed(rows=rows, lines=list(range(len(lines))), taken=len(lines))
    for number, row in enumerate(rows):
        if type(row) is dict:
            continue
        rows[number] = None
        if row is None:
            parsed.blank.add(number)
        else:
            parsed.bad[number] = row
    return parsed


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
    """Tell whether a line nests too deep, if it is JSON."""
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return False
    brackets = _STRING.sub(b"", line).translate(None, _NOT_BRACKETS)
    opens = _IS_OPENING[np.frombuffer(brackets, dtype=np.uint8)]
    return bool(np.where(opens, 1, -1).cumsum().max(initial=0) > MAX_NESTING)
