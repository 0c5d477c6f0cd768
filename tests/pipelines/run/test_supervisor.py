"""A command is started again when a worker has died, and for no other reason."""

import signal
import sys
from pathlib import Path

import pytest

import bertscore_beam
from bertscore_beam.run.exit_status import DEVICE_LOST, WORKER_DIED
from bertscore_beam.run.supervised import RESTARTS_VARIABLE
from bertscore_beam.run.supervisor import WorkersDiedError, supervise
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

NOTE = (
    "from bertscore_beam.run.supervised import *; note_death(Death(cause='c', in_hand={hands!r}));"
)
DIE = "os._exit({status})"


def program(code: str) -> list[str]:
    paths = [str(Path(bertscore_beam.__file__).parents[1]), *sys.path]  # -S knows no installation
    return [sys.executable, "-S", "-c", f"import os, sys; sys.path[:0] = {paths!r}; {code}"]


def counting(folder: Path, *ends: str) -> list[str]:
    """Return a program that ends in another way each time it is started."""
    restarts = f"int(os.environ[{RESTARTS_VARIABLE!r}])"
    return program(f"n = {restarts}; open(f'{folder}/{{n}}', 'x').close(); exec({list(ends)!r}[n])")


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (DIE.format(status=0), 0),
        (DIE.format(status=1), 1),  # the job stopped, for example since the folder was lost
        (DIE.format(status=2), 2),
        (DIE.format(status=3), 3),
        ("os.kill(os.getpid(), 15)", 143),
    ],
)
def test_other_ends_are_final(tmp_path, end, status):
    warned = []
    assert supervise(counting(tmp_path, end), 5, warned.append) == status
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    assert not warned


def test_command_is_started_again_until_it_ends_well(tmp_path):
    """After a note, after a kill and after a segmentation fault."""
    ends = [
        NOTE.format(hands=["a"]) + DIE.format(status=WORKER_DIED),
        "os.kill(os.getpid(), 9)",
        "os.kill(os.getpid(), 11)",
        DIE.format(status=3),
    ]
    warned = []
    assert supervise(counting(tmp_path, *ends), 3, warned.append) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]
    assert [words.partition(")")[0] for words in warned] == [
        "a worker died (c",
        "a worker died (return code -9",
        "a worker died (return code -11",
    ]
    assert "lack of memory" in warned[1]
    assert warned[2].endswith("from what is finished (restart 3 of 3).")


def test_splits_in_hand_at_every_death_are_named_in_the_end(tmp_path):
    ends = [
        NOTE.format(hands=hands) + DIE.format(status=WORKER_DIED)
        for hands in (["a", "bad"], ["bad", "c"])
    ]
    warned = []
    with pytest.raises(WorkersDiedError) as caught:
        supervise(counting(tmp_path, *ends), 1, warned.append)
    assert str(caught.value).startswith("workers died 2 times, and --restarts allowed for 1: a ")
    assert str(caught.value).endswith("In the hands of workers when they died each time: bad.")
    assert len(warned) == 1


def test_without_a_common_split_those_of_the_last_death_are_named(tmp_path):
    ends = [
        NOTE.format(hands=hands) + DIE.format(status=DEVICE_LOST) for hands in (["a"], ["b", "c"])
    ]
    with pytest.raises(WorkersDiedError, match=r"when the last of them died: b, c\.$"):
        supervise(counting(tmp_path, *ends), 1, lambda _: None)


def test_signal_goes_through_and_nothing_is_started_after_it(tmp_path):
    """The command dies of it as if its worker had died, and is not started again."""
    asks = f"os.kill(os.getppid(), {signal.SIGTERM.value}); import time; time.sleep(60)"
    assert supervise(counting(tmp_path, asks), 5, lambda _: None) == 143
    dies = (
        "import signal, time; signal.signal(15, lambda *_: os.kill(os.getpid(), 9));"
        f"os.kill(os.getppid(), {signal.SIGTERM.value}); time.sleep(60)"
    )
    (tmp_path / "0").unlink()
    assert supervise(counting(tmp_path, dies), 5, lambda _: None) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_workers_of_a_command_that_was_killed_are_gone_before_it_is_started_again(tmp_path):
    """They would keep their memory until they notice."""
    leaves = (
        "import subprocess; p = subprocess.Popen(['sleep', '600']);"
        f"open('{tmp_path}/left', 'w').write(str(p.pid)); os.kill(os.getpid(), 9)"
    )
    assert supervise(counting(tmp_path, leaves, DIE.format(status=0)), 1, lambda _: None) == 0
    left = Path("/proc", (tmp_path / "left").read_text(), "stat")
    wait_until(lambda: not left.exists() or left.read_text().rpartition(")")[2].split()[0] in "ZX")
