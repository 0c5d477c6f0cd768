"""The one way through a run: what is refused first, what is said, and a lock that is given back."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import pytest

from bertscore_beam.files.paths import absolute
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.run.job import JobKind, run_job
from bertscore_beam.run.output import TOO_MANY_REJECTS, Outcome, TextTable
from bertscore_beam.run.progress import Stage
from bertscore_core import ConfigError

pytestmark = pytest.mark.job


def prepare(options, runner):
    return SimpleNamespace(runner=runner, output=absolute(options.output))


def begin(planned, folder, say):
    folder.delete(*(f"numbers/{name}" for name in folder.files("numbers")))
    folder.write("plan", b"1 2")
    say("begun")
    job = SimpleNamespace(planned=planned, folder=folder)
    return job, stages(job)


def write_number(number, folder):
    folder.write(f"numbers/{number}", b"")


def stages(job):
    for number in (1, 2):
        assert len(job.folder.files("numbers")) == number - 1  # the one before has ended
        yield Stage(
            name=f"write {number}",
            runner=job.planned.runner,
            build=lambda root, number=number: (
                root | beam.Create([number]) | beam.Map(write_number, job.folder)
            ),
            message=f"Writing {number}",
            folder="numbers",
            amounts={str(number): 1},
        )


def conclude(job):
    names = sorted(job.folder.files("numbers"))
    return Outcome(
        status=TOO_MANY_REJECTS, shown=(TextTable("Written", ("", ""), [("is", *names)]),)
    )


def show(planned):
    return TextTable("Plan", ("", ""), [])


KIND = JobKind(prepare=prepare, show=show, begin=begin, conclude=conclude)


def fail(*_):
    raise OSError("the disk fails")


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_job_is_planned_begun_run_stage_by_stage_and_concluded(tmp_path):
    said = []
    outcome = run_job(KIND, RunOptions(output=str(tmp_path / "out")), said.append)
    assert outcome.status == TOO_MANY_REJECTS
    assert outcome.shown[0].rows == [("is", "1", "2")]
    assert said == ["begun", "Writing 1 ...", "Writing 2 ..."]
    assert files_below(tmp_path / "out") == ["numbers/1", "numbers/2", "plan"]


@pytest.mark.parametrize("more", [{"dry_run": True}, {"beam": ("--no_wait_until_finish",)}, {}])
def test_job_that_is_only_shown_or_refused_writes_nothing(tmp_path, more):
    def refuse(options, runner):
        raise ConfigError("this command cannot")

    options = RunOptions(output=str(tmp_path / "out"), **more)
    if more and not options.beam:
        assert run_job(replace(KIND, begin=fail), options, print).is_answer
    else:
        kind = KIND if options.beam else replace(KIND, prepare=refuse)
        with pytest.raises(ConfigError, match="this command cannot"):
            run_job(kind, options, print)
    assert list(tmp_path.iterdir()) == []


def begin_in_vain(planned, folder, say):
    return None, map(fail, [1])


def begin_what_fails(planned, folder, say):
    build = lambda root: root | beam.Create([1]) | beam.Map(fail)  # noqa: E731
    return None, [Stage(name="fail", runner=planned.runner, build=build)]


FAILING = {
    "begin": {"begin": fail},
    "stages": {"begin": begin_in_vain},
    "a worker": {"begin": begin_what_fails},
    "conclude": {"conclude": fail},
}


@pytest.mark.parametrize("step", FAILING)
def test_lock_is_given_back_wherever_the_job_fails(tmp_path, step):
    options = RunOptions(output=str(tmp_path / "out"))
    kind = replace(KIND, **FAILING[step])
    with pytest.raises(RuntimeError if step == "a worker" else OSError, match="the disk fails"):
        run_job(kind, options, print)
    assert "lock.json" not in " ".join(files_below(tmp_path))
    assert run_job(KIND, options, print).status == TOO_MANY_REJECTS
