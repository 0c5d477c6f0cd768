"""The one way through a run: what is refused first, what is said, and a folder given back."""

from functools import partial
from pathlib import Path

import pytest

from bertscore_beam.files.paths import absolute
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run.job import run_job
from bertscore_beam.run.output import TOO_MANY_REJECTS, JobFailedError, Outcome, TextTable
from bertscore_beam.run.phases import Phase, given
from bertscore_beam.run.pool import Each
from bertscore_beam.run.progress import Expected
from bertscore_core import ConfigError

pytestmark = pytest.mark.job


def write_number(number, folder):
    folder.write(f"numbers/{number}", b"")
    return ()


def number_job(options, run, step=None):
    """Write two numbers in two runs of a phase; fail where that is asked for."""
    output = absolute(options.output)
    if options.dry_run:
        return Outcome(shown=(TextTable("Plan", ("", ""), []),), is_answer=True)
    folder = run.take(output)
    with run.first_writing():
        folder.delete(*(f"numbers/{name}" for name in folder.files("numbers")))
        folder.write("plan", b"1 2")
        run.say("begun")
        if step == "begin":
            fail()
    for number in (1, 2):
        assert len(folder.files("numbers")) == number - 1  # the one before has ended
        write = fail if step == "a worker" else partial(write_number, folder=folder)
        phase = Phase(name="Write", items=given([number]), step=Each(write, str))
        expected = Expected(message=f"Writing {number}", folder="numbers", amounts={str(number): 1})
        run.do((phase,), expected, plainly=number == 2)
    if step == "end":
        fail()
    names = sorted(folder.files("numbers"))
    return Outcome(
        status=TOO_MANY_REJECTS, shown=(TextTable("Written", ("", ""), [("is", *names)]),)
    )


def fail(*_):
    raise OSError("the disk fails")


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_job_takes_its_folder_and_does_phase_after_phase(tmp_path):
    said = []
    outcome = run_job(number_job, RunOptions(output=str(tmp_path / "out")), said.append)
    assert outcome.status == TOO_MANY_REJECTS
    assert outcome.shown[0].rows == [("is", "1", "2")]
    assert said == ["begun", "Writing 1 ...", "Writing 2 ..."]
    assert files_below(tmp_path / "out") == ["numbers/1", "numbers/2", "plan"]


@pytest.mark.parametrize("more", [{"dry_run": True}, {"beam": ("--no_wait_until_finish",)}, {}])
def test_job_that_is_only_shown_or_refused_writes_nothing(tmp_path, more):
    def refused(options, run):
        raise ConfigError("this command cannot")

    options = RunOptions(output=str(tmp_path / "out"), **more)
    if more and not options.beam:
        assert run_job(number_job, options, print).is_answer
    else:
        with pytest.raises(ConfigError, match="this command cannot"):
            run_job(number_job if options.beam else refused, options, print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["begin", "a worker", "end"])
def test_lock_is_given_back_wherever_the_job_fails(tmp_path, step):
    options = RunOptions(output=str(tmp_path / "out"))
    with pytest.raises(JobFailedError if step == "a worker" else OSError, match="the disk fails"):
        run_job(partial(number_job, step=step), options, print)
    assert "lock.json" not in " ".join(files_below(tmp_path))
    assert run_job(number_job, options, print).status == TOO_MANY_REJECTS


def test_a_plan_that_no_worker_can_use_is_deleted_if_there_is_no_work_yet(tmp_path):
    options, has_work = RunOptions(output=str(tmp_path / "out")), []

    def refuse(folder, number):
        if has_work:
            folder.write("numbers/1", b"")
        raise ConfigError("there is no such model")

    def job(options, run):
        folder = run.take(absolute(options.output))
        with run.first_writing():
            folder.write("plan", b"1 2")
        step = Each(partial(refuse, folder), str)
        run.do((Phase(name="Refuse", items=given([1]), step=step),))

    with pytest.raises(ConfigError, match="no such model"):
        run_job(job, options, print)
    assert files_below(tmp_path) == []
    has_work.append(True)
    with pytest.raises(ConfigError, match="no such model"):
        run_job(job, options, print)
    assert files_below(tmp_path) == ["out/numbers/1", "out/plan"]
