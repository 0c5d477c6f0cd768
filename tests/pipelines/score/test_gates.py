"""What a finished run must come to before it counts as a success."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from tests.support.dumps import SCHEMA, read_output, write_dump

pytestmark = pytest.mark.job


CUT_AT = 16
"""Tokens, which some of a dump's texts exceed and some do not."""


@pytest.fixture
def empty_dump(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    pq.write_table(SCHEMA.empty_table(), folder / "empty.parquet")
    return folder


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [30])


def score(dump, out, *more):
    return cli.main(["score", "--input", str(dump), "--output", str(out), *map(str, more)])


def summary_of(out):
    return json.loads((out / "_summary.json").read_text())


def cut_rows(out):
    return sum(read_output(out)["bertscore_truncated"].to_pylist())


def test_an_empty_input_is_no_success(empty_dump, tmp_path, capsys):
    out = tmp_path / "out"
    assert score(empty_dump, out) == cli.TOO_MANY_REJECTS
    said = capsys.readouterr().err
    assert "the input has 0 rows; expected at least 1 (--min-rows)" in said
    assert "--min-rows 0" in said
    assert summary_of(out)["failed_gates"] == ["min_rows"]
    assert not (out / "_SUCCESS").exists()
    assert score(empty_dump, out, "--min-rows", 0) == cli.DONE
    assert (out / "_SUCCESS").exists()


def test_fewer_rows_than_asked_for_are_scored_and_are_no_success(dump, tmp_path, capsys):
    out = tmp_path / "out"
    assert score(dump, out, "--min-rows", 31) == cli.TOO_MANY_REJECTS
    assert "the input has 30 rows; expected at least 31" in capsys.readouterr().err
    assert len(read_output(out)) == 30
    assert not (out / "_SUCCESS").exists()
    assert score(dump, out, "--min-rows", 30) == cli.DONE
    assert "scored already" in capsys.readouterr().err
    assert (out / "_SUCCESS").exists()


def test_the_plan_says_that_there_are_too_few_rows(dump, tmp_path, capsys):
    assert score(dump, tmp_path / "out", "--min-rows", 31, "--dry-run") == cli.DONE
    assert "rows: 30, fewer than 31\n" in capsys.readouterr().out


def test_no_idf_table_is_made_from_nothing(empty_dump, tmp_path, capsys):
    table = tmp_path / "table.npz"
    command = ["idf", "--input", str(empty_dump), "--output", str(table)]
    assert cli.main(command) == cli.TOO_MANY_REJECTS
    assert "expected at least 1 (--min-rows)" in capsys.readouterr().err
    assert not table.exists()
    assert cli.main([*command, "--min-rows", "0"]) == cli.DONE
    assert table.exists()


def test_cut_texts_are_counted_shown_and_warned_of(dump, tmp_path, capsys):
    out = tmp_path / "out"
    assert score(dump, out, "--max-length", CUT_AT, "--split-rows", 10) == cli.DONE
    shown = capsys.readouterr()
    cut = cut_rows(out)
    assert 0 < cut < 30
    summary = summary_of(out)
    assert (summary["truncated"], summary["truncated_fraction"]) == (cut, cut / 30)
    assert f"truncated: {cut} ({cut / 30:.2%})" in shown.out
    assert f"{cut} of 30 scored rows ({cut / 30:.2%}) hold a text that was cut" in shown.err
    assert f"at {CUT_AT} tokens" in shown.err


def test_rows_without_a_score_are_not_counted_as_cut(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    words = "a cat sat on the mat in the sun"
    table = pa.table({"candidate": [words, None, "a cat"], "reference": [words, words, "a cat"]})
    pq.write_table(table, folder / "pairs.parquet")
    out = tmp_path / "out"
    score(folder, out, "--max-length", 8)
    summary = summary_of(out)
    assert (summary["scored"], summary["truncated"]) == (2, 1)
    assert summary["truncated_fraction"] == 0.5


def test_more_cut_texts_than_allowed_are_no_success(dump, tmp_path, capsys):
    out = tmp_path / "out"
    flags = ("--max-length", CUT_AT, "--max-truncated-fraction")
    assert score(dump, out, *flags, "0.01") == cli.TOO_MANY_REJECTS
    said = capsys.readouterr().err
    assert "more than --max-truncated-fraction 1.00% allows" in said
    assert summary_of(out)["failed_gates"] == ["max_truncated_fraction"]
    assert not (out / "_SUCCESS").exists()
    assert score(dump, out, *flags, "1") == cli.DONE
    assert (out / "_SUCCESS").exists()
    capsys.readouterr()
    assert score(dump, tmp_path / "uncut") == cli.DONE
    shown = capsys.readouterr()
    assert "truncated: 0 (0.00%)" in shown.out
    assert "was cut" not in shown.err
