"""Splits fit the workers, and a folder keeps the cut that it has."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run import Runner
from bertscore_beam.score import plan_score
from tests.support.dumps import write_dump
from tests.support.jobs import job_options


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [1_100], row_group_size=1_100)


def planned_rows(dump, out, *beam, **changes):
    """Return the rows of the splits that a command would make."""
    options = job_options(dump, out, **({"split_rows": "auto", "beam": beam} | changes))
    return [split.num_rows for split in plan_score(options, Runner.of(options)).plan.splits]


@pytest.mark.model
def test_splits_are_cut_for_the_workers(dump, tmp_path):
    out = tmp_path / "out"
    assert planned_rows(dump, out) == [366, 367, 367]
    assert planned_rows(dump, out, workers=4) == [366, 367, 367]
    assert planned_rows(dump, out, split_rows=600, workers=4) == [550, 550]
    remote = ("--runner=FlinkRunner", "--flink_master=localhost:1")
    assert planned_rows(dump, out, *remote) == [1_100]
    assert planned_rows(dump, out, *remote, "--num_workers=1") == [366, 367, 367]


@pytest.mark.job
def test_a_folder_keeps_its_cut_though_workers_and_input_change(dump, tmp_path, capsys):
    out = tmp_path / "out"
    flags = ["score", "--input", str(dump), "--output", str(out), "--device", "cpu"]
    assert cli.main([*flags, "--split-rows", "600"]) == cli.DONE
    assert json.loads((out / "_run.json").read_text())["split_rows"] == 600
    assert planned_rows(dump, out, workers=4) == [550, 550]
    write_dump(tmp_path / "more", [700], row_group_size=700)
    (tmp_path / "more" / "shard-000.parquet").rename(dump / "more.parquet")
    capsys.readouterr()
    assert cli.main(flags) == cli.DONE
    said = capsys.readouterr()
    assert "(2 earlier)" in said.out
    assert "deleted" not in said.err
    assert json.loads((out / "_run.json").read_text())["split_rows"] == 600


@pytest.mark.job
def test_the_plan_and_the_summary_say_what_is_scored_and_what_is_rejected(tmp_path, capsys):
    dump, out = tmp_path / "dump.parquet", tmp_path / "out"
    rows = {"candidate": ["a cat", "", None], "reference": ["a cat", "a dog", "a fish"]}
    pq.write_table(pa.table(rows), dump)
    flags = ["score", "--input", str(dump), "--output", str(out), "--max-reject-fraction", "1"]
    assert cli.main([*flags, "--dry-run"]) == cli.DONE
    assert "of at most 500 rows" in capsys.readouterr().out
    assert cli.main(flags) == cli.DONE
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    summary = json.loads((out / "_summary.json").read_text())
    reasons, rejected = summary["reasons"], summary["rejected_reasons"]
    assert sum(rejected.values()) == summary["rejected"] == summary["rows"] - summary["scored"]
    assert (reasons, rejected) == (
        {"empty_candidate": 1, "null_candidate": 1},
        {"null_candidate": 1},
    )
    begin, end = shown.index(f"scored: {summary['scored']}"), len(shown)
    middle = shown.index(f"rejected: {summary['rejected']}")
    for reason, number in reasons.items():
        where = shown[middle:end] if reason in rejected else shown[begin:middle]
        assert f"{reason}: {number}" in where
