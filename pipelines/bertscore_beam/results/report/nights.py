"""A series of runs: the newest is the headline, and all of them are the trend."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import reaching
from bertscore_beam.results.comparable import compare_settings
from bertscore_beam.results.comparison import Group
from bertscore_beam.results.report.data import Night
from bertscore_beam.results.report.estimates import F1, estimates
from bertscore_beam.results.report.gather import OPTION, Findings
from bertscore_beam.results.report.options import ReportOptions
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.success import successful_run
from bertscore_beam.runs.source import scoring_runs
from bertscore_beam.score.finished import FinishedRun, open_finished
from bertscore_beam.score.run_groups import merge_groups
from bertscore_core.errors import ConfigError
from bertscore_core.score_statistics import ScoreStatistics

_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The runs that `RUN` stands for.

    Attributes:
        earlier: Folders of the runs before the newest, the oldest first; empty if one run is named.
        newest: Folder of the newest.
        unfinished: How many runs are left out, since they are not done.
    """

    earlier: tuple[str, ...]
    newest: str
    unfinished: int = 0


def find_series(given: str) -> Series:
    """Find the runs that a folder, or a pattern of folders, stands for.

    Raises:
        ConfigError: The pattern matches no run that is done.
        OSError: A folder cannot be reached.
    """
    if not _MAGIC.search(given):
        return Series(earlier=(), newest=given)
    with reaching("RUN", given):
        every = [one.root for one in scoring_runs(given, "RUN")]
        done = [root for root in every if successful_run(OutputFolder(root)) is not None]
    if not done:
        raise ConfigError(
            f"no run is done in a folder like {mask_credentials(given)!r}: got {len(every)} that "
            "are not; expected one or more output folders of `score`. Check the pattern."
        )
    *earlier, newest = done
    return Series(earlier=tuple(earlier), newest=newest, unfinished=len(every) - len(done))


def nights_of(
    series: Series, newest: FinishedRun, found: Findings, options: ReportOptions
) -> tuple[Night, ...]:
    """Return every run of a series, the oldest first; none for a single run."""
    if not series.earlier:
        return ()
    nights = []
    for root in series.earlier:
        run = open_finished(root, "RUN")
        merged = merge_groups(run, options.by, OPTION)
        nights.append(_night(run, merged.total, merged.groups, options, newest))
    return (*nights, _night(newest, found.total, found.groups, options, newest))


def utc(seconds: Any) -> str:
    """Return seconds since the epoch as a date and time in UTC."""
    if not isinstance(seconds, (int, float)):
        return "–"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _night(
    run: FinishedRun,
    total: ScoreStatistics,
    groups: Mapping[Group, ScoreStatistics],
    options: ReportOptions,
    newest: FinishedRun,
) -> Night:
    return Night(
        run=run.folder.shown,
        started=utc(run.run.get("started")),
        rows=total.rows,
        scored=total.scored,
        rejected=total.rejected,
        f1=estimates(total, options.confidence)[F1],
        comparable=_is_comparable(newest, run),
        groups=tuple(
            (name, estimates(one, options.confidence)[F1]) for name, one in groups.items()
        ),
    )


def _is_comparable(newest: FinishedRun, run: FinishedRun) -> bool:
    """Tell whether the scores of two runs were made alike, which needs a language in common."""
    try:
        return not compare_settings(newest, run).moving
    except ConfigError:
        return False
