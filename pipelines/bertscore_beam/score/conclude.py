"""The last steps of the pipeline of a run: groups and index, and its end.

totals of splits --> look over --> groups and index --> `finish_run`
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.records.groups import PartStatistics, group_part, merge_statistics
from bertscore_beam.records.index import PieceChunk, chunks_to_index, declare_index, index_chunk
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import delete_plans
from bertscore_beam.records.summary import Totals
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder, is_marked_by
from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunStep, Spread
from bertscore_beam.score.finish import finish_run, look_over
from bertscore_beam.score.spec import ScoreSpec
from bertscore_core.stats.score_statistics import ScoreSummary

_PIECES, _PARTS = "pieces", "parts"


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
        indexed = groups = None
        is_indexed = spec.is_remote and spec.index  # its workers build the index together
        if is_indexed or spec.has_groups:
            look = beam.FlatMap(_for_index_and_groups, idf, spec=spec)
            read = totals | "LookOver" >> look.with_outputs(_PIECES, _PARTS)
            if is_indexed:
                indexed = beam.pvalue.AsList(read[_PIECES] | "IndexRun" >> _BuildIndex(spec.folder))
            if spec.has_groups:
                groups = beam.pvalue.AsSingleton(read[_PARTS] | "GroupRun" >> _ReadGroups(spec))
        return totals | "WriteSummary" >> beam.Map(_finish, idf, indexed, groups, spec=spec)


def _for_index_and_groups(
    _: Totals, idf: IdfTables | None, *, spec: ScoreSpec
) -> Iterator[Any]:  # PieceChunk and PartRecord, tagged
    if _has_ended(spec):
        return
    run = look_over(spec, idf)
    if spec.is_remote and spec.index:
        for chunk in chunks_to_index(spec.folder, run.records()):
            yield TaggedOutput(_PIECES, chunk)
    if spec.has_groups:
        small: dict[str, Any] = {"languages": {}, "dropped": {}, "summary": ScoreSummary()}
        for record in run.records():
            yield TaggedOutput(_PARTS, replace(record, **small))


def _has_ended(spec: ScoreSpec) -> bool:
    """Tell whether a detached run is a success already.

    Beam may repeat a bundle that has done all its work. Then the plan may be deleted already.
    """
    return spec.detached and is_marked_by(spec.folder, spec.run)


def _finish(
    totals: Totals,
    idf: IdfTables | None,
    indexed: Sequence[None] | None,
    groups: PartStatistics | None,
    *,
    spec: ScoreSpec,
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


@dataclass
class _BuildIndex(beam.PTransform):
    """Names of parts whose rows come into one file -> None, when the index is written."""

    folder: OutputFolder

    def expand(self, chunks: beam.PCollection[PieceChunk]) -> beam.PCollection[None]:
        folder = self.folder
        write = Each(partial(index_chunk, folder), attrgetter("name"))
        return (
            chunks
            | "SpreadPieces" >> beam.Reshuffle()
            | "WriteIndex" >> beam.ParDo(RunStep(write))
            # Index of one file, some kilobytes, or None.
            | "FilesWritten" >> beam.combiners.ToList()
            | "DeclareIndex" >> beam.Map(partial(declare_index, folder))
        )
