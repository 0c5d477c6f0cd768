"""Rows that an earlier run has scored with the same texts and settings take its scores."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records import INDEX_FILE, read_records
from bertscore_beam.run import RUN_FILE, SUCCESS_FILE, SUMMARY_FILE, OutputFolder
from bertscore_core.baseline import Baseline, format_baseline
from tests.support.dumps import pair_rows, read_output
from tests.support.jobs import parts_of, summary_of
from tests.support.records import unpack
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

RAW = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
KEPT = (
    "bertscore_candidate_tokens",
    "bertscore_reference_tokens",
    "bertscore_truncated",
    "bertscore_error",
)
SCHEMA = pa.schema({"id": pa.int64(), "candidate": pa.string(), "reference": pa.string()})
ROWS = np.array([0.4, 0.5, 0.45]) + np.zeros((7, 1))


def awkward_rows():
    """Return rows with nulls, empty texts, long texts and texts that are there twice."""
    rows = pair_rows(70)
    rows["candidate"][3] = None
    rows["reference"][4] = None
    rows["candidate"][5] = ""
    rows["reference"][6] = "  "
    rows["candidate"][7] = "word " * 600
    rows["candidate"][8] = "[SEP]"
    for name in ("candidate", "reference"):
        rows[name][60:70] = rows[name][20:30]
    return pa.table(rows, schema=SCHEMA)


def write(folder, name, table):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=16)
    return folder


def score(dump, out, *more):
    return cli.main(words_of(dump, out, *more))


def words_of(dump, out, *more):
    # Torch, since OpenVINO compares itself with it whenever a model is loaded.
    words = ["score", "--input", dump, "--output", out, "--device", "cpu", "--backend", "torch"]
    return [*map(str, words), "--split-rows", "20", *map(str, more)]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Return the folder of a first night: its dump `one` and its run `n1`."""
    folder = tmp_path_factory.mktemp("nights")
    table = awkward_rows()
    write(folder / "one", "a.parquet", table[:40])
    write(folder / "one", "b.parquet", table[40:])
    assert score(folder / "one", folder / "n1", "--max-reject-fraction", 1) == cli.DONE
    return folder


@pytest.fixture(scope="module")
def second(first):
    """Return the table of a second night: shuffled, renamed, seven rows changed, rescaled."""
    (first / "base.tsv").write_text(format_baseline(Baseline(name="custom", rows=ROWS)))
    table = awkward_rows()
    changed = table["candidate"].to_pylist()
    for row in range(10, 17):
        changed[row] = f"quite another text {row}"
    table = table.set_column(1, SCHEMA.field(1), pa.array(changed))
    table = table.take(np.random.default_rng(5).permutation(len(table)))
    write(first / "two", "renamed.parquet", table)
    more = ["--rescale", "--baseline", first / "base.tsv", "--max-reject-fraction", 1]
    assert score(first / "two", first / "n2", *more, "--reuse", first / "n1") == cli.DONE
    return read_output(first / "n2").sort_by("id").to_pandas()


def test_unchanged_rows_have_the_scores_of_the_first_night_bit_for_bit(first, second):
    before = read_output(first / "n1").sort_by("id").to_pandas()
    same = ~second["id"].isin(range(10, 17))
    # Rows that are there twice may differ by the batch they were in: they take the first one's.
    once = same & (second["id"] < 60) & ~second["id"].isin(range(20, 30))
    for name in RAW:
        there = before[name][once].to_numpy()
        here = second[name.replace("bertscore_", "bertscore_raw_")][once].to_numpy()
        assert there.tobytes() == here.tobytes()
        again = second[name.replace("bertscore_", "bertscore_raw_")][same]
        np.testing.assert_allclose(again, before[name][same], atol=INVARIANCE_ATOL)
    before, after = (read_output(first / name).sort_by("id") for name in ("n1", "n2"))
    mask = pa.array(same.to_numpy())
    for name in KEPT:
        assert after[name].filter(mask).to_pylist() == before[name].filter(mask).to_pylist()


def test_changed_rows_are_scored_and_the_summary_says_what_was_reused(first, second, capsys):
    summary = summary_of(first / "n2")
    # 70 rows, of which 2 cannot be scored and 7 have changed.
    assert (summary["rows"], summary["reused"], summary["scored"]) == (70, 61, 68)
    records = read_records(OutputFolder(str(first / "n2"))).values()
    assert sum(record.reused for record in records) == 61
    run = json.loads((first / "n2" / RUN_FILE).read_text())
    there = json.loads((first / "n1" / RUN_FILE).read_text())
    assert run["reused"] == {"folder": str(first / "n1"), "run": there["run"]}
    more = ["--rescale", "--baseline", first / "base.tsv", "--max-reject-fraction", 1]
    fresh = first / "fresh"
    assert score(first / "two", fresh, *more) == cli.DONE
    assert "reused" not in capsys.readouterr().out
    assert summary_of(fresh)["signature"] == summary["signature"]
    expected = read_output(fresh).sort_by("id").to_pandas()
    assert expected.columns.tolist() == second.columns.tolist()
    for name in (*RAW, *(name.replace("bertscore_", "bertscore_raw_") for name in RAW)):
        np.testing.assert_allclose(second[name], expected[name], atol=2 * INVARIANCE_ATOL)


def test_run_that_reused_rows_is_itself_a_source_and_loads_no_model(first, second, capsys):
    more = ["--rescale", "--baseline", first / "base.tsv", "--max-reject-fraction", 1]
    shutil.rmtree(first / "n2" / "_manifest" / "records")  # only pieces and index count
    out = first / "n3"
    assert score(first / "two", out, *more, "--reuse", f"latest:{first}/n*") == cli.DONE
    assert summary_of(out)["reused"] == 68
    assert summary_of(out)["batches"] == 0
    assert parts_of(out) == parts_of(first / "n2")
    said = capsys.readouterr()
    assert f"Rows that {first / 'n2'} has scored with the same texts take its scores." in said.err
    assert "reused: 68 rows of an earlier run" in said.out


def test_other_settings_reuse_nothing_and_are_named_before_anything_runs(first, capsys):
    more = ["--num-layers", 3, "--max-length", 100, "--reuse", first / "n1", "--dry-run"]
    assert score(first / "one", first / "other", *more) == cli.DONE
    said = capsys.readouterr().out
    assert "other settings" in said
    assert "num_layers '6' there, '3' here" in said
    assert "max_length '512' there, '100' here" in said
    assert not (first / "other").exists()


def test_folder_that_is_no_run_is_refused_and_a_first_night_is_not(first, tmp_path, capsys):
    for given, words in (
        (first / "one", "is no scoring run: got no _run.json"),
        (first / "gone", "is no scoring run"),
        (tmp_path / "out", "names the output itself"),
    ):
        assert score(first / "one", tmp_path / "out", "--reuse", given) == cli.UNUSABLE
        assert words in capsys.readouterr().err
    more = ["--reuse", f"latest:{tmp_path}/*", "--dry-run"]
    assert score(first / "one", tmp_path / "out", *more) == cli.DONE
    assert "No run has succeeded yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "newest", "before", "rule"),
    [
        (("z", "2026-11-20", "m"), "2026-11-20", "z", "time"),
        (("dt=2026-11-21", "20261120", "2026-11-22"), "dt=2026-11-21", "20261120", "the dates"),
    ],
)
def test_latest_is_the_newest_success_by_dates_of_folders_or_else_by_time(
    first, tmp_path, capsys, names, newest, before, rule
):
    for name, started, done in zip(names, (10, 30, 40), (True, True, False), strict=True):
        shutil.copytree(first / "n1", tmp_path / name)
        run = json.loads((tmp_path / name / RUN_FILE).read_text())
        (tmp_path / name / RUN_FILE).write_text(json.dumps({**run, "started": started}))
        if not done:
            (tmp_path / name / SUCCESS_FILE).unlink()
    more = ["--reuse", f"latest:{tmp_path}/*", "--dry-run"]
    assert score(first / "one", tmp_path / "out", *more) == cli.DONE
    said = capsys.readouterr().out
    assert f"Rows that {tmp_path / newest} has" in said
    assert f"It is the newest by {rule}" in said
    # Its own output does not count.
    assert score(first / "one", tmp_path / newest, *more) == cli.DONE
    assert f"Rows that {tmp_path / before} has" in capsys.readouterr().out


def test_run_without_an_index_is_reused_by_the_names_of_its_files(first, tmp_path, capsys):
    shutil.copytree(first / "n1", tmp_path / "broken")
    (tmp_path / "broken" / SUCCESS_FILE).unlink()
    (tmp_path / "broken" / INDEX_FILE).unlink()
    (tmp_path / "broken" / SUMMARY_FILE).unlink()
    unpack(tmp_path / "broken")  # its records are as a killed run leaves them
    more = ["--reuse", tmp_path / "broken", "--max-reject-fraction", 1]
    assert score(first / "one", tmp_path / "out", *more) == cli.DONE
    assert "It is not done: what it has written is taken." in capsys.readouterr().err
    assert summary_of(tmp_path / "out")["reused"] == 68
    assert parts_of(tmp_path / "out") == parts_of(first / "n1")
    # The same command goes on with or without the option.
    assert score(first / "one", tmp_path / "out", "--max-reject-fraction", 1) == cli.DONE
    assert summary_of(tmp_path / "out")["parts_of_earlier_runs"] == 5
    assert summary_of(tmp_path / "out")["reused"] == 68


@pytest.mark.long
def test_idf_rows_are_reused_only_under_the_same_table(first, tmp_path, capsys):
    more = ["--idf", "corpus", "--max-reject-fraction", 1]
    assert score(first / "one", tmp_path / "n1", *more) == cli.DONE
    table = pq.read_table(first / "one" / "a.parquet")
    write(tmp_path / "less", "a.parquet", table[:-1])
    shutil.copy(first / "one" / "b.parquet", tmp_path / "less")
    assert score(tmp_path / "less", tmp_path / "n3", *more, "--reuse", tmp_path / "n1") == cli.DONE
    assert summary_of(tmp_path / "n3")["reused"] == 0
    assert "its idf table is another one" in capsys.readouterr().err
    frozen = ["--idf", tmp_path / "n1" / "_manifest" / "idf.npz", "--max-reject-fraction", 1]
    more = [*frozen, "--reuse", tmp_path / "n1"]
    assert score(tmp_path / "less", tmp_path / "n4", *more) == cli.DONE
    # All but the text of nothing but special tokens, which has no score under idf.
    assert summary_of(tmp_path / "n4")["reused"] == 66
