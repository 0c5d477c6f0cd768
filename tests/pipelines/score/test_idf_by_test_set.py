"""Idf counted by test set: equal to the reference implementation run once a system and test set."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.idf.idf_tables import load_idf
from bertscore_core import ConfigError, InputError, SignatureError
from tests.support.dumps import read_output
from tests.support.jobs import job_options, prepare_score, run_job

pytestmark = pytest.mark.job

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "test_sets.json").read_text("utf-8"))
ROWS = [dict(zip(GOLDEN["columns"], row, strict=True)) for row in GOLDEN["rows"]]
RUNS = {(run["test_set"], run["system"]): run for run in GOLDEN["runs"]}
SYSTEMS = sorted({row["system"] for row in ROWS})
SCORES = ("bertscore_precision", "bertscore_recall", "bertscore_f1")


def rows_of(**wanted: str) -> list[dict[str, Any]]:
    """Return the golden rows with these values."""
    return [row for row in ROWS if all(row[name] == value for name, value in wanted.items())]


def write(folder: Path, rows: list[dict[str, Any]], *, by: str | None = "system") -> Path:
    """Write rows as a dump, in a file for each value of a column, or in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted({row[by] for row in rows}) if by else ["all"]:
        mine = [row for row in rows if not by or row[by] == name]
        pq.write_table(pa.Table.from_pylist(mine), folder / f"{name}.parquet", row_group_size=11)
    return folder


def expected(rows: list[dict[str, Any]]) -> np.ndarray:
    """Return the scores of bert-score. Shape (rows, 3)."""
    runs = [(RUNS[row["test_set"], row["system"]], row["id"]) for row in rows]
    return np.array([[run[name][number] for name in "PRF"] for run, number in runs])


def scored(output: Path) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return the rows of an output folder and their scores. Shape (rows, 3)."""
    rows = read_output(output).to_pylist()
    return rows, np.array([[row[name] for name in SCORES] for row in rows], dtype=float)


def test_systems_in_one_dump_score_as_in_runs_of_their_own(tmp_path):
    dump = write(tmp_path / "dump", rows_of(test_set="news"))
    key = {"idf": "corpus", "idf_key": ("id",), "split_rows": 13}
    summary = run_job(dump, output=tmp_path / "out", **key)
    rows, found = scored(tmp_path / "out")
    assert len(rows) == 240
    np.testing.assert_allclose(found, expected(rows), rtol=0, atol=1e-5)
    counted = summary["idf"]
    assert (counted["rows"], counted["documents"], counted["rows_left_out"]) == (240, 30, 210)
    assert counted["rows_left_out_with_other_references"] == 0
    table = load_idf(str(tmp_path / "out" / "_manifest" / "idf.npz")).only("it")
    assert table.counted.key_columns == ("id",)
    assert (table.counted.rows, table.counted.duplicates) == (240, 210)
    assert f"idf:{table.fingerprint}" in summary["signature"]

    # Fewer systems: the others keep their table, and so their scores, although splits are cut
    # otherwise.
    fewer = [row for row in rows_of(test_set="news") if row["system"] in SYSTEMS[-2:]]
    less = write(tmp_path / "fewer", fewer)
    again = run_job(less, output=tmp_path / "out2", **key | {"split_rows": 50})
    assert again["idf"]["fingerprint"] == counted["fingerprint"]
    np.testing.assert_allclose(scored(tmp_path / "out2")[1], found[-60:], rtol=0, atol=5e-7)


def test_each_test_set_has_a_table_of_its_own(tmp_path, capsys):
    dump = write(tmp_path / "dump", ROWS, by=None)
    columns = ["--idf-key", "id", "--idf-group", "test_set"]
    flags = ["--input", str(dump), "--split-rows", "40"]
    assert cli.main(["idf", *flags, "--output", str(tmp_path / "t.npz"), *columns]) == cli.DONE
    told = capsys.readouterr().out
    assert "50 references of 1 files in 2 tables, without 350 rows" in told
    tables = load_idf(str(tmp_path / "t.npz"))
    assert tables.group_columns == ("test_set",)
    documents = {key.group[0]: t.frequencies.num_documents for key, t in tables.tables.items()}
    assert documents == {"news": 30, "talks": 20}

    flags += ["--device", "cpu", "--idf", "corpus", "--output", str(tmp_path / "out")]
    assert cli.main(["score", *flags, *columns]) == cli.DONE
    rows, found = scored(tmp_path / "out")
    assert len(rows) == 400
    np.testing.assert_allclose(found, expected(rows), rtol=0, atol=1e-5)
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["idf"]["fingerprint"] == tables.fingerprint
    assert f"idf:{tables.fingerprint}" in summary["signature"]
    assert summary["idf"]["tables"] == 2


def test_rows_without_a_group_or_a_table_are_rejected_with_a_reason(tmp_path):
    rows = rows_of(system=SYSTEMS[0])
    known = write(tmp_path / "known", [row for row in rows if row["test_set"] == "news"])
    table = tmp_path / "t.npz"
    flags = ["--input", str(known), "--output", str(table), "--idf-group", "test_set"]
    assert cli.main(["idf", *flags]) == cli.DONE
    rows[0] = rows[0] | {"test_set": None}
    rows[1] = rows[1] | {"candidate": None, "test_set": None}
    dump = write(tmp_path / "dump", rows, by=None)
    groups = {"idf_group": ("test_set",), "max_reject_fraction": 1.0}
    summary = run_job(dump, output=tmp_path / "out", idf=str(table), **groups)
    assert summary["reasons"] == {"no_idf_group": 1, "no_idf_table": 20, "null_candidate": 1}
    assert summary["scored"] == 28
    counted = run_job(dump, output=tmp_path / "counted", idf="corpus", **groups)
    assert counted["reasons"] == {"no_idf_group": 1, "null_candidate": 1}
    assert counted["idf"]["rows_without_group"] == 2
    _, found = scored(tmp_path / "counted")
    np.testing.assert_array_equal(np.isnan(found[:, 0]), [True, True] + [False] * 48)


@pytest.mark.long
def test_changed_group_or_key_counts_again_and_an_unchanged_corpus_does_not(tmp_path):
    rows = rows_of(system=SYSTEMS[0])
    dump = write(tmp_path / "dump", rows, by=None)
    columns = {"idf": "corpus", "idf_key": ("id",), "idf_group": ("test_set",), "split_rows": 20}
    first = run_job(dump, output=tmp_path / "out", **columns)
    os.utime(dump / "all.parquet", ns=(1, 1))
    touched = run_job(dump, output=tmp_path / "out", **columns)
    assert (touched["reused"], touched["signature"]) == (first["scored"], first["signature"])
    assert touched["idf"] == first["idf"]
    rows[-1] = rows[-1] | {"test_set": "news", "id": 99}
    write(dump, rows, by=None)
    moved = run_job(dump, output=tmp_path / "out", **columns)
    assert (moved["parts_kept"], moved["reused"]) == (0, 0)
    assert moved["idf"]["documents"] == 50
    assert moved["signature"] != first["signature"]
    with pytest.raises(SignatureError, match="idf_key"):
        prepare_score(job_options(dump, tmp_path / "out", **columns | {"idf_key": ()}))
    others = {"overwrite": True, "idf_key": ("test_set",), "idf_group": ("id",)}
    swapped = run_job(dump, output=tmp_path / "out", **columns | others)
    assert swapped["idf"]["tables"] == 31


def test_references_that_differ_within_a_key_are_counted_once_with_a_warning(tmp_path, capsys):
    rows = rows_of(test_set="news")[:60]
    rows[40] = rows[40] | {"reference": "another one"}
    rows[50] = rows[50] | {"id": None}
    dump = write(tmp_path / "dump", rows)
    command = ["idf", "--input", str(dump), "--output", str(tmp_path / "t.npz")]
    assert cli.main([*command, "--idf-key", "id"]) == cli.DONE
    told = " ".join(capsys.readouterr().err.split())
    assert "1 of 60 rows have other references than the row with the same key (id)" in told
    assert "1 of 60 rows have no value in a key column (id)" in told
    assert "another one" not in told
    table = load_idf(str(tmp_path / "t.npz")).only("it")
    assert table.frequencies.num_documents == 31
    facts = table.counted
    assert (facts.duplicates, facts.conflicts, facts.without_key) == (29, 1, 1)


def test_repeated_references_without_a_key_are_said_before_and_after(tmp_path, capsys):
    dump = write(tmp_path / "dump", rows_of(test_set="news"))
    command = ["idf", "--input", str(dump), "--output", str(tmp_path / "t.npz")]
    words = "240 rows have about 30 different references, 88% are repeats"
    for more in (["--dry-run"], []):
        assert cli.main([*command, *more]) == cli.DONE
        told = capsys.readouterr()
        assert words in " ".join((told.out + told.err).split())
    score = ["score", "--input", str(dump), "--output", str(tmp_path / "out"), "--idf", "corpus"]
    assert cli.main([*score, "--dry-run"]) == cli.DONE
    assert words in " ".join(capsys.readouterr().out.split())
    assert cli.main([*command, "--overwrite", "--idf-key", "id"]) == cli.DONE
    assert "references repeat" not in capsys.readouterr().err


def test_columns_that_do_not_fit_are_refused_before_any_work(tmp_path):
    dump = write(tmp_path / "dump", rows_of(system=SYSTEMS[0]))
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"no idf-key column 'ids'.*Did you mean 'id'\?"):
        prepare_score(job_options(dump, out, idf="corpus", idf_key=("ids",)))
    with pytest.raises(ConfigError, match="a key only together with --idf corpus"):
        job_options(dump, out, idf="./t.npz", idf_key=("id",))
    with pytest.raises(ConfigError, match="groups only together with idf"):
        job_options(dump, out, idf_group=("id",))
    with pytest.raises(ConfigError, match="each column once"):
        job_options(dump, out, idf="corpus", idf_group=("id",), idf_key=("id",))
    table = str(tmp_path / "t.npz")
    assert cli.main(["idf", "--input", str(dump), "--output", table]) == cli.DONE
    with pytest.raises(ConfigError, match="counted without groups"):
        prepare_score(job_options(dump, out, idf=table, idf_group=("test_set",)))
    grouped = str(tmp_path / "g.npz")
    command = ["idf", "--input", str(dump), "--output", grouped, "--idf-group", "test_set"]
    assert cli.main(command) == cli.DONE
    with pytest.raises(ConfigError, match=r"by groups of test_set.*Add --idf-group test_set"):
        prepare_score(job_options(dump, out, idf=grouped))
