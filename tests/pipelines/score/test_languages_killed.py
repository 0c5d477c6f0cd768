"""A mixed run on two workers and through a kill: the same scores as in one undisturbed process."""

import subprocess
import sys
import time

import pytest

from bertscore_beam.run.exit_status import DONE
from tests.support.dumps import read_output
from tests.support.mixed import language_entries, mixed_table, write_mapping, write_mixed
from tests.support.processes import kill_session

pytestmark = [pytest.mark.process, pytest.mark.long]


def command(dump, output, mapping, workers):
    flags = ["--input", str(dump), "--output", str(output), "--device", "cpu"]
    flags += ["--split-rows", "25", "--workers", str(workers), "--rescale"]
    flags += ["--language-column", "lang", "--languages", mapping]
    return [sys.executable, "-m", "bertscore_beam", "score", *flags]


def parts(output):
    return sorted(path for path in output.rglob("part-*.parquet"))


def test_two_workers_and_a_kill_change_no_row(tmp_path, tiny_folder):
    tables = [mixed_table(100, start) for start in range(0, 400, 100)]
    dump = write_mixed(tmp_path / "dump", tables, row_group_size=25)
    entries = language_entries(tiny_folder, tmp_path)
    mapping = write_mapping(tmp_path / "languages.yaml", entries)
    alone = tmp_path / "alone"
    assert subprocess.run(command(dump, alone, mapping, 1), check=False).returncode == DONE

    killed = tmp_path / "killed"
    process = subprocess.Popen(command(dump, killed, mapping, 2), start_new_session=True)
    deadline = time.monotonic() + 240
    while not parts(killed):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kill_session(process.pid)
    process.wait()
    assert not (killed / "_SUCCESS").exists()
    left = {path: path.stat().st_mtime_ns for path in parts(killed)}
    again = subprocess.run(command(dump, killed, mapping, 2), check=False)
    assert again.returncode == DONE
    assert len(parts(killed)) == 16
    # What was whole is not scored again.
    assert sum(path.stat().st_mtime_ns == moment for path, moment in left.items()) >= len(left) - 2
    assert read_output(killed).equals(read_output(alone))
