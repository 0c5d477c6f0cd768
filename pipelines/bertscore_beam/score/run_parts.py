"""The parts of a run at its end: those that are there and valid, and the splits without one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.saved_plan import plan_from_bytes
from bertscore_beam.dump.split_table import Splits
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.run.folder import PLAN_FILE
from bertscore_beam.score.part_record import PartRecord
from bertscore_beam.score.records import FolderRecords, read_parts
from bertscore_beam.score.resume import missing_splits
from bertscore_beam.score.spec import ScoreSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of a run.

    Attributes:
        plan: The plan of the run.
        missing: The splits without a valid part.
        sizes: The size of every part in the folder, by part name.
        found: All records of the folder.
    """

    plan: Plan
    missing: Splits
    sizes: Mapping[str, int]
    found: FolderRecords

    def records(self) -> Iterator[PartRecord]:
        """Yield the records of its valid parts, in the order of the plan."""
        gone = {split.part_name for split in self.missing}
        for split in self.plan.splits:
            if split.part_name not in gone:
                yield self.found.records[split.part_name]

    @property
    def untouched_rows(self) -> int:
        """Number of rows of earlier parts that remain since their splits could not be scored."""
        names = {split.part_name for split in self.missing} & self.sizes.keys()
        return sum(self.found.records[one].num_rows for one in names & self.found.records.keys())


def parts_of_run(spec: ScoreSpec, idf: IdfTables | None) -> RunParts:
    """Look at the folder of a run whose splits have all been tried.

    Args:
        spec: The run.
        idf: The tables that the tokens were weighted with.
    """
    folder = spec.folder
    plan = plan_from_bytes(folder.read(PLAN_FILE), folder.root)
    found, sizes = read_parts(folder, plan, folder.files(), spec.record_generation)
    records = found.records
    fingerprint = "" if idf is None else idf.fingerprint
    missing = missing_splits(plan, records, sizes, spec.digest, fingerprint, spec.settings.labels)
    return RunParts(
        plan=plan,
        missing=missing,
        sizes=sizes,
        found=found,
    )


def indexed_parts(records: Iterable[PartRecord]) -> tuple[list[tuple[str, str]], int]:
    """Return what `runs.index` needs of records: part names with digests, and the rows in all."""
    parts, rows = [], 0
    for record in records:
        parts.append((record.part_name, record.texts_digest))
        rows += record.num_rows
    return parts, rows
