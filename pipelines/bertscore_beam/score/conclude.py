"""The last steps of the pipeline of a run: groups, and its end.

totals of splits --> look over --> groups --> `finish_run`
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.records.groups import PartStatistics, group_part, merge_statistics
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import delete_plans
from bertscore_beam.records.score_tables import delete_tables
from bertscore_beam.records.summary import Totals
from bertscore_beam.run.folder import SUMMARY_FILE, is_marked_by
from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunStep, Spread
from bertscore_beam.score.finish import finish_run, look_over
from bertscore_beam.score.spec import ScoreSpec
from bertscore_core.stats.score_statistics import ScoreSummary


@dataclass
class ConcludeRun(beam.PTransform):
    """Totals of splits -> summary, written with the success marker.

    If the run is detached, no launcher turns the summary into an exit status. So the job fails here
    if the run is not a success, and otherwise cleans up the folder. `idf` is a singleton, or None.
    """

    spec: ScoreSpec
    idf: beam.PCollection[IdfTables] | None = None

    def expand(self, splits: beam.PCollection[Totals]) -> beam.PCollection[Totals]:
        """Add up, then write; the output is a single element."""
        spec = self.spec
        idf = None if self.idf is None else beam.pvalue.AsSingleton(self.idf)
        totals = splits | "AddUp" >> beam.CombineGlobally(Totals.merge)
        groups = None
        if spec.has_groups:
            parts = totals | "LookOver" >> beam.FlatMap(_parts_to_group, idf, spec=spec)
            groups = beam.pvalue.AsSingleton(parts | "GroupRun" >> _ReadGroups(spec))
        return totals | "WriteSummary" >> beam.Map(_finish, idf, groups, spec=spec)


def _parts_to_group(_: Totals, idf: IdfTables | None, *, spec: ScoreSpec) -> Iterator[PartRecord]:
    if _has_ended(spec):
        return
    small: dict[str, Any] = {"languages": {}, "dropped": {}, "summary": ScoreSummary()}
    for record in look_over(spec, idf).records():
        yield replace(record, **small)


def _has_ended(spec: ScoreSpec) -> bool:
    """Tell whether a detached run is a success already.

    Beam may repeat a bundle that has done all its work. Then the plan may be deleted already.
    """
    return spec.detached and is_marked_by(spec.folder, spec.run)


def _finish(
    totals: Totals, idf: IdfTables | None, groups: PartStatistics | None, *, spec: ScoreSpec
) -> Totals:
    if not spec.detached:
        finish_run(spec, totals, idf, groups)
        return totals
    if not _has_ended(spec) and not finish_run(spec, totals, idf, groups):
        raise RuntimeError(
            f"the run is not a success: see {mask_credentials(spec.folder.path(SUMMARY_FILE))}"
        )
    if spec.folder.holds_lock():
        delete_plans(spec.folder)
        delete_tables(spec.folder)
        spec.folder.release()
    return totals


@dataclass
class _ReadGroups(beam.PTransform):
    """The parts of a run -> the statistics of all together.

    They are read from the parts, and not taken from the rows while these are scored. So parts of
    earlier tries, parts that were kept and rows that were reused count like all others, and other
    group columns need no scores. The columns that are read are a small share of a part. The groups
    of several parts are held together, so that none are when there are too many.
    """

    spec: ScoreSpec

    def expand(self, parts: beam.PCollection[PartRecord]) -> beam.PCollection[PartStatistics]:
        spec = self.spec
        group = partial(
            group_part,
            folder=spec.folder,
            by=spec.group_by,
            language=spec.fields.language,
            metrics=spec.metric_names,
        )
        step = Each(group, attrgetter("part_name"))
        return (
            parts
            | "SpreadParts" >> Spread()
            # PartStatistics: of one part, and then of all.
            | "GroupPart" >> beam.ParDo(RunStep(step))
            | "MergeGroups" >> beam.CombineGlobally(merge_statistics).with_fanout(16)
        )
