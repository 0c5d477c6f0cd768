"""What a command prints cannot stop its work, nor change how that ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.run.output import BROKEN, DONE, tolerant_stream
from tests.support.dumps import write_dump
from tests.support.text_files import to_jsonl, write_text

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


@pytest.fixture
def counting(tmp_path):
    """Return a command that is a whole run with a worker process, and loads no model."""
    write_text(tmp_path / "in.jsonl", to_jsonl([{"candidate": "a", "reference": "b"}]))
    return [COMMAND, "idf", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.npz"]


@pytest.fixture
def scoring(tmp_path, tiny_folder):
    dump = write_dump(tmp_path / "dump", [20])
    model = ("--model", tiny_folder("bert"), "--num-layers", "1", "--long-text", "windows")
    return [COMMAND, "score", "--input", dump, *model, "--output", tmp_path / "out"]


@full_disk
@pytest.mark.parametrize("errors", ["full", pytest.param("nobody", marks=pytest.mark.long)])
def test_a_run_whose_words_are_lost_or_do_not_fit_the_disk_succeeds(
    request, scoring, nobody, errors
):
    errors = request.getfixturevalue(errors)
    done = subprocess.run(scoring, timeout=300, stdout=nobody, stderr=errors)
    assert done.returncode == DONE
    assert (scoring[-1] / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("kind", "closed"),
    [
        ("counting", "<&- >&- 2>&-"),
        pytest.param("counting", "<&- >&-", marks=pytest.mark.long),
        pytest.param("scoring", "<&- >&- 2>&-", marks=pytest.mark.long),
        pytest.param("scoring", "<&- >&-", marks=pytest.mark.long),
    ],
)
def test_a_run_with_closed_descriptors_succeeds(request, kind, closed):
    """As a daemon has them, or a command that another machine started."""
    command = request.getfixturevalue(kind)
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}', *command]
    assert subprocess.run(shell, timeout=300).returncode == DONE
    assert command[-1].is_file() or (command[-1] / "_SUCCESS").exists()


@pytest.mark.long
def test_a_run_without_docstrings_succeeds(scoring):
    command = [sys.executable, "-OO", "-m", "bertscore_beam", *scoring[1:], "--quiet"]
    done = subprocess.run(command, timeout=300, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (DONE, "")


@full_disk
def test_what_is_only_printed_is_missed_when_the_disk_is_full(full):
    command, errors = [COMMAND, "models", "--json"], subprocess.PIPE
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
