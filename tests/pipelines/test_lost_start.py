"""A scoring run that has lost its folder leaves it to the run that has it now."""

import pytest

from pipelines.io.files import TEMPORARY_PREFIX
from pipelines.lock import FolderLostError, RunLock
from pipelines.prepare import prepare_score
from pipelines.score import start_run
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, run_options


@pytest.fixture
def finished(tmp_path):
    """Return a dump of two files and its finished output of four parts."""
    dump = write_dump(tmp_path / "dump", [30, 30])
    assert run_options(job_options(dump, tmp_path / "out"))["success"]
    return dump, tmp_path / "out"


def files_below(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_start_of_a_run_that_lost_its_folder_changes_nothing(finished):
    dump, output = finished
    (output / f"{TEMPORARY_PREFIX}1234").write_bytes(b"half")
    before = files_below(output)
    chosen = job_options(dump, output, num_layers=3, overwrite=True)
    with pytest.raises(FolderLostError):
        start_run(prepare_score(chosen), chosen, RunLock(str(output), "another"))
    assert files_below(output) == before


def test_start_of_a_run_changes_nothing_after_the_moment_it_loses_its_folder(finished, monkeypatch):
    """The folder is lost at each look at the lock in turn."""
    dump, output = finished
    chosen = job_options(dump, output, num_layers=3, overwrite=True)
    job, seen, looks = prepare_score(chosen), [], 0

    def check(lock):
        seen.append(files_below(output))
        if len(seen) > looks:
            raise FolderLostError

    monkeypatch.setattr(RunLock, "check", check)
    while True:
        seen.clear()
        try:
            start_run(job, chosen, RunLock(str(output), "mine"))
        except FolderLostError:
            assert files_below(output) == seen[-1]
            looks += 1
        else:
            break
    assert looks > 8
