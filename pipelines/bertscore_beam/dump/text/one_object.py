"""A file of JSON that is one object: it may be a row, or a whole table in columns.

    {"candidate": ["a", "b"], "reference": ["c", "d"]}          lists of one length
    {"candidate": {"0": "a", "1": "b"}, "reference": {...}}     as pandas writes a frame

As a row the first one has two candidates, each of which is compared with both references. That is
seldom meant, so the user has to say it.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bertscore_beam.dump.formats import Codec
from bertscore_beam.dump.paths import Column
from bertscore_beam.dump.text.schema import infer_schema
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import names_host
from bertscore_core.errors import InputError, load_json

_UNPACK = {Codec.NONE: "", Codec.GZIP: "gzip -dc ", Codec.ZSTD: "zstd -dc "}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names that jq takes without quotes."""


def check_is_row(row: Mapping[str, Any], schema: pa.Schema, text: TextFile) -> None:
    """Check that the only object of a file is a row, unless its format was named.

    Args:
        row: The object.
        schema: Its columns.
        text: The file.

    Raises:
        InputError: Both columns of texts have lists of one length above 1, or the rows of a frame.
    """
    if not text.is_named and (table := _table_in(row, schema, text)):
        got, command = table
        raise InputError(
            f"{mask_credentials(text.path)!r} is one object of JSON with many rows in it: got "
            f"{got}; expected an object a line. As one row each candidate would be compared with "
            "all references: if that is meant, give --input-format jsonl. Else write a line a "
            f"row: {command}"
        )


def lines_cure(data: bytes, text: TextFile) -> str:
    """Return how to make lines of an object over several lines, of which these are the first."""
    try:
        row = load_json(data)
    except ValueError:  # only a part of it
        row = None
    if isinstance(row, dict) and (table := _table_in(row, infer_schema([row]), text)):
        return f"It has many rows in it: {table[0]}. Convert it: {table[1]}"
    return f"Convert it: {jq_command('.', text)}"


def _table_in(row: Mapping[str, Any], schema: pa.Schema, text: TextFile) -> tuple[str, str] | None:
    """Return what makes an object a table, and the command that makes rows of it; None if none."""
    columns = {name: Column.find(schema, name) for name in text.lists}
    places = {
        name: ()
        if column is None or any(isinstance(step, int) for step in column.steps)
        else column.names
        for name, column in columns.items()
    }
    values = [_at(row, place) for place in places.values()]
    if len(set(places.values())) < 2 or () in places.values():
        return None
    named = " and ".join(map(repr, places))
    rows = {len(value) if isinstance(value, list) else 0 for value in values}
    if len(rows) == 1 and (number := max(rows)) > 1:
        which, each = f"range({number}) as $row", f'type == "array" and length == {number}'
        got = f"lists of one length, {number:,}, in {named}"
    elif all(map(_is_frame, values)):
        first = _jq_path(next(iter(places.values())))
        which, each = f"({first} | keys_unsorted[]) as $row", 'type == "object" and has($row)'
        got = f"objects of numbered rows, as pandas writes them, in {named}"
    else:
        return None
    take = f"map_values(if {each} then .[$row] else . end)"
    above = dict.fromkeys(place[:-1] for place in places.values() if place[:-1])
    steps = [which, take, *(f"{_jq_path(place)} |= {take}" for place in above)]
    return got, jq_command(" | ".join(steps), text)


def _is_frame(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(str.isdecimal, value))


def _at(row: Mapping[str, Any], place: Sequence[str]) -> Any:
    value: Any = row
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _jq_path(place: Sequence[str]) -> str:
    return "".join(
        f".{name}" if _PLAIN.fullmatch(name) else f".{json.dumps(name)}" for name in place
    )


def jq_command(program: str, text: TextFile) -> str:
    """Return the command that writes what a program of jq makes of a file of text."""
    path = "FILE" if names_host(text.path) else shlex.quote(text.path)
    words = f"jq -c {shlex.quote(program)}"
    unpack = _UNPACK[text.codec]
    read = f"{unpack}{path} | {words}" if unpack else f"{words} {path}"
    return f"{read} > rows.jsonl"
