"""What each record of CSV and TSV becomes, wherever the bytes are cut."""

import csv
import io
import time

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.dump.formats import Format
from bertscore_beam.dump.text import text_records
from tests.pipelines.dump.text.convert import check, parse

SCHEMA = pa.schema({"a": pa.string(), "b": pa.string()})
QUOTE = ("bad_line", "a quote is not closed")
RETURN = (
    "bad_line",
    "it holds a carriage return outside quotes; if these end lines, convert them to line feeds: "
    r"tr '\r' '\n' < FILE > NEW_FILE",
)
EITHER = ("bad_line", "its quotes or line ends are not those of CSV")
NOT_UTF8 = ("invalid_utf8", "")


def fields(count: int) -> tuple[str, str]:
    return "bad_line", f"got {count} fields; expected 2"


# lines -> for each record its fields, or reason and message
HOSTILE: list[tuple[bytes, list[list[str] | tuple[str, str]]]] = [
    (b"x,y", [["x", "y"]]),
    (b'"x","y"', [["x", "y"]]),
    (b'"x,1","y\n2"', [["x,1", "y\n2"]]),
    (b'"x\r\n1","\ny\n\n"', [["x\r\n1", "\ny\n\n"]]),
    (b'"a ""q""",""""', [['a "q"', '"']]),
    (b",", [["", ""]]),
    (b'"",""', [["", ""]]),
    (b'5" disk,6"', [['5" disk', '6"']]),
    (b' "x",y', [[' "x"', "y"]]),
    (b"x", [fields(1)]),
    (b"x,y,z", [fields(3)]),
    (b'"x" y,z', [QUOTE]),
    (b'"x"y",z', [QUOTE]),
    (b'"x,y', [QUOTE]),
    (b'"x\nu,v\n"y" z,w', [QUOTE, ["u", "v"], QUOTE]),
    (b'x,"y\nu,v\n"', [["x", "y\nu,v\n"]]),
    (b'x,"y\n"u,"v\nr,s', [QUOTE, QUOTE, ["r", "s"]]),
    (b'x","y\nx","y\nx","y\nu,v', [QUOTE, QUOTE, QUOTE, ["u", "v"]]),
    (b"x\ry,z", [RETURN]),
    (b"\rx,y", [RETURN]),
    (b'"x\ry",z', [["x\ry", "z"]]),
    (b'"x"\ry,z', [EITHER]),
    (b"x,y\r\r", [["x", "y"]]),
    (b"\xff,y", [NOT_UTF8]),
    (b'"\xc3","\xa9"', [NOT_UTF8]),
    (b'"x\n\xed\xa0\x80",y', [NOT_UTF8]),
    (b"\xe2\x82\nx,y", [NOT_UTF8, ["x", "y"]]),
    (b"x\x00,\x00y", [["x\x00", "\x00y"]]),
    (b"\xef\xbb\xbfx,\xef\xbb\xbfy", [["\ufeffx", "\ufeffy"]]),
    (b'\xef\xbb\xbf"x",y', [['\ufeff"x"', "y"]]),
    ("x\u2028,\x0b\x0c\x1c\x85".encode(), [["x\u2028", "\x0b\x0c\x1c\x85"]]),
    (b"NaN,1e400", [["NaN", "1e400"]]),
    (b"'x',y\\", [["'x'", "y\\"]]),
    (b"#x,y", [["#x", "y"]]),
]
BLANK = [b"", b"\r", b"\r\r"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("data", "expected"), HOSTILE, ids=lambda value: str(value)[:40])
def test_record_gives_the_same_alone_and_between_others(data, expected, end):
    table, lines = parse(b"h,h" + end + data + end, Format.CSV, SCHEMA)
    assert len(table) == 1 + len(expected)
    check(table, lines.bad, 1, *expected)
    for other, told in ((b"n,m", ["n", "m"]), (b'"n" m', QUOTE), (b"\xff", NOT_UTF8)):
        whole = end.join([b"h,h", other, data, b'r,"s"', b""])
        for piece in (1, 1 << 20):
            table, lines = parse(whole, Format.CSV, SCHEMA, piece=piece, block=piece)
            check(table, lines.bad, 1, told, *expected, ["r", "s"])
            assert len(table) == 3 + len(expected)


@pytest.mark.parametrize("kind", [Format.CSV, Format.TSV])
def test_all_of_the_table_in_one_file_with_places(kind):
    data = b"h,h\n" + b"\n".join([one for lines, _ in HOSTILE for one in (lines, *BLANK)])
    told = [["h", "h"], *(one for _, expected in HOSTILE for one in expected)]
    if kind is Format.TSV:
        data = data.replace(b"x,1", b"x;1").replace(b",", b"\t")
        hint = "; where quotes are a part of the texts, give --input-format tsv-raw"
        told = [
            [cell.replace("x,1", "x;1").replace(",", "\t") for cell in one]
            if isinstance(one, list)
            else (one[0], one[1] + (hint if one == QUOTE else ""))
            for one in told
        ]
    for piece in (1 << 20, 100, 1):
        table, lines = parse(data, kind, SCHEMA, piece=piece)
        assert len(table) == len(told)
        check(table, lines.bad, 0, *told)
        for place, number in zip(lines.offsets.tolist(), lines.numbers.tolist(), strict=True):
            assert data[:place].count(b"\n") + 1 == number
            assert place == 0 or data[place - 1 : place] == b"\n"


def test_raw_tsv_takes_quotes_as_they_are():
    cases = [
        (b'"x\ty"', ['"x', 'y"']),
        (b'5"\t""\r', ['5"', '""']),
        (b"x\ry\tz", RETURN),
        (b"x\ty\r\r", RETURN),
        (b"\xff\ty", NOT_UTF8),
        (b"x\x00\t\xef\xbb\xbfy", ["x\x00", "\ufeffy"]),
        (b"x", fields(1)),
        (b" \t ", [" ", " "]),
    ]
    data = b"h\th\n" + b"\n".join([one for line, _ in cases for one in (line, *BLANK)])
    for piece in (1 << 20, 10, 1):
        table, lines = parse(data, Format.TSV_RAW, SCHEMA, piece=piece)
        assert len(table) == 1 + len(cases)
        check(table, lines.bad, 1, *(expected for _, expected in cases))


CELLS = st.text(st.sampled_from('a",\n\r\t é\ufeff\x00'), max_size=6)


@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8),
    st.sampled_from([Format.CSV, Format.TSV]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
def test_records_of_the_csv_module_come_back(rows, kind, end, piece):
    sink = io.StringIO(newline="")
    # Unless it quotes all fields, the csv module leaves a CR bare where lines end in LF.
    quoting = csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL
    writer = csv.writer(sink, delimiter=kind.delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([["h", "h"], *rows])
    data = sink.getvalue().encode()
    table, lines = parse(data, kind, SCHEMA, piece=piece, block=piece)
    assert [list(row.values()) for row in table.to_pylist()[1:]] == rows
    assert not lines.bad


@given(
    st.lists(st.sampled_from(["a", '"', ",", "\n", "\r", "\r\n", '",', ',"', "\udcff"])),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_any_cut_gives_the_same(parts, block, piece):
    data = "".join(["h,h\n", *parts]).encode("utf-8", "surrogateescape")
    whole, lines = parse(data, Format.CSV, SCHEMA)
    pieced, told = parse(data, Format.CSV, SCHEMA, block=block, piece=piece)
    assert pieced.to_pylist() == whole.to_pylist()
    assert told.bad == lines.bad
    assert told.offsets.tolist() == lines.offsets.tolist()
    assert told.numbers.tolist() == lines.numbers.tolist()


@given(st.text(st.sampled_from('a",\n'), max_size=40))
def test_each_record_is_the_longest_that_the_csv_module_takes_or_one_bad_line(text):
    lines = io.StringIO(text, newline="\n").readlines()
    expected, line = [], 0
    while line < len(lines):
        reader = csv.reader(lines[line:], strict=True)
        try:
            row = next(reader)
        except csv.Error:
            expected.append((line, None))
            line += 1
            continue
        if row:
            expected.append((line, row if len(row) == 2 else None))
        line += reader.line_num
    table, told = parse(text.encode(), Format.CSV, SCHEMA)
    rows = [None if None in row.values() else list(row.values()) for row in table.to_pylist()]
    assert list(zip((told.numbers - 1).tolist(), rows, strict=True)) == expected


@pytest.mark.parametrize("limit", [1 << 26, 50_000])
def test_lines_that_all_leave_a_quote_open_take_linear_time(monkeypatch, limit):
    monkeypatch.setattr(text_records, "MAX_RECORD_BYTES", limit)
    data = b"h,h\n" + b'x","y\n' * 100_000 + b"u,v\n"
    started = time.process_time()
    table, lines = parse(data, Format.CSV, SCHEMA)
    assert time.process_time() - started < 20
    assert len(table) == 100_002
    assert len(lines.bad) == 100_000
    assert table.to_pylist()[-1] == {"a": "u", "b": "v"}


def test_a_limit_of_the_csv_module_that_others_have_set_changes_nothing():
    before = csv.field_size_limit(1000)
    try:
        table, lines = parse(b"h,h\n" + b"x" * 5000 + b",y\n", Format.CSV, SCHEMA)
    finally:
        csv.field_size_limit(max(before, 1 << 30))
    assert not lines.bad
    assert len(table["a"][1].as_py()) == 5000
