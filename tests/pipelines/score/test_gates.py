"""What a finished run must come to before it counts as a success."""

import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records import GROUPS_FILE
from tests.support.dumps import SCHEMA, read_output, write_dump
from tests.support.jobs import summary_of

pytestmark = pytest.mark.job


CUT_AT = 16
"""Tokens, which some of a dump's texts exceed and some do not."""


def score(dump, out, *more):
    return cli.main(["score", "--input", str(dump), "--output", str(out), *map(str, more)])


def test_an_empty_input_is_no_success(tmp_path, capsys):
    empty_dump, out = tmp_path / "empty.parquet", tmp_path / "out"
    pq.write_table(SCHEMA.empty_table(), empty_dump)
    assert score(empty_dump, out) == cli.TOO_MANY_REJECTS
    said = capsys.readouterr().err
    assert "the input has 0 rows; expected at least 1 (--min-rows)" in said
    assert "--min-rows 0" in said
    assert summary_of(out)["failed_gates"] == ["min_rows"]
    assert not (out / "_SUCCESS").exists()
    assert cli.main(["check", str(out)]) == cli.BROKEN
    assert "it ended without passing min_rows; see its _summary.json" in capsys.readouterr().err
    assert score(empty_dump, out, "--min-rows", 0, "--group-by", "id") == cli.DONE
    assert (out / "_SUCCESS").exists()
    assert pq.read_table(out / GROUPS_FILE)["bertscore_rows"].to_pylist() == [0]


def test_cut_texts_are_counted_shown_and_warned_of_and_too_many_are_no_success(tmp_path, capsys):
    dump, out = write_dump(tmp_path / "dump", [30]), tmp_path / "out"
    flags = ("--max-length", CUT_AT, "--split-rows", 10, "--max-truncated-fraction")
    assert score(dump, out, *flags, "0.01") == cli.TOO_MANY_REJECTS
    shown, summary = capsys.readouterr(), summary_of(out)
    cut = sum(read_output(out)["bertscore_truncated"].to_pylist())
    assert 0 < cut < 30
    assert (summary["truncated"], summary["truncated_fraction"]) == (cut, cut / 30)
    assert summary["failed_gates"] == ["max_truncated_fraction"]
    assert f"truncated: {cut} ({cut / 30:.2%})" in shown.out
    assert f"{cut} of 30 scored rows ({cut / 30:.2%}) hold a text that was cut" in shown.err
    assert f"at {CUT_AT} tokens" in shown.err
    assert "more than --max-truncated-fraction 1.00% allows" in shown.err
    assert not (out / "_SUCCESS").exists()
    assert score(dump, out, *flags, "1") == cli.DONE
    assert (out / "_SUCCESS").exists()
    assert "was cut at" in capsys.readouterr().err
    assert score(dump, tmp_path / "uncut") == cli.DONE
    shown = capsys.readouterr()
    assert "truncated: 0 (0.00%)" in shown.out
    assert "was cut" not in shown.err
