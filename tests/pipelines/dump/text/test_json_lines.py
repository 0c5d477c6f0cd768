"""What each line of JSON becomes, alone and beside others."""

import json
import math

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.lines import BadLine
from bertscore_beam.dump.text.parsers import MAX_NESTING, parse_line, parse_refused
from bertscore_beam.dump.text.schema import infer_schema
from tests.pipelines.dump.text.convert import check, parse
from tests.support.text_files import to_jsonl

SCHEMA = pa.schema(
    {
        "s": pa.string(),
        "i": pa.int64(),
        "u": pa.uint64(),
        "f": pa.float64(),
        "b": pa.bool_(),
        "o": pa.struct({"x": pa.float64(), "t": pa.string()}),
        "l": pa.list_(pa.struct({"n": pa.int64()})),
    }
)
NOT_JSON = ("bad_line", "it is not JSON")
NO_OBJECT = ("bad_line", "it is JSON, but not an object")
TOO_DEEP = ("bad_line", f"it nests deeper than {MAX_NESTING} levels")
NOT_UTF8 = ("invalid_utf8", "")


def drift(column: str, got: str, expected: str) -> tuple[str, str]:
    return "type_drift", f"column {column!r}: got {got}; expected {expected}"


def half(column: str) -> tuple[str, str]:
    return "invalid_utf8", f"column {column!r} holds half of a surrogate pair"


def nested(depth: int) -> bytes:
    return b'{"new": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


# Lines that are no JSON, with two bars between them.
REFUSED = (
    b'{"f": -NaN}||{"f": Inf}||{"f": nan}||{"f": 1e400}||{"f": -1e400}||{"new": 1e400}||{"i": 01}'
    b'||{"f": 1.7976931348623159e308}||{"i": +1}||{"i": 1_000}||{"s": "a\x00"}||{"s": "a\tb"}'
    b'||{"s": "\\x41"}||\x00{"s": "a"}||{"s": "a"}\x00||x\xef\xbb\xbf{"s": "a"}||{"s": "a"},'
    b'||{"s": "a"}{"s": "b"}||{"s": "a"} {"s": "b"}||{"s": "a",}||{"s": "a"||{\'s\': \'a\'}'
    b'||{"s": "a"} // x||{"s": "a\rb"}||{"s": "a"}\r{"s": "b"}||\x0b{"s": "a"}||{"s": "a"} x'
)
FLOATS = (
    b"NaN Infinity -Infinity 1.7976931348623157e308 1e-400 5e-324 -0.0 9007199254740993.0 "
    b"9007199254740994 1460000000000000000 -18446744073709551616 100000000000000000000"
)
NO_FLOATS = b"9007199254740993 1460000000000000001 18446744073709551615 " + b"9" * 400
NO_INT64 = b"9223372036854775808 -9223372036854775809 1.0 1e2 " + b"9" * 400
BAD_BYTES = b'{"s": "\xff"}||{"s": "\xed\xa0\x80"}||{"new": "\xc0\x80"}||{"s": "x"} \xff'
TOO_MANY = (MAX_NESTING + 1, 1000, 200_000)
# line -> the values that are not null, or reason and message
HOSTILE: list[tuple[bytes, dict | tuple[str, str]]] = [
    *(
        (line, NOT_JSON)
        for line in (*REFUSED.split(b"||"), b'{"f": ' + b"9" * 5000 + b"}", b" " * 1000 + b"x")
    ),
    *((b'{"f": ' + digits + b"}", {"f": float(digits)}) for digits in FLOATS.split()),
    *((line, NO_OBJECT) for line in (b"[1]", b"null", b'"text"', b"NaN", b"1")),
    *((line, TOO_DEEP) for line in (*map(nested, TOO_MANY), b"[" * 1000)),
    *((b'{"s": ' + first + b', "s": "b"}', {"s": "b"}) for first in (b'"a"', b"1", b"NaN")),
    *((b'{"i": ' + digits + b"}", drift("i", "a number", "int64")) for digits in NO_INT64.split()),
    *((line, NOT_UTF8) for line in BAD_BYTES.split(b"||")),
    (b'{"s": "x", "f": NaN}', {"s": "x", "f": math.nan}),
    (b'{"o": {"x": NaN, "t": "a"}}', {"o": {"x": math.nan, "t": "a"}}),
    (b'{"f": 1' + b"0" * 300 + b"}", drift("f", "a number", "double")),
    (b'\xef\xbb\xbf{"s": "a"}', {"s": "a"}),
    *(
        (b'{"f": ' + digits + b"}", drift("f", "a number", "double"))
        for digits in NO_FLOATS.split()
    ),
    (b'{"s": "x", "new": ' + b"9" * 400 + b"}", {"s": "x"}),
    (b'{"f": 0.' + b"3" * 4000 + b"}", {"f": 1 / 3}),
    (b'{"i": 9007199254740993}', {"i": 9007199254740993}),
    (b'{"i": 9223372036854775807}', {"i": 9223372036854775807}),
    (b'{"i": -9223372036854775808}', {"i": -9223372036854775808}),
    (b'{"i": -0}', {"i": 0}),
    (b'{"i": true}', drift("i", "a boolean", "int64")),
    (b'{"i": "1"}', drift("i", "a string", "int64")),
    (b'{"u": 18446744073709551615}', {"u": 18446744073709551615}),
    (b'{"u": 18446744073709551616}', drift("u", "a number", "uint64")),
    (b'{"u": -1}', drift("u", "a number", "uint64")),
    (b'{"b": 1}', drift("b", "a number", "bool")),
    (b'{"b": false}', {"b": False}),
    (b'{"s": 1}', drift("s", "a number", "string")),
    (b'{"s": []}', drift("s", "a list", "string")),
    (b'{"s": NaN}', drift("s", "a number", "string")),
    (b'{"s": "2026-01-01"}', {"s": "2026-01-01"}),
    (b'{"s": "\\ud800"}', half("s")),
    (b'{"s": "\\ud83d\\ude00"}', {"s": "\U0001f600"}),
    (b'{"s": "\\ude00\\ud83d"}', half("s")),
    (b'{"o": {"t": "\\udfff"}}', half("o.t")),
    (b'{"s": "x", "new": "\\ud800"}', {"s": "x"}),
    (b'{"s": "x", "\\ud800": 1}', {"s": "x"}),
    (b'{"s": "a\\u0000b"}', {"s": "a\0b"}),
    (b'{"s": "\x7f\xc2\x85\xe2\x80\xa8"}', {"s": "\x7f\x85\u2028"}),
    (b'{"s": "\xef\xbb\xbfa"}', {"s": "\ufeffa"}),
    (b'{"o": {"x": 1}, "o": {"t": "b"}}', {"o": {"x": None, "t": "b"}}),
    (b"{}", {}),
    (b'{"o": {}, "l": []}', {"o": {"x": None, "t": None}, "l": []}),
    (b'{"l": [null, {}, {"n": 1}]}', {"l": [None, {"n": None}, {"n": 1}]}),
    (b'{"l": [{"n": 1}, {"n": "1"}]}', drift("l.n", "a string", "int64")),
    (b'{"l": {"n": 1}}', drift("l", "an object", "list<item: struct<n: int64>>")),
    (b'{"o": [1]}', drift("o", "a list", "struct<x: double, t: string>")),
    (b'\r {"s": "a"}\t\r', {"s": "a"}),
    (nested(50), {}),
    (nested(MAX_NESTING), {}),
    (b'{"f": NaN, ' + nested(MAX_NESTING)[1:], {"f": math.nan}),
    (b'{"f": NaN, ' + nested(1000)[1:], TOO_DEEP),
    (b'{"s": "' + b"[" * 1000 + b'"}', {"s": "[" * 1000}),
    (b'{"s": "\\"' + b"[{" * 1000 + b'\\\\"}', {"s": '"' + "[{" * 1000 + "\\"}),
    (b'{"new": [' + b",".join([b"[]"] * 2000) + b"]}", {}),
]
BLANK = [b"", b"\r", b" ", b"\t \r", b" " * 100]
GOOD = b'{"s": "good", "i": 1}'


@pytest.mark.parametrize(("line", "expected"), HOSTILE, ids=lambda value: str(value)[:40])
def test_line_gives_the_same_alone_and_between_others(line, expected):
    table, lines = parse(b"\n" + line, Format.JSONL, SCHEMA)
    check(table, lines.bad, 0, expected)
    for other in (GOOD, b"{", b'{"s": 1, "new": 2}', b'{"f": NaN}'):
        beside, told = parse(b"\n".join([other, line, other]), Format.JSONL, SCHEMA)
        assert len(beside) == 3
        check(beside, told.bad, 1, expected)


def test_all_of_the_table_in_one_file_with_places():
    data = b"\r\n".join([one for line, _ in HOSTILE for one in (line, *BLANK, GOOD)])
    for piece in (1 << 30, 1 << 18, 1 << 14):
        table, lines = parse(data, Format.JSONL, SCHEMA, piece=piece, block=piece)
        assert len(table) == 2 * len(HOSTILE)
        for number, (line, expected) in enumerate(HOSTILE):
            check(table, lines.bad, 2 * number, expected, {"s": "good", "i": 1})
            assert data.startswith(line, lines.offsets[2 * number])
            assert data[: lines.offsets[2 * number]].count(b"\n") + 1 == lines.numbers[2 * number]


def test_messages_never_hold_what_stands_in_a_line():
    said = {told[1] for _, told in HOSTILE if isinstance(told, tuple)}
    assert not [words for words in said if "999" in words or "text" in words]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.booleans())
def test_both_readers_say_the_same_of_what_orjson_accepts(row, ascii_only):
    line = to_jsonl([row], ascii_only=ascii_only)[:-1]
    try:
        orjson.loads(line)
    except ValueError:
        return
    schema = infer_schema([parse_line(line)])
    assert schema.equals(infer_schema([parse_refused(line)]), check_metadata=True)
    assert repr(parse(line, Format.JSONL, schema)[0].to_pylist()) == repr(
        parse(line + b" ", Format.JSONL, schema)[0].to_pylist()
    )


@given(st.binary(max_size=30) | st.text(st.sampled_from('{}[]":,0123eE+-.ntf\\u d'), max_size=30))
def test_what_orjson_accepts_the_second_reader_accepts_too(some):
    raw = some.encode("utf-8", "surrogatepass") if isinstance(some, str) else some
    line = raw.replace(b"\n", b"")
    for whole in (line, b'{"a": ' + line + b"}"):
        try:
            first = orjson.loads(whole)
        except ValueError:
            continue
        second = parse_refused(whole)
        assert not isinstance(second, BadLine)
        assert json.dumps(first) == json.dumps(second) or any(
            len(digits) > 18 for digits in whole.split()
        )


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), min_size=1, max_size=8),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_pieces_and_neighbours_change_nothing(rows, block, piece):
    data = to_jsonl(rows)
    schema = infer_schema([{"z": True}, rows[0]])
    whole, lines = parse(data, Format.JSONL, schema)
    pieced, told = parse(data, Format.JSONL, schema, block=block, piece=piece)
    assert repr(pieced.to_pylist()) == repr(whole.to_pylist())
    assert told.bad == lines.bad
    assert told.dropped == lines.dropped
    assert told.offsets.tolist() == lines.offsets.tolist()
    alone = [parse(line, Format.JSONL, schema)[0] for line in data.splitlines()]
    assert repr(pa.concat_tables(alone).to_pylist()) == repr(whole.to_pylist())


@given(st.integers(-(2**54), 2**54) | st.integers(-(10**310), 10**310))
def test_integer_of_64_bits_is_a_float64_only_if_it_stays_the_same(number):
    schema = pa.schema({"f": pa.float64(), "o": pa.list_(pa.float64())})
    table, lines = parse(b'{"f": %d, "o": [%d]}' % (number, number), Format.JSONL, schema)
    (row,) = table.to_pylist()
    if lines.reasons:
        assert lines.reasons == {0: "type_drift"}
        assert not -(2**53) <= number <= 2**53
        assert row == {"f": None, "o": None}
    else:  # orjson reads integers of more than 64 bits as float64
        kept = number if -(2**63) <= number < 2**64 else float(number)
        assert row == {"f": kept, "o": [kept]}
