"""The parts of a finished pipeline, and the statistics of their groups.

    totals --> the parts --> Reshuffle --> statistics of parts --> of groups --> rows

They are read from the parts, and not taken from the rows while these are scored. So parts of
earlier tries, parts that were kept and rows that were reused count like all others, and other group
columns need no scores. The columns that are read are a small share of a part.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam
from apache_beam.typehints import no_annotations

from bertscore_beam.dump import Plan, Splits, plan_from_bytes
from bertscore_beam.idf import IdfTables
from bertscore_beam.records import (
    Ending,
    FolderRecords,
    GroupedPart,
    GroupRow,
    IndexedParts,
    PartRecord,
    RunTotals,
    add_merging,
    by_bin,
    ending_of,
    files_of_run,
    find_records,
    group_row,
    num_packs,
    read_sizes,
)
from bertscore_beam.run import PLAN_FILE, Each, RunStep, Spread
from bertscore_beam.score.plan_settings import ScoreSpec
from bertscore_beam.score.steps import group_part
from bertscore_core.stats import ScoreStatistics

# The parts of a run at its end: those that are there and valid, and the splits without one.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of a run."""

    plan: Plan
    found: FolderRecords
    ending: Ending

    @property
    def missing(self) -> Splits:
        """The splits without a valid part."""
        return Splits.of(self.plan.splits).where(self.ending.is_missing)

    def records(self) -> Iterator[PartRecord]:
        """Yield the records of its valid parts: in the order of the plan, bin by bin."""
        for places, some, found in by_bin(Splits.of(self.plan.splits), self.found.records):
            for place, split in zip(places, some, strict=True):
                if not self.ending.is_missing[place]:
                    yield found[split.part_name]


def parts_of_run(spec: ScoreSpec, idf: IdfTables | None) -> RunParts:
    """Look at the folder of a run whose splits have all been tried."""
    folder = spec.folder
    plan = plan_from_bytes(folder.read(PLAN_FILE), folder.root)
    found = find_records(folder, spec.record_generation, num_packs(len(plan.splits)))
    sizes = read_sizes(folder, files_of_run(folder), plan, found.records)
    fingerprint = "" if idf is None else idf.fingerprint
    ending = ending_of(plan, found.records, sizes, spec.digest, fingerprint, spec.settings.labels)
    return RunParts(plan=plan, found=found, ending=ending)


def indexed_parts(records: Iterable[PartRecord]) -> IndexedParts:
    """Return what `records.index` needs of records."""
    return IndexedParts.of(
        (record.part_name, record.texts_digest, record.num_rows) for record in records
    )


@dataclass
class GroupRun(beam.PTransform):
    """The totals of a run -> a row for each group, and one for all rows together.

    `idf` is a side input with the idf tables, or None; `packs` is there when records are packed.
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
        for accumulator in accumulators:
            for statistics in accumulator:
                add_merging(merged, statistics)
        return merged

    def compact(self, accumulator: list[ScoreStatistics]) -> list[ScoreStatistics]:
        """Make an accumulator small before it leaves its worker."""
        return [ScoreStatistics.merge(accumulator)]

    def extract_output(self, accumulator: list[ScoreStatistics]) -> bytes:
        """Return the statistics of all parts."""
        return ScoreStatistics.merge(accumulator).to_bytes()


def _row(key: str, data: bytes) -> GroupRow:
    group = json.loads(key)
    statistics = ScoreStatistics.from_bytes(data)
    return group_row(None if group is None else tuple(group), statistics)
