"""The command line: what it prints, and what it writes."""

import json
import tempfile

import pytest

from bertscore_beam.cli import main as cli
from tests.support.dumps import read_output
from tests.support.jobs import score_arguments as arguments


def test_with_json_errors_are_a_document_as_well(dump, tmp_path, ran):
    for words in (["scroe", "--json"], ["score", "--json"], ["check", "--json", str(tmp_path)]):
        printed = ran(words, cli.UNUSABLE)
        document = json.loads(printed.out)
        assert document["status"] == cli.UNUSABLE
        assert printed.err == f"bertscore-beam: {document['error']}\n"
    assert ran(["--version"]).out.startswith("bertscore-beam 0.")


@pytest.mark.job
def test_score_writes_everything_and_shows_a_table_or_one_document(dump, tmp_path, ran):
    words = arguments(dump, tmp_path, "--split-rows", 10)
    shown = ran(words)
    assert "embedded default all-MiniLM-L6-v2" in shown.err
    assert "--model roberta-large --language en" in shown.err
    assert "pairs per second" in shown.out
    assert "bertscore|model:all-MiniLM-L6-v2" in shown.out
    assert len(read_output(tmp_path / "out")) == 30
    run = json.loads((tmp_path / "out" / "_run.json").read_text())
    assert run["options"]["split_rows"] == 10
    assert "scored already" in ran(words).err
    ended, folder, found = {"status": 0, "warnings": [], "notices": []}, str(tmp_path / "out"), []
    for command in ([*words, "--dry-run"], words, ["check", folder]):
        said = ran([*command, "-q", "--json"])
        found.append(json.loads(said.out))
        assert said.err == ""
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["success"]
    del summary["digest"]  # of the file
    assert found[0]["plan"]["rows to score"].startswith("0")
    done = {**ended, "folder": folder}
    assert found[1:] == [{**ended, "output": folder, "summary": summary}, done]


def test_dry_run_prints_the_plan_and_writes_nothing(dump, tmp_path, ran, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    shown = ran(arguments(dump, tmp_path, "--dry-run", "--idf", "corpus")).out
    assert "rows to score" in shown
    assert "to be counted over all references" in shown
    assert not (tmp_path / "out").exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.job
def test_idf_command_reports_bad_files_and_leaves_nothing_else_behind(dump, tmp_path, ran):
    (dump / "zzz.parquet").write_bytes(b"no Parquet")
    table = dump / "table.npz"
    flags = ["idf", "--input", str(dump), "--output", str(table)]
    planned = ran([*flags, "--dry-run"]).out
    assert "rows: 30\n" in planned
    assert "file rejected: " in planned
    shown = ran(flags, cli.TOO_MANY_REJECTS)
    assert "rejected" in shown.err
    assert "30 references of 1 files" in shown.out
    names = {path.name for path in dump.iterdir()}
    assert names == {"shard-000.parquet", "table.npz", "zzz.parquet"}
    assert cli.main(flags) == cli.UNUSABLE


def test_models_prints_the_registry(ran):
    shown = json.loads(ran(["models", "--json"]).out)
    models = {row["name"]: row for row in shown["models"]}
    assert len(models) == len(shown["models"]) == 188
    assert models["roberta-large"]["num_layers"] == 17
    e5 = models["intfloat/multilingual-e5-base"]
    assert (e5["num_layers"], e5["depth"], e5["own_code"]) == (None, 12, False)
    assert shown["languages"]["en"] == "roberta-large"
    lines = ran(["models"]).out.splitlines()
    assert any(line.startswith("roberta-large\t17\t0.739\t") for line in lines)
    assert any(line.startswith("intfloat/multilingual-e5-base\t1 to 12\t") for line in lines)
    assert any("NeoBERT" in line and "needs code of its own" in line for line in lines)


def test_help_says_what_is_needed_what_holds_otherwise_and_which_words(capsys):
    with pytest.raises(SystemExit):
        cli.main(["score", "--help-all"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "continued, compared or reused (needed without --candidates)" in shown
    assert "keeps the number of that run (default: auto)" in shown
    assert "--dtype {auto,float32,bfloat16,float16} " in shown
    assert "print the plan and stop (" not in shown  # a switch is off unless given
    assert "if no language is given --language" in shown
    assert "Beam's own options go after `--`" in shown


@pytest.mark.parametrize(
    ("place", "output", "is_inside"),
    [
        ("dump", "dump/out", True),
        ("dump/*", "dump/out", True),
        ("dump/*.parquet", "dump/out", False),
        ("dump/**/*.parquet", "dump/a/out", True),
        ("dump", "dump-out", False),
    ],
)
def test_an_output_in_the_input_and_more_workers_than_cores_are_named(
    place, output, is_inside, dump, tmp_path, monkeypatch, ran
):
    monkeypatch.chdir(tmp_path)
    dump.rename(tmp_path / "dump")
    flags = ["score", "--input", place, "--output", output, "--dry-run", "--quiet"]
    assert (f"--output {output} is in the input {place}" in ran(flags).err) == is_inside
    assert "--workers 999 is more than the " in ran([*flags, "--workers", "999"]).err
