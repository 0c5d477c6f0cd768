"""What workers write goes to a file, and comes back into sight when a run breaks."""

import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.run.worker_log import workers_log_to_file

pytestmark = pytest.mark.process


def shout():
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'noise')"], check=True)


def test_children_write_to_the_file_and_the_terminal_stays_ours(capfd):
    with workers_log_to_file(enabled=True) as (terminal, log):
        shout()
        terminal.write("progress")
        terminal.flush()
        assert log is not None
        assert log.read_text() == "noise"
    assert capfd.readouterr().err == "progress"
    assert not log.exists()


def test_log_is_kept_and_named_when_the_run_breaks(capfd):
    def break_off():
        with workers_log_to_file(enabled=True):
            shout()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        break_off()
    line = capfd.readouterr().err
    assert line.startswith("The log of the workers is ")
    path = Path(line.split(" is ")[1].strip().rstrip("."))
    assert path.read_text() == "noise"
    path.unlink()


def test_it_can_be_left_off(capfd):
    with workers_log_to_file(enabled=False) as (_, log):
        shout()
    assert log is None
    assert capfd.readouterr().err == "noise"
