"""The command in a process of its own: what it loads."""

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from tests.support.dumps import write_dump
from tests.support.made_runs import made_run, scored
from tests.support.text_files import write_text


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
def test_who_plans_or_counts_loads_none_of_the_modules_of_models(tmp_path):
    """They take 165 MB and seconds, and only who loads an encoder needs them.

    Nor does counting the words of a single split need Beam.
    """
    given = ["--input", str(write_dump(tmp_path / "dump", [2])), "--output"]
    commands = [
        (["score", *given, str(tmp_path / "out"), "--dry-run"], cli.DONE),
        (["idf", *given, str(tmp_path / "table.npz"), "--quiet"], cli.DONE),
    ]
    modules = {"transformers", "transformers.modeling_utils", "triton", "apache_beam"}
    loaded, _ = loaded_by(modules, commands, seconds=240)
    assert loaded == "['transformers']"
