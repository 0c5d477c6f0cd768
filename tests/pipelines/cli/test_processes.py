"""The command in a process of its own: what it loads, and that it ends without its folder."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.files.write import write_atomically
from bertscore_beam.run.lock import LOCK_FILE, Holder
from tests.support.dumps import write_dump
from tests.support.jobs import score_arguments as arguments
from tests.support.made_runs import made_run, scored
from tests.support.text_files import write_text
from tests.support.waiting import wait_until


@pytest.mark.process
def test_run_whose_folder_is_taken_over_ends(tmp_path):
    """The other may think it dead, as after a long sleep; the two must not write side by side."""
    lock, staged = tmp_path / "out" / LOCK_FILE, tmp_path / "out" / "_work"
    dump = write_dump(tmp_path / "dump", [600])
    command = [sys.executable, "-m", "bertscore_beam", *arguments(dump, tmp_path)]
    with subprocess.Popen(
        [*command, "--split-rows", "2"], stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: list(staged.glob("*/[0-9]*.pq")), process=process)
        write_atomically(str(lock), replace(Holder.here(), machine="elsewhere").to_json())
        _, errors = process.communicate(timeout=120)
    assert process.returncode == cli.BROKEN
    assert "belongs to another run now" in errors
    assert "on elsewhere" in errors
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    assert json.loads(lock.read_text())["machine"] == "elsewhere"


def loaded_by(
    modules: set[str], commands: Sequence[tuple[list[str], int]], *, seconds: int
) -> tuple[str, str]:
    """Run commands in one new process, each with its status, in so many seconds at most.

    Returns:
        Which of the modules it has loaded then, as the list is printed, and its standard error.
    """
    calls = "".join(f"assert cli.main({words!r}) == {status}\n" for words, status in commands)
    code = (
        f"import sys\nfrom bertscore_beam.cli import main as cli\n{calls}"
        f"print(sorted({modules!r} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=seconds
    )
    return done.stdout.splitlines()[-1], done.stderr


@pytest.mark.process
def test_help_wrong_flags_and_reading_a_run_need_no_heavy_import(tmp_path):
    """They answer in a fraction of a second, where torch, transformers and Beam take several."""
    run, before = (
        str(made_run(tmp_path / name, {"a": scored(np.array([0.5, 0.7]))})) for name in "ab"
    )
    texts = [str(write_text(tmp_path / "a.jsonl", b"{}\n"))]
    commands = [
        (["score", "--inptu", "x"], cli.UNUSABLE),
        (["score", "--input", str(tmp_path / "none*"), "-o", str(tmp_path / "o")], cli.UNUSABLE),
        (["baseline", "--sentences", "en=none.txt", "--output", "o"], cli.UNUSABLE),
        (["score", "-c", *texts, "-r", *texts, "-m", "no-such-model"], cli.UNUSABLE),
        (["score", "-c", *texts, "-r", *texts, "--language", "qqq"], cli.UNUSABLE),
        (["idf", "-i", *texts, "-m", str(tmp_path), "-o", "o"], cli.UNUSABLE),
        (["tune", "--judgements", "none", "--score-column", "s", "-o", "o"], cli.UNUSABLE),
        (["explain", run], cli.UNUSABLE),
        (["groups", run], cli.DONE),
        (["compare", run, before], cli.DONE),
        (["report", run, "-o", str(tmp_path / "page.html")], cli.DONE),
        (["models", "--json"], cli.DONE),
    ]
    loaded, said = loaded_by({"torch", "transformers", "apache_beam"}, commands, seconds=60)
    assert loaded == "[]"
    assert "Did you mean --input?" in said
    assert said.count("no input: ") == 3
    assert "no row was chosen" in said


@pytest.mark.process
def test_who_plans_a_run_loads_none_of_the_modules_of_models(tmp_path):
    """They take 165 MB and seconds, and only who loads an encoder needs them."""
    dump = write_dump(tmp_path / "dump", [2])
    words = ["score", "--input", str(dump), "--output", str(tmp_path / "out"), "--dry-run"]
    modules = {"transformers", "transformers.modeling_utils", "triton"}
    loaded, _ = loaded_by(modules, [(words, cli.DONE)], seconds=240)
    assert loaded == "['transformers']"
