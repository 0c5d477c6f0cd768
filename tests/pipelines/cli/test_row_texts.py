"""`score --output -`, and `score` with a file as output: the rows of a run as text."""

import csv
import gzip
import io
import json
import os
import re
import tempfile
import uuid
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertscore_beam.cli import main as cli
from bertscore_beam.records import text_rows
from bertscore_beam.run.output import NOTHING_KEPT
from tests.golden.texts import PAIRS
from tests.support.dumps import pair_rows, read_output
from tests.support.text_files import write_text
from tests.support.tolerances import PARITY_ATOL, f1_slack

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "embedded.json").read_text("utf-8"))
MODEL = ["--model", "all-MiniLM-L6-v2", "--device", "cpu"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The present folder, which is the one of temporary files, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def give(monkeypatch):
    """Return a function that makes a file the standard input."""
    before = os.dup(0)

    def give(path):
        with open(path, "rb") as file:
            os.dup2(file.fileno(), 0)

    yield give
    os.dup2(before, 0)
    os.close(before)


def lines_of(path, texts):
    return write_text(path, "".join(f"{text}\n" for text in texts).encode())


@pytest.mark.job
def test_printed_rows_are_those_of_bert_score_in_the_order_of_the_input(place, ran, give):
    plain = [number for number, pair in enumerate(PAIRS) if is_line(pair.candidate, pair.reference)]
    del plain[1::2]
    assert len(plain) > 30
    give(lines_of(place / "hyp", [PAIRS[number].candidate for number in plain]))
    lines_of(place / "ref", [PAIRS[number].reference for number in plain])
    words = ["score", "-c", "-", "-r", "ref", "-o", "-", *MODEL, "--empty", "reference"]
    printed = ran([*words, "--split-rows", "7"])
    rows = [line.split("\t") for line in printed.out.splitlines()]
    assert {len(row) for row in rows} == {4}
    assert all(len(number.partition(".")[2]) == 6 for row in rows for number in row[:3])
    scores = GOLDEN["scores"]["layer6"]
    golden = np.array([[scores[name][number] for name in "PRF"] for number in plain], float)
    found = np.array(rows)[:, :3].astype(float)
    slack = f1_slack(golden)
    np.testing.assert_allclose(found / slack, golden / slack, rtol=0, atol=PARITY_ATOL)
    assert "\nscored: " in printed.err
    first, second, *_ = ran(["score", "-c", "hyp", "-r", "ref", *words[7:]]).out.splitlines()
    assert re.fullmatch(r"P \d\.\d{6}  R \d\.\d{6}  F1 \d\.\d{6}", first)
    assert second.startswith("precision: ")
    means = np.array(first.split()[1::2], float)
    np.testing.assert_allclose(means, golden.mean(axis=0), rtol=0, atol=PARITY_ATOL)
    assert sorted(path.name for path in place.iterdir()) == ["hyp", "ref"]


def is_line(*texts):
    """Tell whether a short text is one line, and has no blanks, which bert-score strips."""
    return all(
        text == text.strip() and len(text.splitlines()) < 2 and len(text) < 99 for text in texts
    )


@pytest.mark.job
def test_a_file_has_the_rows_of_a_part_and_nothing_is_beside_it(place, ran):
    rows = pair_rows(5)
    rows["candidate"][1:3] = ['a "quoted", text', ""]
    lines_of(place / "b.txt", rows["candidate"])
    lines_of(place / "a.txt", rows["candidate"][::-1])
    lines_of(place / "ref.txt", rows["reference"])
    words = ["score", "-c", "b.txt", "a.txt", "-r", "ref.txt", "a.txt", *MODEL, "--empty", "null"]
    before = {path.name for path in place.iterdir()}
    printed = ran([*words, "-o", "x.csv"], cli.TOO_MANY_REJECTS)
    assert {path.name for path in place.iterdir()} == before | {"x.csv"}
    assert "output: x.csv\n" in printed.out
    assert "rows without scores are in x.csv, each with its reason." in printed.err
    assert printed.out.index("\nb\t5\t") < printed.out.index("\nprecision: ")
    ran([*words, "-o", "out", "-q"], cli.TOO_MANY_REJECTS)
    gate = ["--min-rows", "11", "--max-reject-fraction", "1"]
    other = ran([*words, "-o", "y.csv", *gate], cli.TOO_MANY_REJECTS)
    assert "rows without scores" not in other.err
    expected = read_output(place / "out").drop_columns(["bertscore_key"]).to_pylist()
    expected.sort(key=lambda row: row["system"] != "b")
    with open("x.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["system"] for row in found] == ["b"] * 5 + ["a"] * 5
    assert [json.loads(row["reference"]) for row in found] == [row["reference"] for row in expected]
    for name in ("candidate", "line", "bertscore_error"):
        texts = ["" if row[name] is None else str(row[name]) for row in expected]
        assert [row[name] for row in found] == texts
    written = [line for line in Path("x.csv").read_text().splitlines() if line.startswith('"",')]
    assert len(written) == 2  # an empty text is quoted, and a null is nothing
    assert all(",,," in line for line in written)
    f1 = [row["bertscore_f1"] and np.float32(row["bertscore_f1"]) for row in found]
    assert f1 == ["" if row["bertscore_f1"] is None else row["bertscore_f1"] for row in expected]


@pytest.mark.job
def test_rows_of_a_dump_are_printed_and_written_as_json(place, ran):
    pq.write_table(pa.table({**pair_rows(3), "tags": [["x"], None, []]}), "dump.parquet")
    words = ["score", "--input", "dump.parquet", *MODEL, "-q"]
    printed = ran([*words, "-s"])
    assert printed.err == ""
    assert ran([*words, "-o", "x.jsonl"]).err == ""
    rows = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    assert [row["tags"] for row in rows] == [["x"], None, []]
    shown = [f"{row[f'bertscore_{name}']:.6f}" for row in rows for name in ("precision", "f1")]
    cells = [line.split("\t") for line in printed.out.splitlines()]
    assert [cell for row in cells for cell in (row[0], row[2])] == shown
    assert sorted(os.listdir()) == ["dump.parquet", "x.jsonl"]


@pytest.mark.job
def test_rows_have_the_order_in_which_files_were_given(place, ran):
    (place / "other").mkdir()
    for name, lines in (("b", 1), ("a", 2), ("other/c", 3)):
        rows = pair_rows(lines) | {"place": [f"{name}{line}" for line in range(lines)]}
        pq.write_table(pa.table(rows), f"{name}.parquet")
    words = ["-i", "other", "b.parquet", "[ab].parquet", *MODEL, "-q", "-o", "x.jsonl"]
    ran(["score", *words])
    rows = [json.loads(line)["place"] for line in Path("x.jsonl").read_text().splitlines()]
    assert rows == ["other/c0", "other/c1", "other/c2", "b0", "a0", "a1"]


def table_of_all_kinds():
    """Values that are hard to write: those of each column, and how JSON has them."""
    not_utf8 = pa.Array.from_buffers(pa.string(), 1, pa.array([b"a\xff"], pa.binary()).buffers())
    id = uuid.UUID(int=7)
    zone = pa.timestamp("us", "Mars/North")
    twins = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["y", "y"])
    columns = [
        ("x", not_utf8, "a\\xff"),
        ("x", pa.array([5]), 5),
        ("twins", twins, {"y": 1, "y.2": 2}),
        ("id", pa.array([id.bytes], pa.uuid()), str(id)),
        ("zone", pa.array([0], zone), "1970-01-01 00:00:00.000000Z"),
        ("zones", pa.array([[0, None]], pa.list_(zone)), ["1970-01-01 00:00:00.000000Z", None]),
        ("far", pa.array([2**31 - 1], pa.date32()), "<value out of range: 2147483647>"),
        ("prices", pa.array([[Decimal("1.50")]], pa.list_view(pa.decimal128(5, 2))), ["1.50"]),
        ("small", pa.array([[0.1, None, np.nan]], pa.list_(pa.float32())), [0.1, None, None]),
        ("pair", pa.array([[0.1, 0.2]], pa.list_(pa.float32(), 2)), [0.1, 0.2]),
        ("map", pa.array([[("k", 0.1)]], pa.map_(pa.string(), pa.float32())), [["k", 0.1]]),
        ("word", pa.array(["w"]).dictionary_encode(), "w"),
        ("bytes", pa.array([b"\xfe"]), "\\xfe"),
        ("empty", pa.array([{}], pa.struct([])), {}),
    ]
    names, arrays, expected = zip(*columns, strict=True)
    table = pa.Table.from_arrays(
        [pa.concat_arrays([one, pa.nulls(1, one.type)]) for one in arrays], names
    )
    return table, dict(zip(["x", "x.2", *names[2:]], expected, strict=True))


def test_values_of_every_type_can_be_written():
    table, expected = table_of_all_kinds()
    names = text_rows._told_apart(table.column_names)
    table = table.rename_columns(names)
    sink = io.BytesIO()
    text_rows._write_json(sink, table)
    first, second = map(json.loads, sink.getvalue().splitlines())
    assert first == expected
    assert second == dict.fromkeys(names)
    for name in names:
        cell, none = text_rows._cells(table[name]).to_pylist()
        is_nested = isinstance(expected[name], dict | list)
        assert (json.loads(cell) if is_nested else cell) == expected[name]
        assert none is None


@pytest.mark.job
def test_columns_and_fields_of_one_name_are_all_written(place, ran):
    table, expected = table_of_all_kinds()
    for name in ("empty", "pair"):  # structs and lists that are no input
        table = table.drop_columns(name)
        del expected[name]
    for name, values in pair_rows(2).items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, "dump.parquet")
    for name in ("x.jsonl", "x.csv"):
        assert ran(["score", "-i", "dump.parquet", *MODEL, "-q", "-o", name]).err == ""
    row = json.loads(Path("x.jsonl").read_text("utf-8").splitlines()[0])
    assert {name: row[name] for name in expected} == expected
    with open("x.csv", encoding="utf-8", newline="") as file:
        cells, _ = csv.DictReader(file)
    assert list(cells) == list(row)
    assert (cells["x"], cells["x.2"], json.loads(cells["map"])) == ("a\\xff", "5", [["k", 0.1]])


DUMP = ["score", "--input", "dump.parquet"]
TEXTS = ["score", "-c", "hyp.txt", "-r", "hyp.txt"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*DUMP, "-o", "x.parquet"], "or write x.parquet/ if that is to be the name of a folder."),
        ([*DUMP, "-o", "x.csv.gz"], "or a file .csv, .tsv or .jsonl."),
        ([*DUMP, "-o", "folder.csv"], "or write folder.csv/ to go on in the folder."),
        ([*DUMP, "-o", "hyp.txt/x.csv"], "a folder that takes no new file"),
        ([*TEXTS[:3], "-r", "x.tsv", "-o", "x.tsv"], "has the name of a file of rows"),
        (["score", "--input", "*.*", "-o", "x.csv"], "would read the next time"),
        (["score", "--input", "**/*.csv", "dump.parquet", "-o", "deep/x.csv"], "the next time"),
        (["score", "--input", "d*p", "dump.parquet", "-o", "deep/x.csv"], "the next time"),
        (["score", "--input", "data.csv", "-o", "link/data.csv"], "would read the next time"),
        (["score", "-i", "file:///{}/data.csv", "-o", "data.csv"], "would read the next time"),
        ([*DUMP, "-o", "x.tsv", "--rescale", "--baseline", "./x.tsv"], "would read the next time"),
        ([*DUMP, "-o", "x.tsv", "--config", "x.tsv"], "a file of options that this command reads"),
        ([*DUMP, "-o", "scores.txt"], "or write scores.txt/ if that is to be the name"),
        (["select", "dump.parquet", "-o", "-"], "a folder or a file. Choose one of them."),
        (DUMP, "needed without --candidates)."),
        ([*DUMP, "-s", "-o", "out"], "argument -o/--output: not allowed with argument -s."),
        (["score", "-s"], "got neither --input nor --candidates"),
        ([*TEXTS, "-o-"], "Write short flags apart: -o -."),
        ([*DUMP, "-sl"], "`bertscore-beam score --output -` prints the scores of each row."),
        ([*TEXTS, "-o", "-", "--reuse", "run"], "or give --output FOLDER."),
        ([*TEXTS, "--reuse", "run"], "or give --output FOLDER."),
        ([*DUMP, "--config", "null.yaml"], "got None; expected a folder or a file."),
        (["score", "-c", "h[2].txt", "-r", "hyp.txt"], "'h[2].txt' does not exist"),
        ([*DUMP, "-o", "x.csv", "--reuse", "run"], "or give --output FOLDER."),
        ([*DUMP, "-o", "x.csv", "--", "--runner=x"], "scored on this machine only"),
        ([*DUMP, "-o", "-", "--json"], "the rows can go to a file: --output x.jsonl."),
        (["score", "-c", "-", "-r", "-"], "expected it once"),
        (["score", "-c", "-", "-r", "hyp.txt", "-o", "out"], "the same command could not continue"),
        (["score", "--input", "-", "-o", "out"], "read for --candidates or --references alone"),
    ],
)
def test_what_cannot_be_printed_or_written_is_refused_with_the_cure(place, ran, words, message):
    (place / "folder.csv").mkdir()
    (place / "deep").mkdir()
    (place / "link").symlink_to(".")
    words = [word.format(place) if "{}" in word else word for word in words]
    pq.write_table(pa.table(pair_rows(3)), "dump.parquet")
    for name in ("hyp.txt", "x.tsv", "h2.txt", "data.csv", "deep/more.csv"):
        lines_of(place / name, ["a", "b"])
    write_text(place / "null.yaml", b"output: null\n")
    if "x.tsv" in words:
        write_text(place / "x.tsv", b"model: all-MiniLM-L6-v2\n")
    before = sorted(place.iterdir())
    assert message in ran(words, cli.UNUSABLE).err
    assert sorted(place.iterdir()) == before


@pytest.mark.job
def test_that_nothing_is_kept_is_said_once(place, ran, monkeypatch):
    def fail(rows):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(text_rows.PublishedRows, "lines", fail)
    lines_of(place / "hyp.txt", ["a", "b"])
    printed = ran([*TEXTS, *MODEL, "-o", "-"], cli.BROKEN).err
    assert "Traceback" in printed
    assert printed.count(NOTHING_KEPT) == 1


@pytest.mark.job
def test_standard_input_may_be_packed_and_is_named_where_it_is_wrong(place, ran, give):
    lines_of(place / "ref", ["a", "b"])
    give(write_text(place / "hyp", b"a\n\xff\n"))
    words = ["score", "-c", "ref", "-r", "-", "-o", "-"]
    assert "'standard input' is not UTF-8: got other bytes in line 2" in ran(words, 2).err
    for pack in (gzip.compress, zstandard.compress):
        give(write_text(place / "hyp", pack(b"a\nb\n")))
        assert "scored: 2\n" in ran(["score", "-c", "ref", "-r", "-", *MODEL]).out
