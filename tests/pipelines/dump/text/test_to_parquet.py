"""Whole text files become Parquet: all rows, in bounded memory, or an error."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
from functools import partial
from hashlib import sha512
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertscore_beam.dump.formats import TWO_FILES, Format
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.lines import LINE_COLUMN, LINE_TYPE, PARSER, PARSER_KEY, Lines, take_lines
from bertscore_beam.dump.text import text_records, text_source, to_parquet
from bertscore_beam.dump.text.text_source import TextFile
from bertscore_beam.dump.text.to_parquet import write_rows
from bertscore_beam.files.find import file_version
from bertscore_beam.files.write import write_atomically
from bertscore_core.errors import InputError
from tests.pipelines.dump.text.convert import convert, parse, text_file
from tests.support.dumps import SCHEMA, pair_rows
from tests.support.s3 import s3_bucket
from tests.support.text_files import to_csv, to_jsonl, write_text

TEXTS = 'a||Ünïcode 🎉|q "x", y|tab\there|line\nbreak\r\n|\ufeffmark|\0|NaN'
HEADER = ["candidate", "reference"]
CELLS = [[one, other] for one in TEXTS.split("|") for other in reversed(TEXTS.split("|"))] * 3
TABLE = pa.table(
    {name: list(column) for name, column in zip(HEADER, zip(*CELLS, strict=True), strict=True)}
)
BOM = b"\xef\xbb\xbf"


def as_jsonl(*, end: bytes = b"\n", ascii_only: bool = True) -> bytes:
    rows = [dict(zip(HEADER, cells, strict=True)) for cells in CELLS]
    return end.join(to_jsonl(rows, ascii_only=ascii_only).split(b"\n"))


FILES = {
    "a.jsonl": as_jsonl(),
    "b.jsonl": as_jsonl(end=b"\r\n", ascii_only=False),
    "c.ndjson": BOM + as_jsonl(),
    "d.json": as_jsonl()[:-1],
    "e.jsonl.gz": BOM + as_jsonl(end=b"\n\n\r\n"),
    "f.jsonl.zst": as_jsonl(),
    "g.csv": to_csv([HEADER, *CELLS]),
    "h.csv.gz": BOM + to_csv([HEADER, *CELLS]),
    "i.tsv": to_csv([HEADER, *CELLS], "\t"),
    "j.tsv.zst": to_csv([HEADER, *CELLS], "\t")[:-2],
}


@pytest.mark.parametrize("piece", [1 << 18, 300, 1])
@pytest.mark.parametrize("name", FILES)
def test_rows_of_every_format_are_those_of_parquet(tmp_path, monkeypatch, name, piece):
    monkeypatch.setattr(text_records, "PIECE_BYTES", piece)
    monkeypatch.setattr(text_source, "BLOCK_BYTES", max(piece, 2))
    table, lines = convert(write_text(tmp_path / name, FILES[name]))
    assert table.equals(TABLE)
    assert not lines.bad
    assert not lines.dropped
    data = FILES[name]
    assert all(data[place - 1 : place] == b"\n" for place in lines.offsets.tolist()[1:])
    starts = [data[:place].count(b"\n") + 1 for place in lines.offsets.tolist()]
    assert lines.numbers.tolist() == starts


def test_types_of_json_come_back(tmp_path):
    rows = [
        dict(zip(SCHEMA.names, row, strict=True))
        for row in zip(*pair_rows(40).values(), strict=True)
    ]
    table, _ = convert(write_text(tmp_path / "a.jsonl", to_jsonl(rows)))
    assert table.schema.equals(SCHEMA)
    assert table.to_pylist() == rows


def test_file_says_where_each_row_stood_for_next_to_nothing(tmp_path):
    rows = [{"candidate": sha512(b"%d" % n).hexdigest()[: n % 90]} for n in range(50_000)]
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows) + b'{"candidate": 1}\n{"late": 2}')
    out = io.BytesIO()
    write_rows(text_file(path), out)
    with pq.ParquetFile(out) as file:
        assert file.schema_arrow.metadata == {PARSER_KEY: PARSER.encode()}
        assert file.schema_arrow.names == ["candidate", LINE_COLUMN]
        assert file.schema_arrow.field(LINE_COLUMN).type == LINE_TYPE
        footer = file.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        table, lines = take_lines(file.read())
    assert [group.num_rows for group in groups] == [20_000, 20_000, 10_002]
    sizes = [group.column(n).total_compressed_size for group in groups for n in range(1, 6)]
    assert sum(sizes) < 2 * 50_000
    assert table.column_names == ["candidate"]
    assert lines.reasons == {50_000: "type_drift"}
    assert lines.dropped == {"late": 1}
    assert lines.numbers.tolist() == list(range(1, 50_003))
    data = path.read_bytes()
    assert [data[place : place + 2] for place in lines.offsets.tolist()] == [b'{"'] * 50_002
    _, estimated = to_parquet.read_columns(text_file(path))
    assert abs(estimated.num_rows - 50_000) < 2_000


def test_row_groups_are_bounded_by_bytes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(to_parquet, "GROUP_BYTES", 10_000)
    monkeypatch.setattr(text_records, "PIECE_BYTES", 1_000)
    path = write_text(tmp_path / "a.jsonl", to_jsonl([{"candidate": "x" * 500}] * 100))
    out = io.BytesIO()
    write_rows(text_file(path), out)
    with pq.ParquetFile(out) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert sum(sizes) == 100
    assert 5 < len(sizes) < 12


def test_lines_are_told_apart_by_their_digest():
    one = parse_lines(b'{"a": 1}\n{\n')
    two = parse_lines(b'{"a": 1}\n[\n')
    other = parse_lines(b'{"a": 10}\n{\n')
    assert one.digest() == two.digest() != other.digest()


def parse_lines(data: bytes) -> Lines:
    return parse(data, Format.JSONL, pa.schema({"a": pa.int64()}))[1]


def test_names_of_dropped_fields_of_a_row_are_bounded():
    row = {f"f{number:03d}": 1 for number in range(250)}
    told = parse_lines(to_jsonl([row, {"a": 1, "f000": 2, "z": None}])).dropped
    assert len(told) == 101
    assert told["f000"] == 2
    assert told["f099"] == 1
    assert told["(other fields)"] == 150


def test_columns_of_a_file_without_rows_are_those_asked_for(tmp_path):
    for name, data in (("a.jsonl", b"\n \r\n"), ("a.csv", b"candidate,reference")):
        table, _ = convert(write_text(tmp_path / name, data))
        assert table.column_names == HEADER
        assert table.num_rows == 0


@pytest.mark.parametrize("name", ["a.jsonl", "g.csv"])
def test_columns_are_those_of_the_first_rows(tmp_path, monkeypatch, name):
    monkeypatch.setattr(to_parquet, "SAMPLE_BYTES", 1_000)
    schema, estimated = to_parquet.read_columns(text_file(write_text(tmp_path / name, FILES[name])))
    assert schema.equals(TABLE.schema)
    assert abs(estimated.num_rows - len(CELLS)) < len(CELLS) / 2
    assert estimated.num_bytes >= len(FILES[name])


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b"PAR1 and more", "got a Parquet file; expected jsonl"),
        ("a.jsonl", b"\x1f\x8b\x08\x00", "got gzip compression"),
        ("a.csv", b"\xff\xfea\x00", "UTF-16"),
        ("a.json", b"[\n1\n]\n", "an array of JSON"),
        ("a.json", b"[" + b'{"a": 1},' * 20 + b"]", "an array of JSON"),
        ("a.json", b'{\n"candidate": "a"\n}\n', "an object over several lines"),
        ("a.json", b"hello\n", "other text"),
        ("a.csv", b"", "has no header: got an empty first line"),
        ("a.csv", b"\r\n\r\ncandidate,reference\r\n", "has no header: got an empty first line"),
        ("a.csv", b"\n\xff\n", "has no header: got an empty first line"),
        (
            "a.csv",
            b'"candidate,reference\r\n',
            "has no header: got a line that cannot be read (a quote is not closed",
        ),
        ("a.csv", b"\xff\n", "has no header: got no valid first line"),
        ("a.csv", b"a,a\n", "names columns twice: got ['a']"),
        ("a.csv", b"a,bertscore_line\n", "a column with a reserved name: got 'bertscore_line'"),
        ("a.csv", b"a,bertscore_line.byte\n", "got 'bertscore_line.byte'"),
        ("a.jsonl", b'{"bertscore_line": 1}', "got 'bertscore_line'"),
    ],
)
def test_file_that_is_not_what_it_seems_is_refused(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as error:
        convert(tmp_path / name)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize("piece", [1 << 18, 100, 1])
def test_line_that_is_too_long_is_one_bad_row(tmp_path, monkeypatch, name, where, piece):
    monkeypatch.setattr(text_records, "MAX_RECORD_BYTES", 1_000)
    monkeypatch.setattr(text_records, "PIECE_BYTES", piece)
    texts = ["a", "b", "d" * 900]
    texts.insert({"first": 0, "middle": 1, "last": 3}[where], "x" * 5_000)
    cells = [HEADER, *([text, "r"] for text in texts)]
    rows = [dict(zip(HEADER, row, strict=True)) for row in cells[1:]]
    if name == "a.jsonl":
        rows.insert(0, {"candidate": "head", "reference": "r"})
        data = to_jsonl(rows)
    else:
        data = to_csv(cells, "," if name == "a.csv" else "\t")
    for whole in (data, data.rstrip()):
        table, lines = convert(write_text(tmp_path / name, whole))
        at = texts.index("x" * 5_000) + (name == "a.jsonl")
        assert {row: str(line.reason) for row, line in lines.bad.items()} == {at: "line_too_long"}
        found = [text for text in table["candidate"].to_pylist() if text != "head"]
        assert found == [None if text[0] == "x" else text for text in texts]
        assert lines.numbers.tolist() == list(range(2 - (name == "a.jsonl"), len(found) + 2))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_file_whose_first_line_is_too_long_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text_records, "MAX_RECORD_BYTES", 1_000)
    path = write_text(tmp_path / name, b"x" * 5_000 + b'\n{"candidate": "a"}\n')
    with pytest.raises(InputError, match=r"other text|no header: got a line that is too long"):
        convert(path)


def test_record_of_exactly_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_records, "MAX_RECORD_BYTES", 1_000)
    for data in (b"h\n" + b"x" * 1_000, b"h\n" + b"x" * 999 + b"\n", b'h\n"' + b"x\n" * 499 + b'"'):
        for piece in (1, 1 << 18):
            monkeypatch.setattr(text_records, "PIECE_BYTES", piece)
            table, lines = convert(write_text(tmp_path / "a.csv", data))
            assert len(table) == 1
            assert not lines.bad
    for data in (b"h\n" + b"x" * 1_001, b"h\n" + b"x" * 1_000 + b"\n"):
        _, lines = convert(write_text(tmp_path / "a.csv", data))
        assert lines.reasons == {0: "line_too_long"}


MEMBERS = [as_jsonl()[:1_000], as_jsonl()[1_000:1_003], b"", as_jsonl()[1_003:]]
PACKINGS = (partial(gzip.compress, mtime=0), zstandard.compress)
GZ, ZST = ([pack(part) for part in MEMBERS] for pack in PACKINGS)
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"


@pytest.mark.parametrize("block", [1, 7, 1 << 22])
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a.jsonl.gz", GZ),
        ("a.jsonl.gz", [*GZ, b"\0" * 10_000]),
        ("a.jsonl.gz", [*GZ[:2], b"\0" * 3, *GZ[2:], b"\0"]),
        ("a.jsonl.zst", ZST),
        ("a.jsonl.zst", [*ZST[:2], SKIPPED, *ZST[2:]]),
        ("a.jsonl.zst", [SKIPPED, *ZST]),  # as pzstd writes them
    ],
)
def test_all_members_and_frames_are_read(tmp_path, monkeypatch, name, parts, block):
    monkeypatch.setattr(text_source, "BLOCK_BYTES", block)
    (tmp_path / name).write_bytes(b"".join(parts))
    assert convert(tmp_path / name)[0].equals(TABLE)


GZ_ALL, ZST_ALL = (pack(as_jsonl() * 3) for pack in PACKINGS)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *(("a.jsonl.gz", GZ_ALL[:cut]) for cut in (3, 11, 50, -9, -8, -4, -1)),
        ("a.jsonl.gz", GZ_ALL + GZ_ALL[:5]),
        ("a.jsonl.gz", GZ_ALL + b"\0\0" + GZ_ALL[:-1]),
        ("a.jsonl.gz", GZ_ALL + b"garbage"),
        ("a.jsonl.gz", GZ_ALL + b"\0garbage"),
        ("a.jsonl.gz", GZ_ALL[:-8] + b"\0" * 8),
        *(("a.jsonl.zst", ZST_ALL[:cut]) for cut in (5, 50, -1)),
        ("a.jsonl.zst", ZST_ALL + ZST_ALL[:5]),
        ("a.jsonl.zst", ZST_ALL + b"garbage"),
    ],
)
def test_damaged_compression_is_an_error_however_it_is_read(tmp_path, monkeypatch, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    for block in (1 << 22, 64):
        monkeypatch.setattr(text_source, "BLOCK_BYTES", block)
        with pytest.raises(InputError, match="cannot be decompressed"):
            write_rows(text_file(path), io.BytesIO())


def peak_mib(path: Path) -> dict:
    """Write a file as Parquet in a process of its own; return what that took."""
    code = """
import json, re, sys
import pyarrow.parquet as pq
from bertscore_beam.dump.text.to_parquet import write_rows
from bertscore_beam.dump.lines import take_lines
from bertscore_beam.dump.lines import LINE_COLUMN, LINE_TYPE, Lines, PARSER, PARSER_KEY, take_lines
from tests.pipelines.dump.text.convert import text_file
path = sys.argv[1]
def peak():  # that of resource.getrusage begins with the parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
with open(path + ".parquet", "w+b") as sink:
    write_rows(text_file(path), sink)
most = peak()
table = pq.read_table(path + ".parquet", columns=["bertscore_line"])
bad = list(take_lines(table)[1].reasons.values())[:5]
print(json.dumps({"rows": len(table), "mib": (most - before) // 1024, "bad": bad}))
"""
    told: dict = json.loads(subprocess.check_output([sys.executable, "-c", code, str(path)]))
    return told


MIB, LINES = b"y" * (1 << 20), (b"y" * 1023 + b"\n") * 1024


long = partial(pytest.param, marks=pytest.mark.long)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "parts", "rows", "bad"),
    [
        pytest.param(
            "a.jsonl.gz",
            [b'{"a": "x"}\n', *200 * [b" " * (1 << 20)], b'\n{"a": "z"}\n'],
            3,
            ["line_too_long"],
            id="blanks that unpack to a thousand times as many",
        ),
        long(
            "a.jsonl",
            # The last is a rest without a line break.
            [b'{"a": "x"}\n{"a": "', *65 * [MIB], b'"}\n{"a": "z"}\n', *150 * [MIB]],
            4,
            ["line_too_long"] * 2,
            id="lines of JSON",
        ),
        long("a.csv", [b"a\n", *150 * [MIB]], 1, ["line_too_long"], id="a line of CSV"),
        long("b.csv", [b'a\n"\n', *150 * [LINES]], 153_601, ["bad_line"], id="an open quote"),
        long("c.csv", [b"a\n", *8 * [b"y\n" * (1 << 19)]], 1 << 22, [], id="many short lines"),
    ],
)
def test_memory_is_bounded_whatever_a_line_holds(tmp_path, name, parts, rows, bad):
    path = tmp_path / name
    with (gzip.open if name.endswith(".gz") else open)(path, "wb") as file:
        file.writelines(parts)
    peak = peak_mib(path)
    assert (peak["rows"], peak["bad"]) == (rows, bad)
    assert peak["mib"] < (400 if name.endswith(".gz") else 600)


def test_file_that_has_changed_is_told(tmp_path):
    path = str(write_text(tmp_path / "a.csv", FILES["g.csv"]))
    size, version = os.path.getsize(path), file_version(path)
    write_rows(text_file(path, size=size, version=version), io.BytesIO())
    with pytest.raises(InputError, match=f"planned: got {size} bytes; expected {size + 1} bytes"):
        write_rows(text_file(path, size=size + 1), io.BytesIO())
    os.utime(path, (1, 1))
    with pytest.raises(InputError, match="has changed since it was planned: got version"):
        write_rows(text_file(path, size=size, version=version), io.BytesIO())
    Path(path).unlink()
    with pytest.raises(FileNotFoundError):
        write_rows(text_file(path), io.BytesIO())


def test_file_that_shrinks_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 100)
    monkeypatch.setattr(text_records, "PIECE_BYTES", 100)
    monkeypatch.setattr(to_parquet, "SAMPLE_BYTES", 100)
    path = write_text(tmp_path / "a.jsonl", FILES["a.jsonl"])

    def cut(*arguments):
        os.truncate(path, 2_000)
        return to_table(*arguments)

    to_table = to_parquet.to_table
    monkeypatch.setattr(to_parquet, "to_table", cut)
    with pytest.raises(OSError, match="the file ends early: got 2000 bytes"):
        write_rows(text_file(path), io.BytesIO())


@pytest.mark.process
def test_rows_come_from_a_store_and_a_file_that_changes_there_is_told(monkeypatch):
    monkeypatch.setattr(text_source, "BLOCK_BYTES", 5_000)
    with s3_bucket() as bucket:
        path = f"{bucket}/a b.csv"
        write_atomically(path, FILES["g.csv"])
        assert convert(path)[0].equals(TABLE)
        (file,) = expand_inputs([path])
        text = TextFile.of(file, HEADER, HEADER[1:2])
        write_rows(text, io.BytesIO())
        write_atomically(path, FILES["g.csv"].replace(b"q", b"k"))
        with pytest.raises(InputError, match="has changed since it was planned: got another"):
            write_rows(text, io.BytesIO())


@pytest.mark.process
def test_the_command_for_two_files_of_texts_makes_a_dump(tmp_path):
    candidates, references = ['say "hi', "", "x"], ["ok", "", '"y" z']
    write_text(tmp_path / "HYP.txt", "".join(f"{text}\n" for text in candidates).encode())
    write_text(tmp_path / "REF.txt", "".join(f"{text}\n" for text in references).encode())
    command = re.search(r"\(printf .*? > dump.tsv", TWO_FILES)[0]
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    table, _ = convert(tmp_path / "dump.tsv", "tsv-raw")
    assert table.to_pydict() == {"candidate": candidates, "reference": references}
