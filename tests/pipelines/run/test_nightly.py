"""The nightly DAG: the command it runs, and when Airflow tries it again."""

import contextlib
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from bertscore_beam.options.flags import read_options
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.beam_options import check_needs
from bertscore_beam.run.output import BROKEN, DONE, TOO_MANY_REJECTS, UNJUDGED, UNUSABLE, WORSE
from bertscore_beam.run.runner import Runner

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.job
def test_the_nightly_command_is_one_that_can_be_submitted(no_network):
    """Airflow itself is not installed here; the command is what can be wrong."""
    text = (ROOT / "configs" / "nightly" / "airflow.py").read_text()
    command = text.split('"""\\\n')[1].split('"""')[0].replace("{{ ds }}", "2026-11-20")
    command = command.replace("{{ ti.try_number }}", "1").split()
    assert command[:2] == ["bertscore-beam", "score"]
    place = command.index("--config") + 1
    command[place] = str(ROOT / "configs" / "score" / command[place].rpartition("/")[2])
    options = read_options(ScoreOptions, command[2:], "score")
    runner = Runner.of(options)
    check_needs(options, runner.beam_options)
    assert runner.is_dataflow


class Skipped(Exception):
    """What Airflow's operator raises for the statuses that it is told to skip."""


class Failed(Exception):
    """What Airflow takes for a failure that is not to be retried."""


class Bash:
    """As much of Airflow's BashOperator as the nightly DAG rests on."""

    made: ClassVar[list["Bash"]] = []

    def __init__(self, *, task_id, bash_command, skip_on_exit_code=(), retries=0, **_):
        self.task_id, self.bash_command = task_id, bash_command
        self.skipped, self.retries, self.follows = skip_on_exit_code, retries, None
        self.made.append(self)

    def __rshift__(self, later):
        later.follows = self
        return later

    def execute(self, context):
        status = subprocess.run(["bash", "-c", self.bash_command], check=False).returncode
        if status in self.skipped:
            raise Skipped(f"Bash command returned exit code {status}. Skipping.")
        if status:
            raise RuntimeError(f"exit code {status}")


@pytest.mark.process
@pytest.mark.parametrize(
    ("status", "ends"),
    [(DONE, None), (BROKEN, RuntimeError)]
    + [(status, Failed) for status in (UNUSABLE, TOO_MANY_REJECTS, WORSE, UNJUDGED)],
)
def test_the_nightly_task_is_tried_again_only_where_that_helps(status, ends, monkeypatch):
    """Airflow itself is not installed here; a stand-in has what its documentation promises."""
    stand_ins = {
        "airflow.exceptions": {"AirflowFailException": Failed, "AirflowSkipException": Skipped},
        "airflow.providers.standard.operators.bash": {"BashOperator": Bash},
        "airflow.sdk": {"DAG": lambda **_: contextlib.nullcontext()},
    }
    for name, content in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    monkeypatch.setattr(Bash, "made", [])
    runpy.run_path(str(ROOT / "configs" / "nightly" / "airflow.py"))
    task, check, compare, report = Bash.made
    assert (task.task_id, task.retries) == ("score", 3)
    assert (check.task_id, check.follows) == ("check", task)
    assert [compare.follows, report.follows] == [check, check]
    for tried in (task, compare):
        tried.bash_command = f"exit {status}"
        with contextlib.nullcontext() if ends is None else pytest.raises(ends):
            tried.execute({})
