"""The groups of a run, in its pipeline: read from its parts when all of them are written.

    totals --> the parts --> Reshuffle --> statistics of parts --> of groups --> rows

They are read from the parts, and not taken from the rows while these are scored. So parts of
earlier tries, parts that were kept and rows that were reused count like all others, and other group
columns need no scores. The columns that are read are a small share of a part.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam
from apache_beam.typehints import no_annotations

from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.run.run_step import RunStep, Spread
from bertscore_beam.run.step import Each
from bertscore_beam.score.group_table import GroupRow, group_row
from bertscore_beam.score.groups import GroupedPart, add_merging
from bertscore_beam.score.run_parts import parts_of_run
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.steps import group_part
from bertscore_beam.score.summary import RunTotals
from bertscore_core.score_statistics import ScoreStatistics


@dataclass
class GroupRun(beam.PTransform):
    """The totals of a run -> a row for each group, and one for all rows together.

    Attributes:
        spec: The run.
        idf: Side input with the idf tables, or None.
        packs: Side input that is there when the records are packed, or None.
    """

    spec: ScoreSpec
    idf: Any = None
    packs: Any = None

    @no_annotations  # Beam has no type hint for the side input
    def expand(self, totals: beam.PCollection[RunTotals]) -> beam.PCollection[GroupRow]:
        """Read the parts in parallel; only statistics cross a stage boundary, 100 bytes a group."""
        spec = self.spec
        group = partial(group_part, folder=spec.folder, by=spec.group_by)
        step = Each(group, attrgetter("part_name"))
        return (
            totals
            # GroupedPart: the parts, known when every split has been tried.
            | "PartsOfRun" >> beam.FlatMap(_parts, self.idf, self.packs, spec=self.spec)
            | "SpreadParts" >> Spread()
            # (group as JSON, statistics): of one part.
            | "GroupPart" >> beam.ParDo(RunStep(step))
            | "MergeGroups" >> beam.CombinePerKey(MergeStatistics())
            # GroupRow: of the whole run, with its intervals.
            | "RowOfGroup" >> beam.MapTuple(_row)
        )


def _parts(
    _: RunTotals, idf: IdfTables | None, packs: Sequence[str] | None, *, spec: ScoreSpec
) -> Iterable[GroupedPart]:
    return map(GroupedPart.of, parts_of_run(spec, idf).records())


class MergeStatistics(beam.CombineFn):
    """Merges the statistics of one group; as bytes, except in its accumulators."""

    def create_accumulator(self) -> list[ScoreStatistics]:
        """Begin with no rows."""
        return []

    def add_input(
        self, mutable_accumulator: list[ScoreStatistics], element: bytes
    ) -> list[ScoreStatistics]:
        """Add the statistics of a part."""
        add_merging(mutable_accumulator, ScoreStatistics.from_bytes(element))
        return mutable_accumulator

    def merge_accumulators(
        self, accumulators: Iterable[list[ScoreStatistics]]
    ) -> list[ScoreStatistics]:
        """Merge what several workers have added up."""
        merged: list[ScoreStatistics] = []
        for some in accumulators:
            for one in some:
                add_merging(merged, one)
        return merged

    def compact(self, accumulator: list[ScoreStatistics]) -> list[ScoreStatistics]:
        """Make an accumulator small before it leaves its worker."""
        return [ScoreStatistics.merge(accumulator)]

    def extract_output(self, accumulator: list[ScoreStatistics]) -> bytes:
        """Return the statistics of all parts."""
        return ScoreStatistics.merge(accumulator).to_bytes()


def _row(key: str, data: bytes) -> GroupRow:
    group = json.loads(key)
    found = ScoreStatistics.from_bytes(data)
    return group_row(None if group is None else tuple(group), found)
