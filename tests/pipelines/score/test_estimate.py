"""The estimated time of a run: from the pace of earlier parts, or said to be unknown."""

from dataclasses import replace

import pytest

from bertscore_beam.records.summary import Totals
from bertscore_beam.run.output import format_duration
from bertscore_beam.score.show_run import estimate_lines
from bertscore_core.stats.score_statistics import ScoreSummary
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, prepare_score

CARRIED = Totals(parts=1, summary=ScoreSummary(rows=50, scored=50), seconds=100.0)


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
    assert format_duration(seconds) == words


@pytest.mark.parametrize(
    ("carried", "changes", "words"),
    [
        (CARRIED, {}, "about 10 min (pace of 50 rows scored earlier)"),
        (CARRIED, {"workers": 2}, "about 5 min (pace of 50 rows scored earlier)"),
        (Totals(), {}, "not known before the first parts are scored"),
        (
            CARRIED,
            {"beam": ("--runner=DataflowRunner",)},
            "not known: it depends on the workers, which run elsewhere",
        ),
    ],
)
def test_pace_of_earlier_parts_says_how_long_the_others_take(tmp_path, carried, changes, words):
    dump = write_dump(tmp_path / "dump", [300])
    job = prepare_score(job_options(dump, tmp_path / "out", **changes))
    start = replace(job.spec.start, carried=carried)  # as if earlier runs had committed some parts
    assert estimate_lines(replace(job, spec=replace(job.spec, start=start))) == words
