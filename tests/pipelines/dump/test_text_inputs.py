"""Text files as input: planned, cut and read, with every bad line told by its place."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertscore_beam.dump import framing, read_text, text_cuts, text_layout
from bertscore_beam.dump.formats import Format, format_of, suffixes
from bertscore_beam.dump.framing import find_frames
from bertscore_beam.dump.json_rows import parse_json, parse_object
from bertscore_beam.dump.json_types import infer_schema
from bertscore_beam.dump.lines import MOST_DROPPED, fewer_names
from bertscore_beam.dump.plan import FileReason
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.saved_plan import plan_from_bytes, plan_to_bytes
from bertscore_core.errors import InputError
from tests.support.dumps import SCHEMA, pair_rows
from tests.support.text_files import plan_text, read_plan, to_csv, to_jsonl, write_text

ROWS = [
    dict(zip(SCHEMA.names, row, strict=True)) for row in zip(*pair_rows(40).values(), strict=True)
]
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
HEADER = ["candidate", "reference"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz", "a.json.zst"])
def test_json_lines_come_back_with_their_types_in_any_cut(tmp_path, name):
    path = write_text(tmp_path / name, to_jsonl(ROWS))
    for rows, size in ((1, 1 << 20), (7, 1 << 20), (1000, 100), (1000, 1 << 20)):
        plan = plan_text(path, rows, size)
        table, lines = read_plan(plan)
        assert table.schema.equals(SCHEMA)
        assert table.to_pylist() == ROWS
        assert not lines.bad
        assert len({split.part_name for split in plan.splits}) == len(plan.splits)
        assert plan_from_bytes(plan_to_bytes(plan), "plan") == plan
        assert plan.num_rows is None


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst"])
def test_csv_comes_back_as_strings_in_any_cut(tmp_path, name):
    delimiter = "," if "csv" in name else "\t"
    rows = [["x\ny", 'a "q"'], ["", " b"], ["é,\t", "\r\n"], ["1", "2026-01-01"]] * 5
    path = write_text(tmp_path / name, to_csv([HEADER, *rows], delimiter))
    for target, size in ((1, 1 << 20), (3, 1 << 20), (1000, 30), (1000, 1 << 20)):
        table, lines = read_plan(plan_text(path, target, size))
        assert [list(row.values()) for row in table.to_pylist()] == rows
        assert table.schema.types == [pa.string(), pa.string()]
        assert not lines.bad


@given(
    st.lists(
        st.fixed_dictionaries({"candidate": TEXTS, "reference": st.lists(TEXTS, max_size=2)}),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 200),
    st.booleans(),
)
def test_rows_of_the_json_module_come_back_under_any_byte_split(
    tmp_path_factory, rows, size, ascii_only
):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    path.write_bytes(to_jsonl(rows, ascii_only=ascii_only))
    table, lines = read_plan(plan_text(path, 1000, size))
    assert table.to_pylist() == rows
    data = path.read_bytes()
    assert [json.loads(data[at:].split(b"\n")[0]) for at in lines.offsets.tolist()] == rows


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8), st.integers(1, 100))
def test_rows_of_the_csv_module_come_back_under_any_byte_split(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(to_csv([HEADER, *rows]))
    table, lines = read_plan(plan_text(path, 1000, size))
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert not lines.bad


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=2, max_size=6)
)
def test_arrow_and_line_by_line_read_the_same(rows):
    schema = infer_schema([{"z": True}, rows[0]])
    data = to_jsonl(rows)
    frames = find_frames(data, Format.JSONL, final=True)
    whole, _ = parse_json(data, frames, schema)
    pieces = []
    for row in range(len(rows)):
        frame = frames.take(row, row + 1)
        line = data[int(frames.starts[row]) : int(frames.stops[row])]
        # A second line that Arrow refuses sends both through the slow way.
        pair = line + b"[]\n"
        both = find_frames(pair, Format.JSONL, final=True)
        slow, lines = parse_json(pair, both, schema)
        fast, _ = parse_json(line, frame, schema)
        assert repr(fast.to_pylist()) == repr(slow.to_pylist()[:1])
        assert 1 in lines.bad
        pieces.append(fast)
    assert repr(pa.concat_tables(pieces).to_pylist()) == repr(whole.to_pylist())


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 1_460_000_000_000_000_001, 10**300])
def test_large_integer_among_fractions_is_the_nearest_number_beside_a_bad_line_too(
    tmp_path, monkeypatch, number
):
    first = to_jsonl([{**ROWS[0], "id": 0.5, "more": {"a": [0.5]}}])
    monkeypatch.setattr("bertscore_beam.dump.text_layout.SAMPLE_BYTES", len(first))
    good = to_jsonl([{**ROWS[1], "id": number, "more": {"a": [1, number]}}])
    for bad in (b"", b"not JSON\n"):
        table, lines = read_plan(plan_text(write_text(tmp_path / "a.jsonl", first + good + bad)))
        assert table["id"].to_pylist()[:2] == [0.5, float(number)]
        assert table["more"].to_pylist()[1] == {"a": [1.0, float(number)]}
        assert [str(line.reason) for line in lines.bad.values()] == ["bad_line"] * bool(bad)


BAD_LINES = [
    (b'{"candidate": "x"', "bad_line"),
    (b"[1]", "bad_line"),
    (b'{"candidate": "x"}{"candidate": "y"}', "bad_line"),
    (b'{"candidate": 1}', "type_drift"),
    (b'{"candidate": "x", "id": 1.5}', "type_drift"),
    (b'{"candidate": "x", "id": 123456789012345678901234567890}', "type_drift"),
    (b'{"candidate": "\xff"}', "invalid_utf8"),
    (b'{"candidate": "\\ud800"}', "invalid_utf8"),
    (b'{"candidate": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "bad_line"),
    (b'{"more": ' + b"[" * 300 + b"]" * 300 + b', "candidate": "x"}', None),
    (b'{"candidate": "a", "candidate": "b"}', None),
    (b'{"candidate": "Inf, :Inf"}', None),
    (b'  {"candidate": "spaces"} \r', None),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_bad_line_costs_one_row_and_is_told_by_its_byte(tmp_path, monkeypatch, line, reason):
    good = to_jsonl(ROWS[:3])
    monkeypatch.setattr("bertscore_beam.dump.text_layout.SAMPLE_BYTES", len(good))
    path = write_text(tmp_path / "a.jsonl", good + b"\n" + line + b"\r\n\n" + good)
    table, lines = read_plan(plan_text(path))
    assert table.num_rows == 7
    assert table["id"].to_pylist()[:3] == table["id"].to_pylist()[4:] == [0, 1, 2]
    assert {row: bad.reason for row, bad in lines.bad.items()} == ({3: reason} if reason else {})
    assert lines.offsets[3] == len(good) + 1
    if reason:
        assert table.slice(3, 1).to_pylist() == [dict.fromkeys(SCHEMA.names)]
        assert "x" not in lines.bad[3].message.split("expected")[0].replace("exp", "")
    if b'candidate": "a' in line:
        assert table["candidate"][3].as_py() == "b"


@pytest.mark.long
def test_twenty_thousand_rows_are_the_same_from_every_format(tmp_path):
    columns = pair_rows(20_000)
    rows = [list(row) for row in zip(columns["candidate"], columns["reference"], strict=True)]
    table = pa.table({name: columns[name] for name in HEADER})
    pq.write_table(table, tmp_path / "a.parquet")
    named = [dict(zip(HEADER, row, strict=True)) for row in rows]
    write_text(tmp_path / "b.jsonl.gz", to_jsonl(named))
    write_text(tmp_path / "c.csv", to_csv([HEADER, *rows]))
    for name in ("a.parquet", "b.jsonl.gz", "c.csv"):
        plan = plan_text(tmp_path / name, 3000)
        assert len(plan.splits) == 7
        assert read_plan(plan)[0].equals(table)


def test_bad_csv_records_cost_one_row_each(tmp_path):
    data = b'candidate,reference\na,b\nshort\n"x" y,z\n\xff,b\na,b,c\n\nlast,one'
    table, lines = read_plan(plan_text(write_text(tmp_path / "a.csv", data)))
    assert table["candidate"].to_pylist() == ["a", None, None, None, None, "last"]
    assert [str(bad.reason) for bad in lines.bad.values()] == [
        "bad_line",
        "bad_line",
        "invalid_utf8",
        "bad_line",
    ]
    assert [data[at : at + 3] for at in lines.offsets.tolist()[1:3]] == [b"sho", b'"x"']


def test_raw_tsv_takes_quotes_as_they_are(tmp_path):
    rows = ['"Hello" he said\tx', '"unclosed\ty', 'a\t5"']
    data = "\n".join(["candidate\treference", *rows]).encode()
    path = write_text(tmp_path / "a.tsv", data)
    table, lines = read_plan(plan_text(path, 1, input_format="tsv-raw"))
    assert ["\t".join(row.values()) for row in table.to_pylist()] == rows
    assert not lines.bad


def test_fields_that_come_later_are_counted_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("bertscore_beam.dump.text_layout.SAMPLE_BYTES", 300)
    rows = [*ROWS, {**ROWS[0], "new": 1, "meta": {"a": [{"b": 1}]}}, {**ROWS[1], "new": None}]
    table, lines = read_plan(plan_text(write_text(tmp_path / "a.jsonl", to_jsonl(rows))))
    assert table.schema.equals(SCHEMA)
    assert lines.dropped == {"new": 1, "meta": 1}
    assert not lines.bad


def test_field_whose_name_is_no_text_costs_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr("bertscore_beam.dump.text_layout.SAMPLE_BYTES", 300)
    bad = b'{"candidate": "a", "reference": "b", "\\ud800": 1, "x\\ud800": {"y": 2}}\n'
    table, lines = read_plan(plan_text(write_text(tmp_path / "a.jsonl", to_jsonl(ROWS) + bad)))
    assert table["candidate"].to_pylist() == [*(row["candidate"] for row in ROWS), "a"]
    assert lines.dropped == {"\\ud800": 1, "x\\ud800": 1}
    assert not lines.bad


@given(st.lists(st.dictionaries(st.integers(0, 250), st.integers(1, 5), max_size=60), max_size=6))
def test_names_of_dropped_fields_are_bounded_and_add_up_in_any_order(parts):
    counts = [Counter({f"f{name:03d}": number for name, number in part.items()}) for part in parts]
    whole = fewer_names(sum(counts, Counter()))
    step = Counter()
    for count in reversed(counts):
        step = Counter(fewer_names(step + Counter(fewer_names(count))))
    assert step == whole
    assert len(whole) <= MOST_DROPPED + 1
    assert sum(whole.values()) == sum(count.total() for count in counts)


def test_columns_are_those_of_the_first_rows():
    rows = [
        {"s": None, "n": 1, "u": 2**63, "l": [], "o": {}, "d": {"x": None, "y": [{"z": 1}]}},
        {"s": None, "n": 1.5, "u": 1, "l": [1], "o": {}, "late": True},
    ]
    assert infer_schema(rows) == pa.schema(
        {
            "s": pa.string(),
            "n": pa.float64(),
            "u": pa.uint64(),
            "l": pa.list_(pa.int64()),
            "d": pa.struct({"x": pa.string(), "y": pa.list_(pa.struct({"z": pa.int64()}))}),
            "late": pa.bool_(),
        }
    )


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"", b"\r\n \n"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n"])
def test_marks_blank_lines_and_a_missing_end_do_not_matter(tmp_path, start, end):
    data = start + to_jsonl(ROWS)[:-1].replace(b"\n", b"\r\n") + end
    table, lines = read_plan(plan_text(write_text(tmp_path / "a.jsonl", data), 7))
    assert table.to_pylist() == ROWS
    assert data[lines.offsets[0] :].startswith(b"{")


def test_bom_before_a_quoted_header(tmp_path):
    data = b'\xef\xbb\xbf"candidate","reference"\r\n"a\n1",b\r\n'
    table, _ = read_plan(plan_text(write_text(tmp_path / "a.csv", data)))
    assert table.to_pylist() == [{"candidate": "a\n1", "reference": "b"}]


def test_line_of_ten_megabytes_is_read_and_a_longer_one_than_allowed_is_rejected(
    tmp_path, monkeypatch
):
    long = {"candidate": "é" * 5_000_000, "reference": "r", "id": 7}
    path = write_text(tmp_path / "a.jsonl", to_jsonl([long, *ROWS], ascii_only=False))
    plan = plan_text(path, 1000, 1 << 20)
    table, _ = read_plan(plan)
    assert len(plan.splits) > 5
    assert table.num_rows == 41
    assert table["candidate"][0].as_py() == long["candidate"]
    for module in (framing, read_text, text_cuts):
        monkeypatch.setattr(module, "MAX_RECORD_BYTES", 1_000_000)
    packed = write_text(tmp_path / "b.jsonl.zst", path.read_bytes())
    for other in (plan, plan_text(packed, 1000, 1 << 20, input_format="jsonl")):
        table, lines = read_plan(other)
        assert [str(bad.reason) for bad in lines.bad.values()] == ["line_too_long"]
        assert table.num_rows == 41


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv"])
@pytest.mark.parametrize("size", [100, 5_000, 1 << 26])
def test_line_that_is_too_long_is_rejected_under_any_cut(tmp_path, monkeypatch, name, size):
    for module in (framing, read_text, text_cuts, text_layout):
        monkeypatch.setattr(module, "MAX_RECORD_BYTES", 1_000)
    rows = [{"candidate": word, "reference": "r"} for word in ("a", "b" * 2_000, "c", "d" * 900)]
    cells = [HEADER, *(list(row.values()) for row in rows)]
    data = to_csv(cells) if name == "a.csv" else to_jsonl(rows)
    table, lines = read_plan(plan_text(write_text(tmp_path / name, data), 1_000, size))
    assert table["candidate"].to_pylist() == ["a", None, "c", "d" * 900]
    assert {row: str(line.reason) for row, line in lines.bad.items()} == {1: "line_too_long"}
    assert data[lines.offsets[1] :].partition(b"b" * 2_000)[1]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
def test_header_and_first_row_may_be_longer_together_than_a_record(tmp_path, monkeypatch, name):
    for module in (framing, read_text, text_cuts, text_layout):
        monkeypatch.setattr(module, "MAX_RECORD_BYTES", 1_000)
    data = to_csv([HEADER, ["a" * 990, "r"], ["b", "s"]], "\t" if ".tsv" in name else ",")
    table, lines = read_plan(plan_text(write_text(tmp_path / name, data), 1))
    assert table["candidate"].to_pylist() == ["a" * 990, "b"]
    assert not lines.bad


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b"PAR1 and more", "got a Parquet file; expected jsonl"),
        ("a.parquet", b'{"candidate": "a"}\n', "got lines of JSON; expected Parquet"),
        ("a.jsonl", b"\x1f\x8b\x08\x00", "got gzip compression"),
        ("a.csv", b"\xff\xfea\x00", "UTF-16"),
        ("a.json", b"[\n1\n]\n", "an array of JSON"),
        ("a.json", b'{\n"candidate": "a"\n}\n', "an object over several lines"),
        ("a.csv", b"", "has no header"),
        ("a.csv", b"\r\n\r\ncandidate,reference\r\n", "has no header: got an empty first line"),
        ("a.csv", b"a,a\n", "names columns twice: got ['a']"),
        ("a.jsonl", b'{"candidat": "a", "reference": "b"}\n', "Did you mean 'candidat'?"),
        ("a.csv", b"candidate,bertscore_f1,reference\n", "already has score columns"),
    ],
)
def test_file_that_is_not_what_it_seems_is_rejected_by_name(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as error:
        plan_text(tmp_path / name)
    assert said in str(error.value)


@pytest.mark.parametrize("cut", [5, -4])
def test_damaged_compression_is_a_rejected_file(tmp_path, cut):
    whole = write_text(tmp_path / "a.jsonl.gz", to_jsonl(ROWS)).read_bytes()
    (tmp_path / "b.jsonl.gz").write_bytes(whole[:cut])
    plan = plan_text(tmp_path)
    assert [file.reason for file in plan.rejected_files] == [FileReason.NOT_TEXT]
    assert "cannot be decompressed" in plan.rejected_files[0].message


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv"])
def test_file_without_rows_is_one_empty_split(tmp_path, name):
    data = b"candidate,reference\n" if name == "a.csv" else b"\n"
    table, _ = read_plan(plan_text(write_text(tmp_path / name, data)))
    assert (table.num_rows, table.column_names) == (0, HEADER)


def test_folder_of_all_formats_and_file_that_changed(tmp_path):
    write_text(tmp_path / "a.jsonl", to_jsonl(ROWS))
    write_text(tmp_path / "b" / "b.csv.gz", to_csv([HEADER, ["x", "y"]]))
    write_text(tmp_path / "notes.json", b"{}")
    plan = plan_text(tmp_path)
    assert [split.input_name for split in plan.splits] == ["a.jsonl", "b/b.csv.gz"]
    (tmp_path / "a.jsonl").write_bytes(to_jsonl(ROWS[:-1]))
    with pytest.raises(InputError, match="has changed since it was planned"):
        read_split(plan.splits[0])


def test_format_goes_by_the_name_unless_it_is_given():
    assert format_of("https://h/x.jsonl.gz?k=a.csv", "auto") == ("jsonl", "gzip")
    assert format_of("x.CSV", "auto") == ("csv", "")
    assert format_of("part-0001", "auto") == ("parquet", "")
    assert format_of("part-0001.zst", "jsonl") == ("jsonl", "zstd")
    assert ".json" not in suffixes("auto")
    assert set(suffixes("jsonl")) >= {".json", ".json.gz", ".ndjson.zst"}
    assert ".csv" not in suffixes("jsonl")


def test_idf_reads_references_alone_and_nested_columns(tmp_path):
    rows = [{"response": {"text": "a"}, "reference": ["r"]}, {"response": None, "reference": []}]
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows))
    plan = plan_text(path, candidate_column="response.text")
    table = read_split(plan.splits[0], ["response.text"])
    assert table.column_names == ["response"]
    assert (
        plan_text(path, candidate_column=None)
        .splits[0]
        .part_name.endswith("part-" + "0" * 15 + ".parquet")
    )


def test_number_that_no_float_can_hold_is_a_bad_line():
    assert not isinstance(parse_object(b'{"f": 1e400}'), dict)
    assert parse_object(b'{"f": Infinity}') == {"f": np.inf}
