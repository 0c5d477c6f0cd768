"""The last phases of a run: what was tried is noted, groups are read, and the run is published.

TriedSplits by share --> a note of each --> groups --> `finish_run`
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.records.groups import PartStatistics, group_part, merge_statistics
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import own_file
from bertscore_beam.records.score_tables import delete_tables
from bertscore_beam.run.folder import SUMMARY_FILE
from bertscore_beam.run.lease import end_lease, job_of_worker
from bertscore_beam.run.phases import Phase
from bertscore_beam.run.pool import Each
from bertscore_beam.run.publication import is_success, read_head
from bertscore_beam.score.finish import FAILED_FOLDER, finish_run, look_over
from bertscore_beam.score.idf_table import tables_of_run
from bertscore_beam.score.spec import PENDING, PLAN, ScoreSpec
from bertscore_beam.score.steps import TriedSplits
from bertscore_core.stats.score_statistics import ScoreSummary


def last_phases(spec: ScoreSpec) -> Iterator[Phase]:
    """Yield the phases after splits were tried, in shares: the items of the first are these.

    The records of all parts may be large: they are noted, and never handed on together. Groups are
    read from the notes in the footers of the parts. So parts of earlier tries, parts that were kept
    and rows that were reused count like all others. Of parts without a note of these group columns
    the columns are read, a small share of a part: no scores are needed.

    If the run is detached, no launcher turns the summary into an exit status. So the job fails if
    the run is not a success, and otherwise cleans up the folder.
    """
    yield Phase(name="NoteTried", items=partial(_note, spec))
    if spec.has_groups:
        group = partial(group_part, folder=spec.folder, how=spec.grouped_by)
        step = Each(group, attrgetter("part_name"))
        yield Phase(
            name="GroupRun", items=partial(_for_groups, spec), step=step, fold=merge_statistics
        )
    yield Phase(name="FinishRun", items=partial(_finish, spec))


def _notes(spec: ScoreSpec) -> list[str]:
    return [own_file(spec.run, f"tried-{share}.json.gz") for share in range(spec.shares)]


def _note(spec: ScoreSpec, tried: tuple[int, TriedSplits]) -> Iterable[Any]:
    if not has_ended(spec):
        share, of_share = tried
        spec.folder.write(_notes(spec)[share], of_share.to_bytes())
    return ()


def _tried(spec: ScoreSpec) -> TriedSplits:
    """Return what has become of all splits; of a share without splits there is no note."""
    noted = spec.folder.read_each(_notes(spec))
    return TriedSplits.merge(TriedSplits.from_bytes(data) for data in noted if data is not None)


def _for_groups(spec: ScoreSpec, _: Any) -> Iterator[PartRecord]:
    if has_ended(spec):
        return
    small: dict[str, Any] = {"languages": {}, "dropped": {}, "summary": ScoreSummary()}
    idf, _problem = tables_of_run(spec)
    for record in look_over(spec, idf, _tried(spec).records).records():
        yield replace(record, **small)


def has_ended(spec: ScoreSpec) -> bool:
    """Tell whether a run has published already: Beam may repeat what has done all its work."""
    head = read_head(spec.folder)
    return head is not None and head.token == spec.run


def _finish(spec: ScoreSpec, groups: PartStatistics | None) -> Iterable[Any]:
    is_done = has_ended(spec) and is_success(spec.folder, read_head(spec.folder))
    if not is_done:
        tried = _tried(spec)
        is_good = finish_run(spec, tried.totals, tried.records, *tables_of_run(spec), groups)
        if not is_good and spec.detached:
            place = f"{FAILED_FOLDER}/{SUMMARY_FILE}" if spec.is_over_success else SUMMARY_FILE
            raise RuntimeError(
                f"the run is not a success: see {mask_credentials(spec.folder.path(place))}"
            )
    if spec.detached:
        delete_own(spec)
        end_lease(spec.folder.root, job_of_worker())
    return ()


def delete_own(spec: ScoreSpec) -> None:
    """Delete what only the workers of a run need. Plans may contain credentials in paths."""
    spec.folder.delete(*_notes(spec), *(own_file(spec.run, name) for name in (PLAN, PENDING)))
    delete_tables(spec.folder)
