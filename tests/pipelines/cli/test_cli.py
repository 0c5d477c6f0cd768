"""The command line: what it prints, what it refuses, how it ends."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_core import DocumentFrequencies, IdfTable
from pipelines.cli import main as cli
from pipelines.files.write import write_atomically
from pipelines.run.holder import Holder
from pipelines.run.lock import LOCK_FILE, hold
from pipelines.score.part_record import PARTS_FOLDER
from tests.support.cached_models import cache_model
from tests.support.dumps import read_output, write_dump
from tests.support.made_runs import made_run, scored
from tests.support.processes import beam_workers, session_members
from tests.support.waiting import wait_until


@pytest.fixture
def dump(tmp_path):
    return write_dump(tmp_path / "dump", [30])


def arguments(dump, tmp_path, *more):
    return ["score", "--input", str(dump), "--output", str(tmp_path / "out"), *map(str, more)]


def test_with_json_errors_are_a_document_as_well(dump, tmp_path, capsys):
    for words in (["scroe", "--json"], ["score", "--json"], ["check", "--json", str(tmp_path)]):
        assert cli.main(words) == cli.UNUSABLE
        printed = capsys.readouterr()
        document = json.loads(printed.out)
        assert document["status"] == cli.UNUSABLE
        assert printed.err == f"bertscore-beam: {document['error']}\n"
    assert cli.main(["models", "--json"]) == cli.DONE
    assert json.loads(capsys.readouterr().out)["languages"]["zh"] == "bert-base-chinese"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_lists_json_and_quiet(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    shown = capsys.readouterr().out
    assert "--json" in shown
    assert "--quiet" in shown


@pytest.mark.job
def test_a_quiet_run_with_json_prints_its_summary_and_nothing_else(dump, tmp_path, capfd):
    more = ["--quiet", "--json"]
    assert cli.main(arguments(dump, tmp_path, *more, "--dry-run")) == cli.DONE
    planned = capfd.readouterr()
    assert json.loads(planned.out)["plan"]["rows to score"].startswith("30")
    assert planned.err == ""
    assert cli.main(arguments(dump, tmp_path, *more)) == cli.DONE
    done = capfd.readouterr()
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert done.err == ""
    assert json.loads(done.out) == {
        "status": 0,
        "warnings": [],
        "output": str(tmp_path / "out"),
        "summary": summary,
    }
    assert cli.main(["check", str(tmp_path / "out"), *more]) == cli.DONE
    assert json.loads(capfd.readouterr().out) == {"status": 0, "folder": str(tmp_path / "out")}


@pytest.mark.job
def test_score_writes_everything_and_shows_a_table(dump, tmp_path, capsys):
    assert cli.main(arguments(dump, tmp_path, "--split-rows", 10)) == cli.DONE
    shown = capsys.readouterr()
    assert "embedded default all-MiniLM-L6-v2" in shown.err
    assert "--model roberta-large --language en" in shown.err
    assert "pairs per second" in shown.out
    assert "bertscore|model:all-MiniLM-L6-v2" in shown.out
    assert len(read_output(tmp_path / "out")) == 30
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["success"]
    run = json.loads((tmp_path / "out" / "_run.json").read_text())
    assert run["options"]["split_rows"] == 10
    assert cli.main(arguments(dump, tmp_path, "--split-rows", 10)) == cli.DONE
    assert "scored already" in capsys.readouterr().err


def test_dry_run_prints_the_plan_and_writes_nothing(dump, tmp_path, capsys):
    assert cli.main(arguments(dump, tmp_path, "--dry-run", "--idf", "corpus")) == cli.DONE
    shown = capsys.readouterr().out
    assert "rows to score" in shown
    assert "to be counted over all references" in shown
    assert not (tmp_path / "out").exists()


def test_flags_go_on_top_of_the_file(dump, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(f"input: {dump}\noutput: {tmp_path / 'elsewhere'}\nnum_layers: 3\n")
    flags = ["--config", str(config), "--output", str(tmp_path / "out"), "--dry-run"]
    assert cli.main(["score", *flags]) == cli.DONE
    shown = capsys.readouterr().out
    assert "num_layers:3" in shown
    assert str(tmp_path / "out") in shown


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--num-layer", "3"], "Did you mean --num-layers?"),
        (["--ref-col", "x"], "Did you mean --reference-column?"),
        (["--no-such"], "unknown argument '--no-such'"),
        (["--languge", "en"], "Did you mean --language?"),
        (["--model", "bert-base-uncasd"], "Did you mean 'bert-base-uncased'?"),
        (["--model", "all-minilm"], "Did you mean 'all-MiniLM-L6-v2'?"),
        (["--model", "all-minilm"], "the hub was not asked, since HF_HUB_OFFLINE is set"),
        (["--num-layers", "99"], "num_layers 99 is out of range"),
        (["--num-layers", "x"], "argument --num-layers: invalid int value: 'x'"),
        (["--lang", "english"], "no default model for language 'english'. Did you mean 'en'?"),
        (["--model", "no/such/model"], "neither a local folder"),
        (["--rescale"], "--rescale needs a baseline: got neither a language"),
        (["--rescale"], "Add --language CODE or --baseline PATH"),
        (["--rescale", "--baseline", "no.csv"], "baseline 'no.csv' cannot be read"),
        (["--device", "cuda:77"], "device 'cuda:77' cannot be used"),
        (["--idf", "corpsu"], "Did you mean 'corpus'?"),
        (["--idf", "./no-table.npz"], "no-table.npz"),
        (["--candidate-column", "candidat"], "Did you mean 'candidate'?"),
        (["--", "--runner=DaskRunner"], "runner 'dask' cannot be used: it loses rows"),
        (["--", "--direct_num_wrkers=2"], "Did you mean --direct_num_workers?"),
        (["--max-length", "1000"], "more than all-MiniLM-L6-v2 has positions for"),
        (["--max-length", "unlimited"], "positions for 512 tokens and none beyond"),
        (["--max-length", "unlimited", "--dry-run"], "Leave max_length out to cut texts"),
    ],
)
def test_what_cannot_work_ends_with_status_2_before_anything_is_written(
    dump, tmp_path, capsys, more, message
):
    assert cli.main(arguments(dump, tmp_path, *more)) == cli.UNUSABLE
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["score", "--verbose"],
        ["score", "--json"],
        ["score", "--overwrit"],
        ["score", "--over"],
        ["compare"],
        ["baseline", "--overwrte"],
    ],
)
def test_nothing_far_off_and_nothing_that_destroys_is_suggested(words, capsys):
    assert cli.main(words) == cli.UNUSABLE
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("key", ["verbose", "overwrit", "json"])
def test_nothing_of_the_kind_is_suggested_for_a_file_either(key, dump, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(f"{key}: true\n")
    assert cli.main(arguments(dump, tmp_path, "--config", config)) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert f"unknown option in {config} and the flags: got {key!r}" in said
    assert "Did you mean" not in said


def test_equal_messages_of_many_files_are_one_line(tmp_path, capsys):
    dump = write_dump(tmp_path / "dump", [5] * 4)
    wrong = ["--candidate-column", "candidat"]
    assert cli.main(arguments(dump, tmp_path, *wrong)) == cli.UNUSABLE
    said = capsys.readouterr().err
    assert said.count("Did you mean 'candidate'?") == 1
    assert "shard-000.parquet and 3 more: " in said
    good = pa.table({"candidat": ["a cat"], "reference": ["the cat"]})
    pq.write_table(good, dump / "shard-009.parquet")
    assert cli.main(arguments(dump, tmp_path, *wrong, "--dry-run")) == cli.DONE
    shown = capsys.readouterr().out
    assert shown.count("file rejected: ") == 1
    assert "shard-000.parquet and 3 more: " in shown


def test_input_without_files_is_refused(tmp_path, capsys):
    assert cli.main(arguments(tmp_path / "nothing", tmp_path)) == cli.UNUSABLE
    assert "nothing" in capsys.readouterr().err


@pytest.mark.job
def test_too_many_rejects_end_with_status_3(tmp_path, capsys):
    folder = tmp_path / "dump"
    folder.mkdir()
    table = pa.table({"candidate": ["a cat", None], "reference": ["the cat", "a dog"]})
    pq.write_table(table, folder / "half.parquet")
    assert cli.main(arguments(folder, tmp_path)) == cli.TOO_MANY_REJECTS
    shown = capsys.readouterr()
    assert "50.00% of the rows or files have no score" in shown.err
    assert "null_candidate" in shown.out
    assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.job
def test_finished_run_is_judged_anew(dump, tmp_path, capsys):
    assert cli.main(arguments(dump, tmp_path)) == cli.DONE
    (dump / "zzz.parquet").write_bytes(b"no Parquet")
    assert cli.main(arguments(dump, tmp_path)) == cli.TOO_MANY_REJECTS
    assert "zzz.parquet" in capsys.readouterr().out
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_input_can_be_given_more_than_once(tmp_path, capsys):
    first, second = (write_dump(tmp_path / name, [5]) for name in ("a", "b"))
    flags = ["--input", str(first), "--input", str(second), "--output", str(tmp_path / "out")]
    assert cli.main(["score", *flags, "--dry-run"]) == cli.DONE
    assert "10" in capsys.readouterr().out.split("rows to score")[1].splitlines()[0]


def test_idf_of_a_model_in_a_folder_needs_no_layer(dump, tmp_path, tiny_folder, capsys):
    """The tokenizer alone is asked, for which no registry need know the model."""
    table, model = tmp_path / "table.npz", str(tiny_folder("bert"))
    flags = ["--input", str(dump), "--model", model]
    assert cli.main(["idf", *flags, "--output", str(table)]) == cli.DONE
    assert "30 references of 1 files" in capsys.readouterr().out
    found = ["score", *flags, "--output", str(tmp_path / "out"), "--num-layers", "1"]
    assert cli.main([*found, "--idf", str(table), "--dry-run"]) == cli.DONE


def test_forged_idf_table_ends_with_status_2_before_any_model_runs(dump, tmp_path, capsys):
    """Its one token is in more documents than there are."""
    frequencies = DocumentFrequencies(
        num_documents=2, ids=np.array([5], np.int32), counts=np.array([3], np.int64)
    )
    table = tmp_path / "forged.npz"
    forged = IdfTable(frequencies=frequencies, tokenizer="t", max_length=8)
    table.write_bytes(forged.to_bytes())
    assert cli.main(arguments(dump, tmp_path, "--idf", table)) == cli.UNUSABLE
    assert "counts that are not from 1 to the number of documents" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["-inf", "-1e39", "0.99999999"])
def test_baseline_that_gives_no_numbers_ends_with_status_2(dump, tmp_path, value, capsys):
    rows = "".join(f"{n},0.5,0.5,{value}\n" for n in range(7))
    (tmp_path / "tables" / "en").mkdir(parents=True)
    for path in (tmp_path / "b.csv", tmp_path / "tables" / "en" / "all-MiniLM-L6-v2.tsv"):
        path.write_text("LAYER,P,R,F\n" + rows)
    for given in (tmp_path / "b.csv", tmp_path / "tables"):
        more = ["--rescale", "--baseline", given, "--lang", "en", "--model", "all-MiniLM-L6-v2"]
        assert cli.main(arguments(dump, tmp_path, *more)) == cli.UNUSABLE
        assert "expected finite numbers below 1 in float32" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["workers: " + "9" * 5000, "input: " + "[" * 3000])
def test_config_file_beyond_measure_ends_with_status_2(dump, tmp_path, text, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    assert cli.main(arguments(dump, tmp_path, "--config", config)) == cli.UNUSABLE
    assert "config.yaml' is not valid" in capsys.readouterr().err


@pytest.mark.job
def test_idf_command_reports_bad_files_and_leaves_nothing_else_behind(dump, tmp_path, capsys):
    (dump / "zzz.parquet").write_bytes(b"no Parquet")
    table = dump / "table.npz"
    flags = ["idf", "--input", str(dump), "--output", str(table)]
    assert cli.main([*flags, "--dry-run"]) == cli.DONE
    planned = capsys.readouterr().out
    assert "rows: 30\n" in planned
    assert "file rejected: " in planned
    assert cli.main(flags) == cli.TOO_MANY_REJECTS
    shown = capsys.readouterr()
    assert "rejected" in shown.err
    assert "30 references of 1 files" in shown.out
    assert sorted(path.name for path in dump.iterdir()) == [
        "shard-000.parquet",
        "table.npz",
        "zzz.parquet",
    ]
    assert cli.main(flags) == cli.UNUSABLE


def test_models_prints_the_registry(capsys):
    assert cli.main(["models", "--json"]) == cli.DONE
    shown = json.loads(capsys.readouterr().out)
    models = {row["name"]: row for row in shown["models"]}
    assert len(models) == len(shown["models"]) == 188
    assert models["roberta-large"]["num_layers"] == 17
    e5 = models["intfloat/multilingual-e5-base"]
    assert (e5["num_layers"], e5["depth"], e5["own_code"]) == (None, 12, False)
    assert shown["languages"]["en"] == "roberta-large"
    assert cli.main(["models"]) == cli.DONE
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("roberta-large\t17\t0.739\t") for line in lines)
    assert any(line.startswith("intfloat/multilingual-e5-base\t1 to 12\t") for line in lines)
    assert any("NeoBERT" in line and "needs code of its own" in line for line in lines)


def test_untuned_model_asks_for_a_layer_before_any_work(
    dump, tmp_path, tiny_folder, monkeypatch, capsys
):
    name = "intfloat/multilingual-e5-base"
    cache_model(tiny_folder("xlm_roberta"), name, tmp_path / "cache", monkeypatch)
    flags = ["--model", name, "--dry-run"]
    assert cli.main(arguments(dump, tmp_path, *flags)) == cli.UNUSABLE
    assert f"no layer has been tuned for {name}" in capsys.readouterr().err
    assert cli.main(arguments(dump, tmp_path, *flags, "--num-layers", 2)) == cli.DONE
    assert f"model:{name}" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_unknown_command_lists_the_known(capsys):
    assert cli.main(["scor"]) == cli.UNUSABLE
    printed = capsys.readouterr().err
    assert f"expected one of {', '.join(cli.COMMANDS)}." in printed
    assert "Did you mean score?" in printed
    assert cli.main(["--help"]) == cli.DONE
    assert cli.main([]) == cli.UNUSABLE


@pytest.mark.parametrize("command", ["score", "idf", "models"])
def test_help_names_every_flag(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert "--" in capsys.readouterr().out


def test_help_says_what_is_needed_what_holds_otherwise_and_which_words(capsys):
    with pytest.raises(SystemExit):
        cli.main(["score", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "Where the result is written (needed)" in shown
    assert "keeps the number of that run (default: auto)" in shown
    assert "--dtype {float32,tf32,bfloat16,float16} " in shown
    assert "stop --print-job" in shown  # a switch is off unless given, and a model has no default
    assert "if no language is given --language" in shown
    assert "Beam's own options go after `--`" in shown


@pytest.mark.process
@pytest.mark.long
def test_module_is_the_command(dump, tmp_path):
    """`python -m pipelines score` in a process of its own, two workers."""
    command = [sys.executable, "-m", "pipelines", "score", *arguments(dump, tmp_path)[1:]]
    done = subprocess.run(
        [*command, "--workers", "2", "--split-rows", "10"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == cli.DONE, done.stderr
    assert "sdk harness" not in done.stderr.lower()
    assert len(read_output(tmp_path / "out")) == 30


def parts_in(tmp_path):
    return tmp_path / "out" / "shard-000.parquet"


@contextmanager
def long_run(tmp_path, *flags):
    """Run the command over 600 rows, in a process of its own; the body begins at the first part."""
    dump = write_dump(tmp_path / "dump", [600])
    command = [sys.executable, "-m", "pipelines", *arguments(dump, tmp_path, *flags)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_until(lambda: list(parts_in(tmp_path).glob("part-*.parquet")), process=process)
        yield process


@pytest.mark.long
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to find the workers")
def test_run_whose_worker_is_killed_ends_and_goes_on_when_asked_again(tmp_path):
    """Beam would wait for the dead worker for ever."""
    parts = parts_in(tmp_path)
    with long_run(tmp_path, "--workers", "2", "--split-rows", "5") as process:
        workers = beam_workers(process.pid)
        for worker in workers[:1]:
            os.kill(worker, signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
        assert session_members(process.pid) == []
    assert len(workers) == 2
    assert process.returncode == cli.BROKEN
    assert "a worker process died" in errors
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert 0 < len(list(parts.glob("part-*.parquet"))) < 120
    # A part without its record, as the kill may leave one, is made anew.
    done = len(list((tmp_path / "out" / PARTS_FOLDER).rglob("*.json")))
    flags = arguments(tmp_path / "dump", tmp_path, "--workers", "2", "--split-rows", "5")
    assert cli.main(flags) == cli.DONE
    assert read_output(tmp_path / "out")["id"].to_pylist() == list(range(600))
    summary = json.loads((tmp_path / "out" / "_summary.json").read_text())
    assert summary["parts_of_earlier_runs"] == done


@pytest.mark.process
@pytest.mark.parametrize(
    ("kill", "number"),
    [
        (os.killpg, signal.SIGINT),
        pytest.param(os.kill, signal.SIGINT, marks=pytest.mark.long),
        pytest.param(os.kill, signal.SIGTERM, marks=pytest.mark.long),
    ],
    ids=["Ctrl-C", "kill -INT", "kill"],
)
def test_interrupted_run_says_so_and_goes_on(tmp_path, kill, number):
    parts = parts_in(tmp_path)
    with long_run(tmp_path, "--workers", "2", "--split-rows", "5") as process:
        kill(process.pid, number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert f"interrupted ({number.name}). Finished parts are kept" in errors
    assert "a worker process died" not in errors
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert 0 < len(list(parts.glob("part-*.parquet"))) < 120


@pytest.mark.job
def test_second_run_on_a_folder_is_refused_while_the_first_is_at_work(dump, tmp_path, capsys):
    with hold(str(tmp_path / "out"), say=print, lost=print):
        assert cli.main(arguments(dump, tmp_path)) == cli.UNUSABLE
        assert "another run is at work on this output" in capsys.readouterr().err
        assert cli.main(arguments(dump, tmp_path, "--dry-run")) == cli.DONE
    assert not (tmp_path / "out").exists()
    assert cli.main(arguments(dump, tmp_path)) == cli.DONE


@pytest.mark.process
def test_run_whose_folder_is_taken_over_ends(tmp_path):
    """The other may think it dead, as after a long sleep; the two must not write side by side."""
    lock = tmp_path / "out" / LOCK_FILE
    with long_run(tmp_path, "--split-rows", "2") as process:
        write_atomically(str(lock), replace(Holder.here(), machine="elsewhere").to_json())
        _, errors = process.communicate(timeout=120)
    assert process.returncode == cli.BROKEN
    assert "belongs to another run now" in errors
    assert "on elsewhere" in errors
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert json.loads(lock.read_text())["machine"] == "elsewhere"


@pytest.mark.job
def test_new_cut_of_the_input_is_said_aloud(dump, tmp_path, capsys):
    assert cli.main(arguments(dump, tmp_path, "--split-rows", 10)) == cli.DONE
    assert cli.main(arguments(dump, tmp_path, "--split-rows", 30)) == cli.DONE
    assert "3 earlier parts did not fit the input as it is cut now" in capsys.readouterr().err


@pytest.mark.job
def test_only_parts_are_called_parquet(dump, tmp_path):
    assert cli.main(arguments(dump, tmp_path, "--idf", "corpus")) == cli.DONE
    found = [path.name for path in (tmp_path / "out").rglob("*.parquet") if path.is_file()]
    assert found == ["part-000000000000.parquet"]


def test_output_that_cannot_be_written_is_refused(dump, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    flags = ["score", "--input", str(dump), "--output", str(tmp_path / "file" / "out")]
    assert cli.main(flags) == cli.UNUSABLE
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.process
def test_help_wrong_flags_and_reading_a_run_need_no_heavy_import(tmp_path):
    """They answer in a fraction of a second, where torch, transformers and Beam take several."""
    run = str(made_run(tmp_path / "run", {"a": scored(np.array([0.5, 0.7]))}))
    page = str(tmp_path / "page.html")
    code = (
        "import sys\n"
        "from pipelines.cli import main as cli\n"
        "assert cli.main(['score', '--inptu', 'x']) == cli.UNUSABLE\n"
        f"assert cli.main(['groups', {run!r}]) == cli.DONE\n"
        f"assert cli.main(['compare', {run!r}, {run!r}]) == cli.DONE\n"
        f"assert cli.main(['report', {run!r}, '-o', {page!r}]) == cli.DONE\n"
        "assert cli.main(['models', '--json']) == cli.DONE\n"
        "print(sorted({'torch', 'transformers', 'apache_beam'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Did you mean --input?" in done.stderr


def test_version_is_told(capsys):
    assert cli.main(["--version"]) == cli.DONE
    assert capsys.readouterr().out.startswith("bertscore-beam 0.")


@pytest.mark.process
def test_list_that_is_not_read_to_its_end_is_no_error():
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from pipelines.cli.main import main; raise SystemExit(main(['models']))",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == cli.DONE
