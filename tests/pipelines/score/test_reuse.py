"""Rows that an earlier run has scored with the same texts and settings take its scores."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.records.record import part_to_bytes
from bertscore_beam.records.score_tables import TABLES_FOLDER
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, SUMMARY_FILE
from bertscore_beam.score import finish
from bertscore_core.baseline import (
    Baseline,
    baseline_path,
    description_path,
    format_baseline,
    parse_baseline,
)
from tests.support.dumps import SCHEMA, pair_rows, read_output, rich_table, write_dump
from tests.support.dying import KILLED, dying_environment
from tests.support.jobs import parts_of, summary_of, without_token
from tests.support.records import flip_column, forget, records_in
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

RAW = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
KEPT = ("candidate_tokens", "reference_tokens", "truncated", "error")


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


def table_of(shift):
    rows = np.linspace(0.2, 0.5, 21).reshape(7, 3) + shift
    return format_baseline(Baseline(name="custom", rows=rows))


def run(*words):
    return cli.main([str(word) for word in words])


def score(dump, out, *more):
    # Torch, since OpenVINO compares itself with it whenever a model is loaded.
    flags = ("--device", "cpu", "--backend", "torch", "--max-reject-fraction", 1)
    return run("score", "--input", dump, "--output", out, "--split-rows", 10, *flags, *more)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Return the folder of a first night: its dump `one` and its run `n1`."""
    folder = tmp_path_factory.mktemp("nights")
    table = awkward_rows()
    write(folder / "one", "a.parquet", table[:40])
    write(folder / "one", "b.parquet", table[40:])
    assert score(folder / "one", folder / "n1") == cli.DONE
    return folder


@pytest.fixture(scope="module")
def second(first):
    """Return the table of a second night: shuffled, renamed, seven rows changed, rescaled."""
    (first / "base.tsv").write_text(table_of(0.2))
    table = awkward_rows()
    changed = table["candidate"].to_pylist()
    for row in range(10, 17):
        changed[row] = f"quite another text {row}"
    table = table.set_column(1, SCHEMA.field(1), pa.array(changed))
    table = table.take(np.random.default_rng(5).permutation(len(table)))
    write(first / "two", "renamed.parquet", table)
    more = ["--rescale", "--baseline", first / "base.tsv"]
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
    for name in (f"bertscore_{name}" for name in KEPT):
        assert after[name].filter(mask).to_pylist() == before[name].filter(mask).to_pylist()


def test_changed_rows_are_scored_and_the_summary_says_what_was_reused(first, second, capsys):
    summary = summary_of(first / "n2")
    # 70 rows, of which 2 cannot be scored and 7 have changed.
    assert (summary["rows"], summary["reused"], summary["scored"]) == (70, 61, 68)
    run = json.loads((first / "n2" / RUN_FILE).read_text())
    there = json.loads((first / "n1" / RUN_FILE).read_text())
    assert run["reused"] == {"folder": str(first / "n1"), "run": there["run"]}
    more = ["--rescale", "--baseline", first / "base.tsv"]
    fresh = first / "fresh"
    assert score(first / "two", fresh, *more) == cli.DONE
    assert "reused" not in capsys.readouterr().out
    assert summary_of(fresh)["signature"] == summary["signature"]
    expected = read_output(fresh).sort_by("id").to_pandas()
    assert expected.columns.tolist() == second.columns.tolist()
    for name in (*RAW, *(name.replace("bertscore_", "bertscore_raw_") for name in RAW)):
        np.testing.assert_allclose(second[name], expected[name], atol=2 * INVARIANCE_ATOL)


def test_run_that_reused_rows_is_itself_a_source_and_loads_no_model(first, second, capsys):
    more = ["--rescale", "--baseline", first / "base.tsv"]
    forget(first / "n2")  # only parts count
    out = first / "n3"
    assert score(first / "two", out, *more, "--reuse", f"latest:{first}/n*") == cli.DONE
    assert summary_of(out)["reused"] == 68
    assert summary_of(out)["batches"] == 0
    assert parts_of(out) == parts_of(first / "n2")
    said = capsys.readouterr()
    assert f"Rows that {first / 'n2'} has scored with the same texts take its scores." in said.err
    assert "reused: 68 rows of an earlier run" in said.out


def test_damage_of_the_earlier_run_is_told_and_its_rows_are_scored(first, tmp_path, capsys):
    shutil.copytree(first / "n1", tmp_path / "n1")
    for name in ("a.parquet", "b.parquet"):
        flip_column(tmp_path / "n1" / part_name(name, 0), "bertscore_f1")
    assert score(first / "one", tmp_path / "n2", "--reuse", tmp_path / "n1") == cli.DONE
    summary = summary_of(tmp_path / "n2")
    # 70 rows, of which 2 cannot be scored; of the damaged parts 6 and 8 can.
    assert (summary["scored"], summary["reused"]) == (68, 68 - 6 - 8)
    assert summary["reuse_failures"] >= 2
    assert f"failures of reuse: {summary['reuse_failures']}" in capsys.readouterr().out
    before, after = (read_output(out).sort_by("id") for out in (first / "n1", tmp_path / "n2"))
    for name in RAW:
        np.testing.assert_allclose(after[name], before[name], atol=INVARIANCE_ATOL)


def test_other_settings_reuse_nothing_and_are_named_before_anything_runs(first, capsys):
    more = ["--num-layers", 3, "--max-length", 100, "--reuse", first / "n1", "--dry-run"]
    assert score(first / "one", first / "other", *more) == cli.DONE
    said = capsys.readouterr().out
    assert "other settings" in said
    assert "num_layers '6' there, '3' here" in said
    assert "max_length '512' there, '100' here" in said
    assert not (first / "other").exists()


def test_model_of_another_name_with_the_same_weights_gives_the_same_scores(
    tmp_path, tiny_folder, capsys
):
    dump = write_dump(tmp_path / "dump", [30])
    for name in ("hub-name", "moved"):
        shutil.copytree(tiny_folder("bert"), tmp_path / name)

    def scored_with(model, out, *more):
        flags = ("--model", tmp_path / model, "--num-layers", 2)
        assert score(dump, tmp_path / out, *flags, *more) == cli.DONE
        return read_output(tmp_path / out)

    before = scored_with("hub-name", "n1")
    fresh = scored_with("moved", "n2", "--attention", "sdpa")
    taken = scored_with("moved", "n3", "--reuse", tmp_path / "n1")
    summary = summary_of(tmp_path / "n3")
    assert summary["reused"] == summary["scored"] == 30
    assert "model:moved|" in summary["signature"]
    assert fresh.equals(before)
    assert taken.equals(before)
    capsys.readouterr()
    assert run("compare", tmp_path / "n2", tmp_path / "n1", "--fail-if-drop", 0.001) == cli.DONE
    words = "model: moved in run, hub-name in against; attention: sdpa in run, auto in against"
    assert f"settings that differ and move no score: {words}" in capsys.readouterr().out


def test_folder_that_is_no_run_is_refused_and_a_first_night_is_not(first, tmp_path, capsys):
    for given, words in (
        (first / "one", "is not a scoring run: got no _run.json"),
        (first / "gone", "is not a scoring run"),
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
        run = from_json((tmp_path / name / RUN_FILE).read_bytes())
        (tmp_path / name / RUN_FILE).write_bytes(to_json({**run, "started": started}))
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


def test_what_a_run_has_written_that_is_not_done_is_taken(first, tmp_path, capsys):
    shutil.copytree(first / "n1", tmp_path / "broken")
    for name in (SUCCESS_FILE, SUMMARY_FILE):
        (tmp_path / "broken" / name).unlink()
    forget(tmp_path / "broken")  # as a run that is killed leaves it
    more = ["--reuse", tmp_path / "broken"]
    renamed = shutil.copytree(first / "one", tmp_path / "renamed")
    for file in renamed.iterdir():
        file.rename(file.with_stem(f"{file.stem}-of-today"))
    assert score(renamed, tmp_path / "moved", *more) == cli.DONE
    assert score(first / "one", tmp_path / "out", *more) == cli.DONE
    assert "It is not done: what it has written is taken." in capsys.readouterr().err
    assert summary_of(tmp_path / "out")["reused"] == 68
    assert summary_of(tmp_path / "moved")["reused"] == 68
    assert not (tmp_path / "moved" / TABLES_FOLDER).exists()
    assert parts_of(tmp_path / "out") == parts_of(first / "n1")
    # The same command goes on with or without the option.
    assert score(first / "one", tmp_path / "out") == cli.DONE
    summary = summary_of(tmp_path / "out")
    assert (summary["parts_of_earlier_runs"], summary["reused"]) == (summary["parts"], 0)


def rows_to_score(capsys, *words):
    """Return how many rows the plan of a command has yet to score."""
    capsys.readouterr()
    assert score(*words, "--dry-run", "--json") == cli.DONE
    return int(json.loads(capsys.readouterr().out)["plan"]["rows to score"])


@pytest.mark.process
def test_what_a_run_has_only_staged_is_taken(first, tmp_path, capsys):
    """One that dies before it publishes, and one that fails its gate over an earlier success."""
    dead, gated, out = (tmp_path / name for name in ("dead", "gated", "out"))
    (tmp_path / "dying").mkdir()
    flags = ["--split-rows", "10", "--device", "cpu", "--backend", "torch", "--restarts", "0"]
    words = ["score", "--input", str(first / "one"), "--output", str(dead), "--workers", "1"]
    words += ["--max-reject-fraction", "1", *flags]
    how = dying_environment(tmp_path / "dying", dead, [KILLED], after=5)
    command = [sys.executable, "-m", "bertscore_beam", *words]
    assert subprocess.run(command, env={**os.environ, **how}, check=False).returncode < 0
    assert parts_of(dead) == {}
    assert rows_to_score(capsys, first / "one", dead) == 30
    assert score(first / "one", out, "--reuse", dead) == cli.DONE
    assert "It is not done: what it has written is taken." in capsys.readouterr().err
    summary = summary_of(out)
    # Of the 30 rows that are left, ten have the texts of others.
    assert (summary["rows"], summary["scored"] - summary["reused"]) == (70, 20)

    shutil.copytree(out, gated)
    other = write(tmp_path / "other", "c.parquet", pa.table(pair_rows(30, 100), schema=SCHEMA))
    failing = ["--overwrite", "--min-rows", 1000]
    assert score(other, gated, *failing) == cli.TOO_MANY_REJECTS
    assert parts_of(gated) == parts_of(out)
    assert rows_to_score(capsys, other, gated, *failing) == 0
    assert score(other, tmp_path / "last", "--reuse", gated) == cli.DONE
    summary = summary_of(tmp_path / "last")
    assert (summary["reused"], summary["batches"]) == (summary["scored"], 0)


@pytest.mark.long
def test_idf_rows_are_reused_only_under_the_same_table(first, tmp_path, capsys):
    more = ["--idf", "corpus"]
    assert score(first / "one", tmp_path / "n1", *more) == cli.DONE
    table = pq.read_table(first / "one" / "a.parquet")
    write(tmp_path / "less", "a.parquet", table[:-1])
    shutil.copy(first / "one" / "b.parquet", tmp_path / "less")
    assert score(tmp_path / "less", tmp_path / "n3", *more, "--reuse", tmp_path / "n1") == cli.DONE
    assert summary_of(tmp_path / "n3")["reused"] == 0
    assert "its idf table is another one" in capsys.readouterr().err
    frozen = ["--idf", tmp_path / "n1" / "_manifest" / "idf.npz"]
    more = [*frozen, "--reuse", tmp_path / "n1"]
    assert score(tmp_path / "less", tmp_path / "n4", *more) == cli.DONE
    # All but the text of nothing but special tokens, which has no score under idf.
    assert summary_of(tmp_path / "n4")["reused"] == 66


# A finished run is rescaled without a model, to what scoring it with the baseline gives.

SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def write_awkward(path):
    """Write a file with lists, times of day in UTC, Spark's description of columns, and nulls."""
    table = rich_table()
    table = table.append_column("at", pa.array([time(1, 2)] * len(table), pa.time64("us")))
    texts = pa.array(["a cat", None, "", *["words"] * 3], pa.large_string())
    table = table.set_column(1, table.schema.field(1), texts)
    rest = {"type": "string", "nullable": True, "metadata": {}}
    fields = [{"name": name, **rest} for name in table.column_names]
    described = {**table.schema.metadata, SPARK: json.dumps({"fields": fields}).encode()}
    pq.write_table(table.replace_schema_metadata(described), path, write_time_adjusted_to_utc=True)


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Return a folder with a raw run, one rescaled with a table, and two tables."""
    folder = tmp_path_factory.mktemp("rescale")
    dump = write_dump(folder / "dump", [30])
    write_awkward(dump / "awkward.parquet")
    (folder / "one.tsv").write_text(table_of(0.0))
    (folder / "two.tsv").write_text(table_of(0.1))
    assert score(dump, folder / "raw") == cli.DONE
    assert score(dump, folder / "two", "--rescale", "--baseline", folder / "two.tsv") == cli.DONE
    return folder


def files_of(out):
    """Return the parts and the rejects."""
    found = [*out.glob("*.parquet/*.parquet"), *(out / "_rejects").rglob("*.pq")]
    return {str(path.relative_to(out)): without_token(path.read_bytes()) for path in found}


def test_parts_are_those_of_a_run_with_the_baseline(nights, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("rescale", nights / "raw", "--baseline", nights / "two.tsv", "--output", out) == 0
    assert "f1: " in capsys.readouterr().out
    assert files_of(out) == files_of(nights / "two")
    assert len(files_of(out)) > 4
    fresh, here = summary_of(nights / "two"), summary_of(out)
    for name in ("precision", "recall", "f1", "rows", "scored", "reasons", "signature", "success"):
        assert here[name] == fresh[name], name
    run_file = json.loads((out / RUN_FILE).read_text())
    assert run_file["rescaled"]["folder"] == str(nights / "raw")
    scored = json.loads((nights / "two" / RUN_FILE).read_text())
    assert [name for name in scored if name not in run_file] == []  # Delta's tables among them
    for name in ("corpus", "tables", "rows", "parts", "split_rows", "identity"):
        assert run_file[name] == scored[name], name
    assert run("check", out) == cli.DONE
    records, expected = (
        {name: one.summary for name, one in records_in(folder).items()}
        for folder in (out, nights / "two")
    )
    assert records == expected


def test_a_rescaled_run_says_what_its_own_command_did(nights, tmp_path, capsys):
    dump, out = tmp_path / "dump", tmp_path / "out"
    shutil.copytree(nights / "dump", dump)
    write_awkward(dump / "more.parquet")
    texts = {"candidate": ["something else", "or else"], "reference": ["one thing", "another"]}
    pq.write_table(pa.table(texts), dump / "new.parquet")
    assert score(dump, tmp_path / "raw", "--reuse", nights / "raw") == cli.DONE
    source = summary_of(tmp_path / "raw")
    assert 0 < source["reused"] < source["scored"]
    assert source["batches"] > 0
    words = ("rescale", tmp_path / "raw", "--baseline", nights / "two.tsv", "--output", out)
    capsys.readouterr()
    assert run(*words) == cli.DONE
    assert f"reused: {source['scored']:,} rows of an earlier run" in capsys.readouterr().out
    first = summary_of(out)
    assert first.keys() == source.keys()
    assert (first["reused"], first["parts_kept"]) == (source["scored"], 0)
    assert [first[name] for name in ("batches", "tokens", "scoring_seconds")] == [0, 0, 0]
    assert first["input_rows"] == source["input_rows"]
    (out / SUCCESS_FILE).unlink()
    assert run(*words) == cli.DONE
    again = summary_of(out)
    assert (again["reused"], again["parts_kept"]) == (source["scored"], source["parts"])


def test_a_part_that_is_not_of_the_run_is_deleted(nights, tmp_path):
    out = tmp_path / "out"
    words = ("rescale", nights / "raw", "--baseline", nights / "two.tsv", "--output", out)
    assert run(*words) == cli.DONE
    record = records_in(out)["shard-000.parquet/part-000000000000.parquet"]
    other = replace(record, part_name="shard-000.parquet/part-000000000001.parquet")
    data = part_to_bytes(pq.read_table(out / record.part_name), other, token="0" * 16)
    (out / other.part_name).write_bytes(data)
    (out / SUCCESS_FILE).unlink()
    assert run(*words) == cli.DONE
    assert files_of(out) == files_of(nights / "two")


def test_staged_parts_of_another_state_of_the_run_are_not_taken(nights, tmp_path, monkeypatch):
    path, out = tmp_path / "dump.parquet", tmp_path / "out"
    words = ("rescale", tmp_path / "raw", "--baseline", nights / "two.tsv", "--output", out)

    def write(system):
        rows = {"candidate": ["a cat", None], "reference": ["a dog"] * 2, "system": [system] * 2}
        pq.write_table(pa.table(rows), path)
        assert score(path, tmp_path / "raw", "--overwrite") == cli.DONE

    write("old")
    with monkeypatch.context() as patch:
        patch.setattr(finish, "publish", interrupt)
        assert run(*words) == 130
    (lost,) = (out / "_work" / "rejects").rglob("*.pq")
    lost.unlink()  # as a rule of a bucket may do
    assert run(*words) == cli.DONE
    assert read_output(out)["system"].to_pylist() == ["old"] * 2
    with monkeypatch.context() as patch:
        patch.setattr(finish, "publish", interrupt)
        assert run(*words, "--overwrite") == 130
    write("new")
    assert run(*words, "--overwrite") == cli.DONE
    assert read_output(out)["system"].to_pylist() == ["new"] * 2


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("long_text", ["error", "windows"])
def test_rows_of_long_texts_are_those_of_a_run_with_the_baseline(nights, tmp_path, long_text):
    texts = ["a cat " * 50, "", None, "a cat", "[SEP]"]
    rows = {"candidate": texts, "reference": [["a dog", "a cat sat"]] * 5}
    pq.write_table(pa.table(rows), tmp_path / "long.parquet")
    dump, given = tmp_path / "long.parquet", ("--long-text", long_text, "--max-length", 16)
    rescaled = ("--rescale", "--baseline", nights / "one.tsv")
    assert score(dump, tmp_path / "raw", *given) == cli.DONE
    assert score(dump, tmp_path / "fresh", *given, *rescaled) == cli.DONE
    out = tmp_path / "out"
    assert run("rescale", tmp_path / "raw", *rescaled[1:], "--output", out) == cli.DONE
    assert files_of(out) == files_of(tmp_path / "fresh")
    assert summary_of(out)["reasons"] == summary_of(tmp_path / "fresh")["reasons"]


def test_means_take_an_f1_near_its_pole_clipped_and_count_it_everywhere(nights, tmp_path):
    texts = {"candidate": ["hello", "a cat", "a dog"], "reference": ["or", "a cat sat", "the dog"]}
    pq.write_table(pa.table(texts), tmp_path / "pole.parquet")
    dump, baseline = tmp_path / "pole.parquet", ("--baseline", nights / "one.tsv")
    assert score(dump, tmp_path / "raw") == cli.DONE
    assert run("rescale", tmp_path / "raw", *baseline, "--output", tmp_path / "later") == cli.DONE
    taken = ("--rescale", *baseline, "--reuse", tmp_path / "raw")
    assert score(dump, tmp_path / "taken", *taken) == cli.DONE
    row = Baseline.row(parse_baseline((nights / "one.tsv").read_text(), "one"), 6)
    for name, base in (("raw", 0.0), ("later", row[2]), ("taken", row[2])):
        summary, parts = summary_of(tmp_path / name), pq.read_table(tmp_path / name)
        f1 = parts["bertscore_f1"].to_numpy().astype(float)
        assert f1[0] < -2
        expected = ((-1 - base) / (1 - base) + f1[1:].sum()) / 3
        assert (summary["f1"], summary["clipped"]) == (pytest.approx(expected, abs=1e-6), 1)


def test_score_goes_on_from_it_and_takes_scores_from_it(nights, tmp_path):
    out = tmp_path / "out"
    assert run("rescale", nights / "raw", "--baseline", nights / "two.tsv", "--output", out) == 0
    more = ("--rescale", "--baseline", nights / "two.tsv")
    assert score(nights / "dump", out, *more) == cli.DONE
    assert summary_of(out)["parts_of_earlier_runs"] == summary_of(out)["parts"]
    again = tmp_path / "again"
    assert score(nights / "dump", again, *more, "--reuse", out) == cli.DONE
    assert summary_of(again)["reused"] == summary_of(again)["scored"] > 30
    assert files_of(again) == files_of(out)


@pytest.mark.parametrize(
    ("source", "table", "words"),
    [
        ("raw", "short", "has no row for layer 6"),
        ("raw", "other", "was made with another model"),
        ("raw", "gone", "cannot be read"),
        ("dump", "one", "is not a scoring run"),
        ("open", "one", "is not done"),
        ("damaged", "one", "is damaged"),
    ],
)
def test_what_does_not_fit_is_refused(nights, tmp_path, capsys, source, table, words):
    (tmp_path / "short.tsv").write_text("\n".join(table_of(0).splitlines()[:5]))
    (tmp_path / "other.tsv").write_text(table_of(0))
    signature = summary_of(nights / "raw")["signature"]
    weights = signature.partition("weights:")[2].partition("|")[0]
    made = {"signature": signature.replace(weights, "0" * 12)}
    (tmp_path / description_path("other.tsv")).write_text(json.dumps(made))
    shutil.copy(nights / "one.tsv", tmp_path)
    given = nights / source
    if source in ("open", "damaged"):
        given = tmp_path / source
        shutil.copytree(nights / "raw", given)
        gone = SUCCESS_FILE if source == "open" else "shard-000.parquet/part-000000000000.parquet"
        (given / gone).unlink()
    out = tmp_path / "out"
    command = ("rescale", given, "--baseline", tmp_path / f"{table}.tsv", "--output", out)
    assert run(*command) == cli.UNUSABLE
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_tables_are_searched_by_the_language_and_model_of_the_run(nights, tmp_path, capsys):
    path = tmp_path / "tables" / baseline_path("en", "all-MiniLM-L6-v2")
    path.parent.mkdir(parents=True)
    path.write_text(table_of(0.1))
    words = ("rescale", nights / "raw", "--baseline", tmp_path / "tables", "--output")
    assert run(*words, tmp_path / "out") == cli.UNUSABLE
    assert "no language was given" in capsys.readouterr().err
    assert run(*words, tmp_path / "out", "--language", "en", "--dry-run") == cli.DONE
    assert "baseline: custom/en/all-MiniLM-L6-v2@" in capsys.readouterr().out


def test_options_of_other_commands_and_the_run_as_its_own_output_are_refused(nights, capsys):
    words = ("rescale", nights / "raw", "--baseline", nights / "one.tsv", "--output")
    assert run(*words, nights / "raw") == cli.UNUSABLE
    assert "--output is the run itself" in capsys.readouterr().err
    assert run(*words, nights / "new", "--workers", 2) == cli.UNUSABLE
    assert "workers" in capsys.readouterr().err
    assert run(*words, nights / "two") == cli.UNUSABLE
    assert "baseline: " in capsys.readouterr().err
