"""Recipes of the pages (blocks of `py`) with the real packages of others.

They are in no environment of ours. RECIPES_PYTHON names an interpreter that has them, and ours.
"""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.cli import main as cli

pytestmark = [pytest.mark.process, pytest.mark.model, pytest.mark.long]

DOCS = Path(__file__).parents[1] / "docs"
PYTHON = os.environ.get("RECIPES_PYTHON", sys.executable)
BLOCK = re.compile(r"^```py\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.M | re.S)


def run(code, folder, **environment):
    return subprocess.run(
        [PYTHON, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def recipe(page, package, folder):
    """Return the code of a page's recipe and what it prints, where the package is there."""
    tried = run(f"import {package}", folder)
    if tried.returncode:
        pytest.skip(f"{package} is not installed for RECIPES_PYTHON ({PYTHON})")
    ((code, printed),) = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    return code, printed


def test_evaluates_own_bertscore_runs_on_the_drop_in(tmp_path):
    code, printed = recipe("library.md", "evaluate", tmp_path)
    done = run(code, tmp_path, HF_EVALUATE_OFFLINE="1")
    if "Couldn't find a module script" in done.stderr:
        pytest.skip("evaluate.load('bertscore') has not put its module into the cache (HF_HOME)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_the_numbers_of_a_night_are_in_mlflow(tmp_path, capsys):
    code, _ = recipe("nightly.md", "mlflow", tmp_path)
    (tmp_path / "hyp.txt").write_text("a cat sat\nrain\n")
    files = ["--candidates", str(tmp_path / "hyp.txt"), "--references", str(tmp_path / "hyp.txt")]
    assert cli.main(["score", *files, "--json", "--quiet"]) == cli.DONE
    night = capsys.readouterr().out
    (tmp_path / "night.json").write_text(night)
    look = """
runs = mlflow.MlflowClient().search_runs(["0"])
print(json.dumps([[run.data.metrics, run.data.params, run.info.run_name] for run in runs]))
"""
    done = run(code + look, tmp_path, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/runs.db")
    assert done.returncode == 0, done.stderr
    ((metrics, parameters, name),) = json.loads(done.stdout.splitlines()[-1])
    summary = json.loads(night)["summary"]
    assert (name, parameters) == ("2026-11-20", {"signature": summary["signature"]})
    numbers = {key: value for key, value in summary.items() if type(value) in (int, float)}
    assert {"f1", "rows", "pairs_per_second"} <= metrics.keys() == numbers.keys()
    assert all(math.isclose(metrics[key], value) for key, value in numbers.items())
