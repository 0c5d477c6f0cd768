"""A finished run is rescaled without a model, to what scoring it with the baseline gives."""

import json
import shutil
from datetime import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.records import read_records
from bertscore_beam.run import RUN_FILE, SUCCESS_FILE, OutputFolder
from bertscore_core.baseline import Baseline, baseline_path, description_path, format_baseline
from tests.support.dumps import rich_table, write_dump
from tests.support.jobs import summary_of

pytestmark = pytest.mark.job

SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def table_of(shift):
    rows = np.linspace(0.2, 0.5, 21).reshape(7, 3) + shift
    return format_baseline(Baseline(name="custom", rows=rows))


def run(*words):
    return cli.main([str(word) for word in words])


def score(dump, out, *more):
    # Torch, since OpenVINO compares itself with it whenever a model is loaded.
    flags = (
        "--device",
        "cpu",
        "--backend",
        "torch",
        "--split-rows",
        10,
        "--max-reject-fraction",
        1,
    )
    return run("score", "--input", dump, "--output", out, *flags, *more)


def write_awkward(path):
    """Write a file with lists, times of day in UTC, Spark's description of columns, and nulls."""
    table = rich_table()
    table = table.append_column("at", pa.array([time(1, 2)] * len(table), pa.time64("us")))
    table = table.set_column(
        1, table.schema.field(1), pa.array(["a cat", None, "", *["words"] * 3], pa.large_string())
    )
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}}
        for name in table.column_names
    ]
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
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


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
    assert run("check", out) == cli.DONE
    records, expected = (
        read_records(OutputFolder(str(folder))) for folder in (out, nights / "two")
    )
    assert {name: record.summary for name, record in records.items()} == {
        name: record.summary for name, record in expected.items()
    }


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


def test_rows_near_the_pole_of_f1_are_counted_and_named_scored_rescaled_and_reused(
    nights, tmp_path, capsys
):
    texts = {"candidate": ["hello", "a cat", "a dog"], "reference": ["or", "a cat sat", "the dog"]}
    pq.write_table(pa.table(texts), tmp_path / "pole.parquet")
    dump, baseline = tmp_path / "pole.parquet", ("--baseline", nights / "one.tsv")
    assert score(dump, tmp_path / "raw") == cli.DONE
    assert run("rescale", tmp_path / "raw", *baseline, "--output", tmp_path / "later") == cli.DONE
    taken = ("--rescale", *baseline, "--reuse", tmp_path / "raw")
    assert score(dump, tmp_path / "taken", *taken) == cli.DONE
    said = capsys.readouterr().err
    assert said.count("precision and recall of 1 of 3 scored rows nearly cancel") == 3
    for name in ("raw", "later", "taken"):
        summary, parts = summary_of(tmp_path / name), pq.read_table(tmp_path / name)
        f1 = parts["bertscore_f1"].to_numpy().astype(float)
        assert f1[0] < -2 < summary["f1"] == pytest.approx(f1.mean())
        assert summary["cancelling"] == 1
        assert summary["f1_without_cancelling"] == pytest.approx(f1[1:].mean())
        assert f"{summary['f1_without_cancelling']:.6f}" in said


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
        ("dump", "one", "is no scoring run"),
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


def test_folder_of_tables_is_searched_by_the_language_and_model_of_the_run(
    nights, tmp_path, capsys
):
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
