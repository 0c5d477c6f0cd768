"""A file that is one object of JSON is a row only if the user says so; else jq makes its rows."""

import gzip
import json
import shlex
from dataclasses import replace
from pathlib import Path

import jq
import pyarrow as pa
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.lines import take_lines
from bertscore_beam.dump.text.to_parquet import parsed
from bertscore_core import InputError
from tests.pipelines.dump.text.convert import text_file

SCORE = ["--device", "cpu", "--dry-run"]

FIVE, OTHERS = list("abcde"), list("vwxyz")
TABLES = {
    "two lists": ({"candidate": FIVE, "reference": OTHERS}, {}),
    "more columns": (
        {
            "model": "m",
            "id": [1, 2, 3, 4, 5],
            "few": [1, 2],
            "candidate": FIVE,
            "reference": OTHERS,
        },
        {"model": "m", "few": [1, 2]},
    ),
    "several references": ({"candidate": FIVE, "reference": [[one, "r"] for one in OTHERS]}, {}),
    "as many references as rows": ({"candidate": FIVE, "reference": [OTHERS] * 5}, {}),
    "nulls": ({"candidate": ["a", None, "c"], "reference": ["x", "y", None]}, {}),
    "pandas": (
        {
            "candidate": {"0": "a", "1": None, "7": "c"},
            "id": {"0": 3, "1": 4, "7": 5},
            "reference": {"0": "x", "1": "y", "7": ["z", "w"]},
        },
        {},
    ),
}


def read(path: Path, input_format: str = "auto") -> pa.Table:
    """Read a file whose columns of texts may be lists, as in `score`."""
    text = replace(text_file(path, input_format), lists=("candidate", "reference"))
    return take_lines(parsed(text))[0]


def rows_of(table: dict, same: dict) -> list[dict]:
    """Return what the table has in its rows, said without jq."""
    columns = {name: value for name, value in table.items() if name not in same}
    lists = [[*value.values()] if isinstance(value, dict) else value for value in columns.values()]
    return [
        {**same, **dict(zip(columns, values, strict=True))} for values in zip(*lists, strict=True)
    ]


def jq_line(message: str) -> list[str]:
    """Return the words of the line that a message gives."""
    return shlex.split(message[message.index("jq -c ") :].strip())


def run_jq(words: list[str], document: object) -> list[dict]:
    assert words[-2:] == [">", "rows.jsonl"]
    return jq.compile(words[2]).input(document).all()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_one_object_is_refused_with_the_line_that_makes_its_rows(tmp_path, name, indent):
    document, same = TABLES[name]
    path = tmp_path / "a table.json"
    path.write_text(json.dumps(document, indent=indent))
    with pytest.raises(InputError, match="many rows in it") as refused:
        read(path)
    words = jq_line(str(refused.value))
    assert words[3] == str(path)
    made = run_jq(words, document)
    assert made == rows_of(document, same)
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made))
    again = read(tmp_path / "rows.jsonl")["candidate"].to_pylist()
    assert again == [row["candidate"] for row in made]


def test_columns_within_others_stay_where_they_are(tmp_path, capsys):
    document = {
        "id": [1, 2],
        "data": {"it's": ["a", "b"], "split": "test"},
        "gold": {"texts": [["x", "y"], ["z"]]},
    }
    path = tmp_path / "data.json"
    path.write_text(json.dumps(document))
    columns = ["--candidate-column", "data.it's", "--reference-column", "gold.texts"]
    words = ["score", "-i", str(path), "-o", str(tmp_path / "out"), *columns, *SCORE]
    assert cli.main(words) == cli.UNUSABLE
    said = capsys.readouterr().err
    made = run_jq(jq_line(said), document)
    assert made == [
        {"id": 1, "data": {"it's": "a", "split": "test"}, "gold": {"texts": ["x", "y"]}},
        {"id": 2, "data": {"it's": "b", "split": "test"}, "gold": {"texts": ["z"]}},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made))
    words[2] = str(tmp_path / "rows.jsonl")
    assert cli.main(words) == cli.DONE


def test_a_field_of_each_element_is_a_list_too(tmp_path, capsys):
    document = {"pairs": [{"c": "a", "r": "x"}, {"c": "b", "r": "y"}], "gold": ["x", "y"]}
    path = tmp_path / "data.json"
    path.write_text(json.dumps(document))
    columns = ["--candidate-column", "pairs.c", "--reference-column", "gold"]
    words = ["score", "-i", str(path), "-o", str(tmp_path / "out"), *columns, *SCORE]
    assert cli.main(words) == cli.UNUSABLE
    assert run_jq(jq_line(capsys.readouterr().err), document) == [
        {"pairs": {"c": "a", "r": "x"}, "gold": "x"},
        {"pairs": {"c": "b", "r": "y"}, "gold": "y"},
    ]


def test_a_compressed_file_is_unpacked_first(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(TABLES["two lists"][0]).encode()))
    with pytest.raises(InputError, match=r": gzip -dc \S*t\.jsonl\.gz \| jq -c '"):
        read(path)


def test_the_user_can_say_that_it_is_one_row(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(TABLES["two lists"][0]))
    assert read(path, "jsonl").to_pylist() == [TABLES["two lists"][0]]
    assert text_file(path).key != text_file(path, "jsonl").key  # another import


@pytest.mark.parametrize(
    "document",
    [
        {"candidate": ["a"], "reference": ["x"]},
        {"candidate": ["a", "b", "c"], "reference": ["x", "y"]},
        {"candidate": "a", "reference": ["x", "y"]},
        {"candidate": "a", "reference": "x", "other": [1, 2], "more": [3, 4]},
        {"candidate": None, "reference": ["x", "y"]},
        {"candidate": [], "reference": []},
    ],
)
def test_other_objects_are_rows(tmp_path, document):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(document) + "\n\n")
    assert len(read(path)) == 1


def test_two_objects_are_two_rows(tmp_path):
    path = tmp_path / "two.jsonl"
    path.write_text(f"{json.dumps(TABLES['two lists'][0])}\n" * 2)
    assert len(read(path)) == 2


def test_a_table_that_is_larger_than_what_is_looked_at_is_seen(tmp_path):
    path = tmp_path / "large.json"
    many = ["a text of some length " * 10] * 20_000
    path.write_text(json.dumps({"candidate": many, "reference": many}))
    with pytest.raises(InputError, match=r"lists of one length, 20,000, in 'candidate' and"):
        read(path)
    path.write_text(json.dumps({"candidate": many, "reference": many}) + '\n{"candidate": "a"}\n')
    assert len(read(path)) == 2
