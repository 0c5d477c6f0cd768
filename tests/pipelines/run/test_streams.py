"""What a command prints cannot stop its work, nor change how that ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.run.output import BROKEN, DONE, tolerant_stream
from tests.support.dumps import write_dump

pytestmark = pytest.mark.process


COMMAND = Path(sys.executable).with_name("bertscore-beam")
FULL = Path("/dev/full")

full_disk = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@pytest.fixture
def nobody():
    """Return a descriptor to a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.fixture
def full():
    descriptor = os.open(FULL, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@full_disk
def test_a_run_whose_words_are_lost_or_do_not_fit_the_disk_succeeds(tmp_path, nobody, full):
    dump = write_dump(tmp_path / "dump", [20])
    for name, streams in (("a", (nobody, full)), ("b", (nobody, nobody))):
        command = [COMMAND, "score", "--input", dump, "--output", tmp_path / name]
        done = subprocess.run(command, timeout=300, stdout=streams[0], stderr=streams[1])
        assert done.returncode == DONE
        assert (tmp_path / name / "_SUCCESS").exists()


@pytest.mark.parametrize("closed", ["<&- >&-", "<&- >&- 2>&-"])
def test_a_run_with_closed_descriptors_succeeds(tmp_path, closed):
    """As a daemon has them, or a command that another machine started."""
    dump = write_dump(tmp_path / "dump", [20])
    words = [COMMAND, "score", "--input", dump, "--output", tmp_path / "out"]
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}', *words]
    assert subprocess.run(shell, timeout=300).returncode == DONE
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.long
def test_a_run_without_docstrings_succeeds(tmp_path):
    dump = write_dump(tmp_path / "dump", [20])
    words = ["score", "--input", dump, "--output", tmp_path / "out", "--quiet"]
    command = [sys.executable, "-OO", "-m", "bertscore_beam", *words]
    done = subprocess.run(command, timeout=300, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (DONE, "")


@full_disk
@pytest.mark.parametrize("more", [("models", "--json"), ("score", "--print-job")])
def test_what_is_only_printed_is_missed_when_the_disk_is_full(tmp_path, full, more):
    places = ("--input", "in", "--output", str(tmp_path)) if more[0] == "score" else ()
    command, errors = [COMMAND, *more, *places], subprocess.PIPE
    done = subprocess.run(command, timeout=120, stdout=full, stderr=errors, text=True)
    assert done.returncode == BROKEN
    assert done.stderr.startswith("bertscore-beam: standard output cannot be written: got [Errno")
    assert "Traceback" not in done.stderr


def test_a_stream_that_forgives_writes_what_can_be_written(tmp_path):
    descriptor = os.open(tmp_path / "words", os.O_WRONLY | os.O_CREAT)
    stream = tolerant_stream(descriptor)
    stream.write("a name: \udcff\n")
    stream.close()
    os.close(descriptor)
    assert (tmp_path / "words").read_text() == "a name: \\udcff\n"
