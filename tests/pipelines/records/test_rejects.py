"""Rows, files and splits that cannot be scored, and where that is listed."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records.rejects import SCHEMA
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, prepare_score, run_options, run_prepared, start

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("tiny_jobs")]


def test_rejected_rows_are_listed_with_file_row_and_reason(tmp_path):
    dump = tmp_path / "dump"
    dump.mkdir()
    rows = {"candidate": ["a cat"] * 45, "reference": ["the cat"] * 45}
    rows["candidate"][3] = rows["reference"][30] = None
    rows["candidate"][31] = ""
    pq.write_table(pa.table(rows), dump / "a.parquet")
    summary = run_options(job_options(dump, tmp_path / "out", max_reject_fraction=0.5))
    assert summary["success"]
    listed = pq.read_table(tmp_path / "out" / "_rejects")
    assert listed.schema.equals(SCHEMA)
    path = str(dump / "a.parquet")
    no_text = {"byte": None, "line": None, "message": None, "candidate": None}
    assert listed.to_pylist() == [
        {"file": path, "row": 3, "rows": 1, "reason": "null_candidate", **no_text},
        {"file": path, "row": 30, "rows": 1, "reason": "null_reference", **no_text},
    ]
    assert summary["rejected"] == 2


def test_rejected_files_and_splits_are_listed_with_their_messages(tmp_path):
    dump = write_dump(tmp_path / "dump", [20, 20, 20])
    (dump / "shard-000.parquet").write_bytes(b"no Parquet")
    chosen = job_options(dump, tmp_path / "out")
    job = start(prepare_score(chosen))
    (dump / "shard-002.parquet").unlink()
    summary = run_prepared(job)
    assert not summary["complete"]
    whole, piece = pq.read_table(tmp_path / "out" / "_rejects").to_pylist()
    assert whole["file"] == str(dump / "shard-000.parquet")
    assert (whole["row"], whole["rows"], whole["reason"]) == (None, None, "not_parquet")
    assert "cannot be read as Parquet" in whole["message"]
    assert piece["file"] == str(dump / "shard-002.parquet")
    assert (piece["row"], piece["rows"], piece["reason"]) == (0, 20, "unreadable_rows")
    assert "FileNotFoundError" in piece["message"]


def test_rejects_follow_the_parts_when_an_input_is_mended(tmp_path):
    dump = tmp_path / "dump"
    dump.mkdir()
    bad, good = ({"candidate": [word], "reference": ["a cat"]} for word in (None, "a cat"))
    for name in ("a", "b"):
        pq.write_table(pa.table(bad, pa.schema({k: pa.string() for k in bad})), dump / name)
    (dump / "c").write_bytes(b"no Parquet")
    chosen = job_options(dump / "*", tmp_path / "out", max_reject_fraction=1.0)
    run_options(chosen)
    assert pq.read_table(tmp_path / "out" / "_rejects").num_rows == 3
    pq.write_table(pa.table(good), dump / "b")
    (dump / "c").unlink()
    run_options(chosen)
    listed = pq.read_table(tmp_path / "out" / "_rejects").to_pylist()
    assert [row["file"] for row in listed] == [str(dump / "a")]


@pytest.fixture
def with_null(tmp_path):
    """Return options of a finished run of two splits, one row without scores in each."""
    rows = {"candidate": [None, "a cat", "a cat", None], "reference": ["a cat"] * 4}
    pq.write_table(pa.table(rows), tmp_path / "dump.parquet")
    chosen = job_options(
        tmp_path / "dump.parquet", tmp_path / "out", max_reject_fraction=1.0, split_rows=2
    )
    assert run_options(chosen)["success"]
    return chosen


@pytest.mark.parametrize("damage", ["gone", "junk"])
def test_a_list_of_rejected_rows_that_is_damaged_is_made_again(with_null, tmp_path, damage):
    listed = pq.read_table(tmp_path / "out" / "_rejects").sort_by("row")
    path = min((tmp_path / "out" / "_rejects" / "rows").rglob("*.pq"))
    path.unlink()
    if damage == "junk":
        path.write_bytes(b"junk")
    assert run_options(with_null)["reused"] == 1
    assert pq.read_table(tmp_path / "out" / "_rejects").sort_by("row") == listed


def test_rejected_rows_are_listed_once_though_the_manifest_was_lost(with_null, tmp_path):
    (tmp_path / "out" / "_manifest.json").write_bytes(b"{")
    assert run_options(replace(with_null, split_rows=4))["success"]
    listed = pq.read_table(tmp_path / "out" / "_rejects")
    assert sorted(listed["row"].to_pylist()) == [0, 3]


def test_file_out_of_reach_stops_a_corpus_idf_before_anything_is_counted(tmp_path, capsys):
    """Counted without it, the next run would meet another corpus and be refused for ever."""
    dump = write_dump(tmp_path / "dump", [5, 5])
    link = dump / "shard-001.parquet"
    link.unlink()
    link.symlink_to(link)  # OSError: too many levels of symbolic links, also for root
    flags = ["score", "--input", str(dump / "shard-*"), "--output", str(tmp_path / "out")]
    assert cli.main([*flags, "--idf", "corpus"]) == cli.BROKEN
    assert "files or folders cannot be reached" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
