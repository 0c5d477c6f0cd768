"""The last steps of the pipeline of a run: groups, and its end.

what splits have become --> groups --> `finish_run`, which publishes
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.records.groups import PartStatistics, group_part, merge_statistics
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import own_file
from bertscore_beam.records.score_tables import delete_tables
from bertscore_beam.records.summary import Totals
from bertscore_beam.run.folder import SUMMARY_FILE
from bertscore_beam.run.lease import end_lease, job_of_worker
from bertscore_beam.run.pool import Each
from bertscore_beam.run.publication import is_success, read_head
from bertscore_beam.run.run_step import RunStep, Spread
from bertscore_beam.score.finish import FAILED_FOLDER, finish_run, look_over
from bertscore_beam.score.spec import PENDING, PLAN, ScoreSpec
from bertscore_beam.score.steps import TriedSplit
from bertscore_core.stats.score_statistics import ScoreSummary


@dataclass
class ConcludeRun(beam.PTransform):
    """What the splits of a run have become -> None, when it is judged and published.

    If the run is detached, no launcher turns the summary into an exit status. So the job fails here
    if the run is not a success, and otherwise cleans up the folder. `idf` is a singleton, or None.
    """

    spec: ScoreSpec
    idf: beam.PCollection[IdfTables] | None = None

    def expand(self, splits: beam.PCollection[TriedSplit]) -> beam.PCollection[Totals]:
        """Add up, then write; the output is a single element."""
        spec = self.spec
        idf = None if self.idf is None else beam.pvalue.AsSingleton(self.idf)
        totals = (
            splits
            | "Totals" >> beam.Map(attrgetter("totals"))
            | "AddUp" >> beam.CombineGlobally(Totals.merge)
        )
        made = beam.pvalue.AsList(splits | "Made" >> beam.FlatMap(_made))
        groups = None
        if spec.has_groups:
            read = totals | "LookOver" >> beam.FlatMap(_for_groups, made, idf, spec=spec)
            groups = beam.pvalue.AsSingleton(read | "GroupRun" >> _ReadGroups(spec))
        return totals | "FinishRun" >> beam.Map(_finish, made, idf, groups, spec=spec)


def _made(split: TriedSplit) -> Iterator[PartRecord]:
    if split.record is not None:
        yield split.record


def _for_groups(
    _: Totals, made: Sequence[PartRecord], idf: IdfTables | None, *, spec: ScoreSpec
) -> Iterator[PartRecord]:
    if has_ended(spec):
        return
    small: dict[str, Any] = {"languages": {}, "dropped": {}, "summary": ScoreSummary()}
    for record in look_over(spec, idf, made).records():
        yield replace(record, **small)


def has_ended(spec: ScoreSpec) -> bool:
    """Tell whether a run has published already: Beam may repeat what has done all its work."""
    head = read_head(spec.folder)
    return head is not None and head.token == spec.run


def _finish(
    totals: Totals,
    made: Sequence[PartRecord],
    idf: IdfTables | None,
    groups: PartStatistics | None,
    *,
    spec: ScoreSpec,
) -> Totals:
    is_done = has_ended(spec) and is_success(spec.folder, read_head(spec.folder))
    if not is_done and not finish_run(spec, totals, made, idf, groups) and spec.detached:
        place = f"{FAILED_FOLDER}/{SUMMARY_FILE}" if spec.is_over_success else SUMMARY_FILE
        raise RuntimeError(
            f"the run is not a success: see {mask_credentials(spec.folder.path(place))}"
        )
    if spec.detached:
        delete_plans(spec)
        delete_tables(spec.folder)
        end_lease(spec.folder.root, job_of_worker())
    return totals


def delete_plans(spec: ScoreSpec) -> None:
    """Delete the plans, which only the workers need; they may contain credentials in paths."""
    spec.folder.delete(own_file(spec.run, PLAN), own_file(spec.run, PENDING))


@dataclass
class _ReadGroups(beam.PTransform):
    """The parts of a run -> the statistics of all together.

    They are read from the notes in the footers of the parts. So parts of earlier tries, parts that
    were kept and rows that were reused count like all others. Of parts without a note of these
    group columns the columns are read, a small share of a part: no scores are needed. The groups of
    several parts are held together, so that none are when there are too many.
    """

    spec: ScoreSpec

    def expand(self, parts: beam.PCollection[PartRecord]) -> beam.PCollection[PartStatistics]:
        spec = self.spec
        group = partial(group_part, folder=spec.folder, how=spec.grouped_by)
        step = Each(group, attrgetter("part_name"))
        return (
            parts
            | "SpreadParts" >> Spread()
            # PartStatistics: of one part, and then of all.
            | "GroupPart" >> beam.ParDo(RunStep(step))
            | "MergeGroups" >> beam.CombineGlobally(merge_statistics).with_fanout(16)
        )
