"""Reuse the part that an earlier run made of a split, once the split has been read."""

from dataclasses import dataclass

import pyarrow as pa

from pipelines.io.columns import OUTPUT_COLUMNS, append_scores
from pipelines.io.files import delete, join, write_atomically
from pipelines.io.parquet import UNREADABLE, read_part, write_part
from pipelines.lock import RunLock, check_held
from pipelines.manifest import PartRecord, read_record, record_path, write_record
from pipelines.rejects import rows_path
from pipelines.row_digests import RowDigests
from pipelines.splits import Split
from pipelines.standing import may_hold
from pipelines.totals import ReusedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierParts:
    """The parts that are in an output folder already.

    Attributes:
        output: Folder of the run.
        job_digest: Identity of the run's settings.
        lock: What must be held to delete and to write; None leaves that unchecked.
    """

    output: str
    job_digest: str
    lock: RunLock | None

    def record_of(self, split: Split) -> PartRecord | None:
        """Return the record of a split's part, None where there is none."""
        return read_record(self.output, split.part_name)

    def may_hold(self, record: PartRecord, split: Split, idf: str) -> bool:
        """Tell whether a part is valid if the rows of its split are the same.

        Args:
            record: Of the part.
            split: Where the rows are now.
            idf: Fingerprint of the idf table to weigh with, "" without one.
        """
        return may_hold(split, record, self.job_digest, idf)

    def reuse(
        self, record: PartRecord, split: Split, table: pa.Table, digests: RowDigests
    ) -> ReusedPart | None:
        """Keep a part whose rows are the same, write it again where only other columns changed.

        Args:
            record: Of the part, which `may_hold`.
            split: Where the rows are now.
            table: The rows.
            digests: Their digests.

        Returns:
            The part, with a record that names the present version of the file; None if it must be
            scored.
        """
        now = record.moved_to(split)
        if digests == record.digests:
            if now != record:
                self._check()
                write_record(self.output, now)
            return ReusedPart(record=now, rewritten=False)
        data = (
            self._with_scores(record, split, table) if digests.same_texts(record.digests) else None
        )
        if data is None:
            return None
        self._check()
        # A record never lies beside a part of other rows.
        delete(record_path(self.output, split.part_name))
        write_atomically(join(self.output, split.part_name), data)
        now = now.rewritten(digests, len(data))
        write_record(self.output, now)
        return ReusedPart(record=now, rewritten=True)

    def discard(self, split: Split) -> None:
        """Delete the part of a split that is to be made again, and what belongs to it."""
        self._check()
        for path in (
            join(self.output, split.part_name),
            rows_path(self.output, split.part_name),
            record_path(self.output, split.part_name),
        ):
            delete(path)

    def _with_scores(self, record: PartRecord, split: Split, table: pa.Table) -> bytes | None:
        """Return the part with the given rows and the scores that it has; None if it is damaged."""
        try:
            old = read_part(join(self.output, record.part_name), OUTPUT_COLUMNS)
        except UNREADABLE:
            return None
        if old.num_rows != table.num_rows:
            return None
        metadata = old.schema.metadata or {}
        notes = {
            key.decode(): value.decode()
            for key, value in metadata.items()
            if key.startswith(b"bertscore.")
        }
        scores = {name: old[name].combine_chunks() for name in old.column_names}
        return write_part(append_scores(table, scores, notes), utc_times=split.utc_times)

    def _check(self) -> None:
        check_held(self.lock)
