"""The estimated time of a run: from the pace of earlier parts, or said to be unknown."""

from dataclasses import replace

import pytest

from bertscore_beam.records import RunTotals
from bertscore_beam.run import duration_words
from bertscore_beam.score import estimate_words
from bertscore_core import ScoreSummary
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, prepare_score

CARRIED = RunTotals(parts=1, summary=ScoreSummary(rows=50, scored=50), seconds=100.0)


@pytest.fixture
def job(tmp_path):
    return prepare_score(job_options(write_dump(tmp_path / "dump", [300]), tmp_path / "out"))


def after(job, carried, workers=1):
    """Return the job as if earlier runs had committed some parts."""
    spec = replace(job.spec, goal=replace(job.spec.goal, carried=carried))
    runner = replace(job.planned.runner, workers=workers)
    return replace(job, spec=spec, planned=replace(job.planned, runner=runner))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (11, "15 s"),
        (700, "12 min"),
        (5399, "1 h 30 min"),
        (7200, "2 h"),
        (190_000, "2 days 5 h"),
    ],
)
def test_durations_are_rounded_to_what_is_known(seconds, words):
    assert duration_words(seconds) == words


@pytest.mark.parametrize(
    ("carried", "workers", "words"),
    [
        (CARRIED, 1, "about 10 min (pace of 50 rows scored earlier)"),
        (CARRIED, 2, "about 5 min (pace of 50 rows scored earlier)"),
        (RunTotals(), 1, "not known before the first parts are scored"),
    ],
)
def test_pace_of_earlier_parts_says_how_long_the_others_take(job, carried, workers, words):
    assert estimate_words(after(job, carried, workers)) == words


def test_time_on_workers_elsewhere_is_not_known(tmp_path):
    dump = write_dump(tmp_path / "dump", [9])
    chosen = job_options(dump, tmp_path / "out", beam=("--runner=DataflowRunner",))
    words = estimate_words(after(prepare_score(chosen), CARRIED))
    assert words == "not known: it depends on the workers, which run elsewhere"
