"""The parts of a run at its end: those that are there and valid, and the splits without one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.saved_plan import plan_from_bytes
from bertscore_beam.dump.split_table import Splits
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.run.folder import PLAN_FILE
from bertscore_beam.runs.index import IndexedParts
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.record_packs import num_packs
from bertscore_beam.score.records import FolderRecords, files_of_run, find_records, read_sizes
from bertscore_beam.score.resume import Ending, by_bin, ending_of
from bertscore_beam.score.spec import ScoreSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of a run.

    Attributes:
        plan: The plan of the run.
        found: All records of the folder.
        ending: What the plan and the folder lead to.
    """

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
    """Look at the folder of a run whose splits have all been tried.

    Args:
        spec: The run.
        idf: The tables that the tokens were weighted with.
    """
    folder = spec.folder
    plan = plan_from_bytes(folder.read(PLAN_FILE), folder.root)
    found = find_records(folder, spec.record_generation, num_packs(len(plan.splits)))
    sizes = read_sizes(folder, files_of_run(folder), plan, found.records)
    fingerprint = "" if idf is None else idf.fingerprint
    ending = ending_of(plan, found.records, sizes, spec.digest, fingerprint, spec.settings.labels)
    return RunParts(plan=plan, found=found, ending=ending)


def indexed_parts(records: Iterable[PartRecord]) -> IndexedParts:
    """Return what `runs.index` needs of records."""
    return IndexedParts.of((one.part_name, one.texts_digest, one.num_rows) for one in records)
