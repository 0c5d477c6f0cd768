"""The import command: a Parquet file for each file of text, and nothing again without a change."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.lines import LINE_COLUMN, take_lines
from bertscore_beam.dump.text.text_source import IMPORTS_FOLDER
from tests.support.dumps import write_dump
from tests.support.powers import shut

pytestmark = pytest.mark.job

ROWS = [{"candidate": f"text {number}", "reference": "a text"} for number in range(30)]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Return a folder with a file of JSON lines and one of CSV."""
    folder = tmp_path / "dump"
    (folder / "lang=de").mkdir(parents=True)
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    lines = [f"{row['candidate']},{row['reference']}\n" for row in ROWS]
    (folder / "lang=de" / "b.csv").write_text("candidate,reference\n" + "".join(lines))
    return folder


def run(dump: Path, *words: str, status: int = cli.DONE) -> Path:
    """Import, check the status and return the output."""
    output = dump.parent / "parquet"
    assert cli.main(["import", "--input", str(dump), "--output", str(output), *words]) == status
    return output


def parts(output: Path) -> dict[str, Path]:
    paths = (path for path in sorted(output.rglob("*.parquet")) if path.is_file())
    return {str(path.relative_to(output)): path for path in paths}


def rows(path: Path) -> list[dict[str, object]]:
    return pq.ParquetFile(path).read(["candidate", "reference"]).to_pylist()


def written(output: Path) -> dict[str, int]:
    return {name: path.stat().st_mtime_ns for name, path in parts(output).items()}


A, B = "a.jsonl/part-000000000000.parquet", "lang=de/b.csv/part-000000000000.parquet"


def test_each_file_of_text_becomes_one_of_parquet(dump, capsys):
    output = run(dump)
    assert parts(output).keys() == {A, B}
    assert rows(output / A) == rows(output / B) == ROWS
    assert pq.ParquetFile(output / A).schema_arrow.names[-1] == LINE_COLUMN
    assert (output / "_SUCCESS").exists()
    assert "2 files of text, 60 rows" in capsys.readouterr().out


def test_a_column_of_several_types_is_json_and_named_once(dump, capsys):
    lines = [json.dumps(row | {"error": row["candidate"][-1:]}) for row in ROWS]
    lines[-1] = json.dumps(ROWS[-1] | {"error": {"code": 429}})
    for name in "ac":
        (dump / f"{name}.jsonl").write_text("\n".join(lines))
    output = run(dump)
    assert (
        capsys.readouterr().err.count(
            "got 'error'. In such a file every value of the column is kept as its JSON"
        )
        == 1
    )
    assert rows(output / A) == ROWS
    errors = pq.ParquetFile(output / A).read(["error"])["error"].to_pylist()
    assert errors[:2] + errors[-1:] == ['"0"', '"1"', '{"code":429}']


def test_a_row_is_decided_as_by_score_if_its_columns_are_named(dump):
    lines = [{"hyp": row["candidate"], "ref": row["reference"], "by": "x"} for row in ROWS]
    lines[3]["hyp"], lines[4]["ref"], lines[5]["by"] = 5, ["a", "b"], {"no": "text"}
    (dump / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    named = ["--candidate-column", "hyp", "--reference-column", "ref", "--columns", "by"]
    table, places = take_lines(pq.read_table(run(dump, *named) / A))
    assert places.reasons == {3: "type_drift", 5: "type_drift"}
    assert table["hyp"].type == table["by"].type == pa.string()
    assert table["ref"].to_pylist()[3:6] == [None, ["a", "b"], None]
    table, places = take_lines(pq.read_table(run(dump) / A))  # other names: imported again
    assert places.reasons == {}
    assert table["hyp"].to_pylist()[3] == "5"


def test_what_has_not_changed_is_left_alone(dump, capsys):
    output = run(dump)
    before = written(output)
    with (dump / "a.jsonl").open("a") as file:
        file.write(json.dumps(ROWS[0]) + "\n")
    run(dump)
    after = written(output)
    assert after[B] == before[B]
    assert rows(output / A) == [*ROWS, ROWS[0]]
    assert "1 files have not changed" in capsys.readouterr().err
    (output / B).unlink()
    run(dump)
    assert written(output)[A] == after[A]
    assert rows(output / B) == ROWS


def test_a_file_that_goes_bad_leaves_nothing_of_its_former_version(dump, capsys):
    output = run(dump)
    notes = output / IMPORTS_FOLDER
    before = {*os.listdir(notes)}
    (dump / "a.jsonl").write_text("[1, 2]\n")
    run(dump, status=cli.TOO_MANY_REJECTS)
    assert parts(output).keys() == {B}
    assert len(before.intersection(os.listdir(notes))) == 1
    assert not (output / "_SUCCESS").exists()
    assert "does not hold lines of JSON" in capsys.readouterr().err
    run(dump, status=cli.TOO_MANY_REJECTS)  # and stays rejected
    (dump / "a.jsonl").write_text(json.dumps(ROWS[0]))
    run(dump)
    assert rows(output / A) == ROWS[:1]


def test_what_is_left_of_a_missing_file_is_told_and_deleted_by_overwrite(dump, capsys):
    output = run(dump)
    (dump / "a.jsonl").unlink()
    run(dump, status=cli.TOO_MANY_REJECTS)
    assert parts(output).keys() == {A, B}
    assert f"such as '{A}'" in capsys.readouterr().err
    run(dump, "--overwrite")
    assert parts(output).keys() == {B}


def test_overwrite_deletes_nothing_of_a_folder_that_cannot_be_listed(dump):
    output = run(dump)
    with shut(dump / "lang=de"):
        run(dump, "--overwrite", status=cli.BROKEN)
    assert B in parts(output)


def test_parquet_alone_needs_no_import(tmp_path, capsys):
    run(write_dump(tmp_path / "dump", [5]), status=cli.UNUSABLE)
    assert "no file of text: got 1 files, all of them Parquet" in capsys.readouterr().err


def test_the_folder_of_another_command_is_refused(dump, capsys):
    output = run(dump)
    words = ["--input", str(dump), "--output", str(output)]
    assert cli.main(["score", *words]) == cli.UNUSABLE
    assert "holds the output of `import`" in capsys.readouterr().err
    assert parts(output).keys() == {A, B}
    assert not (output / "_input").exists()


def test_a_folder_with_parquet_of_others_is_refused(dump, capsys):
    output = write_dump(dump.parent / "parquet", [5])
    before = written(output)
    run(dump, "--overwrite", status=cli.UNUSABLE)
    assert "holds Parquet files that no import has written" in capsys.readouterr().err
    assert written(output) == before


def test_partition_columns_are_those_of_the_paths_that_were_read(dump):
    os.rename(dump / "a.jsonl", dump / "lang=de" / "x=1.jsonl")
    words = ["--input", str(dump / "lang=de"), "--output", str(dump.parent / "parquet")]
    assert cli.main(["import", *words]) == cli.DONE
    names = parts(dump.parent / "parquet").keys()
    assert names == {B, "lang=de/x%3D1.jsonl/part-000000000000.parquet"}


def test_scores_of_imported_files_are_those_of_the_text(dump):
    (dump / "a.jsonl").write_text((dump / "a.jsonl").read_text() + "{\n")
    output = run(dump)
    direct, later = dump.parent / "direct", dump.parent / "later"
    for source, target in ((dump, direct), (output, later)):
        words = ["--input", str(source), "--output", str(target), "--device", "cpu"]
        assert cli.main(["score", *words, "--max-reject-fraction", "0.5"]) == cli.DONE

    def scored(folder: Path) -> pa.Table:
        tables = [pq.read_table(path, partitioning=None) for path in parts(folder).values()]
        return pa.concat_tables(tables, promote_options="default")

    assert scored(direct).equals(scored(later))
    assert LINE_COLUMN not in scored(direct).column_names
    rejects = [pq.read_table(f / "_rejects").drop_columns("file") for f in (direct, later)]
    assert rejects[0].equals(rejects[1])
    assert rejects[0].select(["row", "line", "reason"]).to_pylist() == [
        {"row": 30, "line": 31, "reason": "bad_line"}
    ]
