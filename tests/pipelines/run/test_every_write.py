"""Wherever a run is cut off, the same command ends with the files of a run that nothing befalls."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.job,
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not Path("/proc").exists(), reason="a dead process is known by /proc"),
]

FLOORS = {
    "score": 30,
    "score with idf, key, groups and reuse": 25,
    "select": 25,
    "idf": 20,
    "baseline": 30,
    "tune": 15,
    "rescale": 20,
}
"""The kinds of runs, and the least number of writes and deletions that each of them has."""


@pytest.mark.parametrize("kind", FLOORS)
def test_a_run_cut_off_at_any_write_is_finished_by_the_same_command(tmp_path, capsys, kind):
    """By an error before each write or deletion, by one after it, and by death.

    Of `score` in all three ways, of the others every second one, by turns: CI has an hour. To cut
    one of them off everywhere: `python -m tests.support.every_write FOLDER 1 KIND`.
    """
    interval = 1 if kind == "score" else 2
    words = ["-m", "tests.support.every_write", str(tmp_path), str(interval), kind]
    # A pool of threads would be lost in a fork.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (summary,) = map(json.loads, done.stdout.splitlines())
    with capsys.disabled():
        print(
            f"\n{kind}: {summary['cuts']} cuts at {summary['changes']} writes and deletions, "
            f"{summary['seconds']} s, ended {summary['statuses']}"
        )
    assert summary["problems"] == []
    assert summary["changes"] >= FLOORS[kind]
    assert summary["cuts"] >= FLOORS[kind] // interval
    if interval == 1:
        assert summary["cuts"] == 3 * summary["changes"]
        assert {"1", "137"} <= summary["statuses"].keys()
