"""The last phases of a run: what was tried is noted, groups are read, and the run is published.

TriedSplits by share --> a note of each --> groups --> judged --> shards are moved --> the end
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from bertscore_beam.files.checked import from_json
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.records.groups import PartStatistics, group_part, merge_statistics
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import own_file
from bertscore_beam.records.score_tables import delete_tables
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder
from bertscore_beam.run.lease import end_lease, job_of_worker
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.phases import Phase, collected
from bertscore_beam.run.pool import Each
from bertscore_beam.run.publication import (
    end_moves,
    is_success,
    move_shard,
    read_head,
    shards_to_move,
    sweep,
)
from bertscore_beam.run.text_import import delete_input
from bertscore_beam.score.finish import FAILED_FOLDER
from bertscore_beam.score.spec import PENDING, PLAN, RunSpec
from bertscore_beam.score.steps import TriedSplits
from bertscore_core.stats.score_statistics import ScoreSummary

Look: TypeAlias = Callable[[Any, TriedSplits], Iterable[PartRecord]]
"""Returns the records of the parts that a run may publish, by its spec and what it has tried."""
Judge: TypeAlias = Callable[[Any, TriedSplits, PartStatistics | None], None]
"""Judges a run, and begins to publish it, if it may be; without groups it reads them itself."""


def last_phases(spec: RunSpec, look: Look, judge: Judge) -> Iterator[Phase]:
    """Yield the phases after splits were tried, in shares: the items of the first are these.

    The records of all parts may be large: they are noted, and never handed on together. Groups are
    read from the notes in the footers of the parts. So parts of earlier tries, parts that were kept
    and rows that were reused count like all others. Of parts without a note of these group columns
    the columns are read, a small share of a part: no scores are needed.

    In a store, where each file is copied, workers publish the shards of the manifest. If the run is
    detached, no launcher turns the summary into an exit status. So the job fails if the run is not
    a success, and otherwise cleans up the folder.
    """
    yield Phase(name="NoteTried", items=partial(_note, spec))
    if spec.has_groups:
        group = partial(group_part, folder=spec.folder, how=spec.grouped_by)
        step = Each(group, attrgetter("part_name"))
        items = partial(_for_groups, spec, look)
        yield Phase(name="GroupRun", items=items, step=step, fold=merge_statistics)
    move = Each(partial(_move, spec.folder), str)
    yield Phase(name="PublishRun", items=partial(_judged, spec, judge), step=move, fold=collected)
    yield Phase(name="EndRun", items=partial(_end, spec))


def end_without_work(spec: RunSpec, judge: Judge) -> None:
    """Do the last phases of a run that has nothing left to do."""
    _end(spec, [move_shard(spec.folder, name) for name in _judged(spec, judge, None)])


def _notes(spec: RunSpec) -> list[str]:
    return [own_file(spec.run, f"tried-{share}.json.gz") for share in range(spec.shares)]


def _note(spec: RunSpec, tried: tuple[int, TriedSplits]) -> Iterable[Any]:
    if not has_ended(spec):
        share, of_share = tried
        spec.folder.write(_notes(spec)[share], of_share.to_bytes())
    return ()


def _tried(spec: RunSpec) -> TriedSplits:
    """Return what has become of all splits; of a share without splits there is no note."""
    noted = spec.folder.read_each(_notes(spec))
    return TriedSplits.merge(TriedSplits.from_bytes(data) for data in noted if data is not None)


def _for_groups(spec: RunSpec, look: Look, _: Any) -> Iterator[PartRecord]:
    if has_ended(spec):
        return
    small: dict[str, Any] = {"languages": {}, "dropped": {}, "summary": ScoreSummary()}
    for record in look(spec, _tried(spec)):
        yield replace(record, **small)


def has_ended(spec: RunSpec) -> bool:
    """Tell whether a run has published already: Beam may repeat what has done all its work."""
    head = read_head(spec.folder)
    return head is not None and head.token == spec.run


def _judged(spec: RunSpec, judge: Judge, groups: PartStatistics | None) -> list[str]:
    """Judge a run; return the names of the shards that are left to move."""
    if not has_ended(spec):
        judge(spec, _tried(spec), groups)
    return shards_to_move(spec.folder, spec.run)


def _move(folder: OutputFolder, name: str) -> Iterator[list[str]]:
    yield [move_shard(folder, name)]


def _end(spec: RunSpec, moved: list[str]) -> Iterable[Any]:
    if moved:
        end_moves(spec.folder, spec.run, moved)
    if spec.detached:
        summary = end_of_run(spec)
        end_lease(spec.folder.root, job_of_worker())
        if not summary["success"]:
            place = SUMMARY_FILE if has_ended(spec) else f"{FAILED_FOLDER}/{SUMMARY_FILE}"
            raise RuntimeError(
                f"the run is not a success: see {mask_credentials(spec.folder.path(place))}"
            )
    return ()


def end_of_run(spec: RunSpec) -> dict[str, Any]:
    """Return the summary of a run whose phases have ended, and delete what it has left over.

    What only its workers need goes first: plans may contain credentials in paths.
    """
    folder = spec.folder
    folder.delete(*_notes(spec), *(own_file(spec.run, name) for name in (PLAN, PENDING)))
    delete_tables(folder)
    with worker_errors():  # a summary that is missing after all is the run's fault
        summary = read_summary(spec)
        if has_ended(spec) and not spec.detached:  # a job may end when a later run is at work
            sweep(folder)
        if summary["success"] and not spec.keep_input:
            delete_input(folder)
    return summary


def read_summary(spec: RunSpec) -> dict[str, Any]:
    """Read the summary of a run, published or not.

    Raises:
        JobFailedError: Another run has published since.
        FileNotFoundError: There is none.
    """
    folder, place = spec.folder, SUMMARY_FILE
    if not has_ended(spec):
        place = f"{FAILED_FOLDER}/{SUMMARY_FILE}"
        found = folder.read_json(place)
        if found.get("run") != spec.run:
            raise JobFailedError(
                f"the run has published nothing in {folder.shown!r}: got what another run has "
                "published since, or nothing; expected its summary. Give the command again."
            )
        return found
    summary = from_json(folder.read(place))
    if summary["success"] and not is_success(folder, read_head(folder)):
        raise JobFailedError(
            f"the scores in {folder.shown!r} are not whole: got other files than were published; "
            "expected these. Give the command again: it makes what is missing."
        )
    return summary
