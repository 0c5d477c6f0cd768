"""A scoring run that has lost its folder leaves it to the run that has it now."""

import pytest

from bertscore_beam.files.paths import TEMPORARY_PREFIX
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lock import FolderLostError, RunLock
from bertscore_beam.score.job import start_run
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, prepare_score, run_options, with_folder
from tests.support.lost_folder import assert_nothing_changes_after_loss, files_below

pytestmark = pytest.mark.job


@pytest.fixture
def finished(tmp_path):
    """Return a dump of two files and its finished output of four parts."""
    dump = write_dump(tmp_path / "dump", [30, 30])
    assert run_options(job_options(dump, tmp_path / "out"))["success"]
    return dump, tmp_path / "out"


def job_with_lock_of(run, chosen, output):
    folder = OutputFolder(str(output), RunLock(str(output), run))
    return with_folder(prepare_score(chosen), folder)


def test_start_of_a_run_that_lost_its_folder_changes_nothing(finished):
    dump, output = finished
    (output / f"{TEMPORARY_PREFIX}1234").write_bytes(b"half")
    before = files_below(output)
    chosen = job_options(dump, output, num_layers=3, overwrite=True)
    with pytest.raises(FolderLostError):
        start_run(job_with_lock_of("another", chosen, output))
    assert files_below(output) == before


def test_start_of_a_run_changes_nothing_after_the_moment_it_loses_its_folder(finished, monkeypatch):
    dump, output = finished
    chosen = job_options(dump, output, num_layers=3, overwrite=True)
    job = job_with_lock_of("mine", chosen, output)
    looks = assert_nothing_changes_after_loss(monkeypatch, output, lambda: start_run(job))
    assert looks > 8
