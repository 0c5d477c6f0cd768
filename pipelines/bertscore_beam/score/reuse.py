"""Reuse the part that an earlier run made of a split, after the split has been read."""

import pyarrow as pa

from bertscore_beam.dump.columns import OUTPUT_COLUMNS, append_scores
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.parts import read_part, write_part
from bertscore_beam.dump.row_digests import RowDigests
from bertscore_beam.dump.splits import Split
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.score.part_record import PartRecord, record_path
from bertscore_beam.score.summary import ReusedPart


def reuse_part(
    folder: OutputFolder, record: PartRecord, split: Split, table: pa.Table, digests: RowDigests
) -> ReusedPart | None:
    """Keep a part if its rows are the same; write it again if only other columns have changed.

    Args:
        folder: Output folder of the run.
        record: Record of the part, which is valid if its rows are the same.
        split: The split now.
        table: Its rows.
        digests: Their digests.

    Returns:
        The part, with a record of the present version of the file; None if it must be scored.
    """
    now = record.moved_to(split)
    if digests == record.digests:
        if now != record:
            folder.write(record_path(now.part_name), now.to_json())
        return ReusedPart(record=now, rewritten=False)
    same_texts = digests.same_texts(record.digests)
    data = _with_scores_of(folder, record, split, table) if same_texts else None
    if data is None:
        return None
    now = now.rewritten(digests, len(data))
    # Delete the record first and write it last, so that it is never beside a part of other rows.
    folder.delete(record_path(split.part_name))
    folder.write_all({split.part_name: data, record_path(split.part_name): now.to_json()})
    return ReusedPart(record=now, rewritten=True)


def _with_scores_of(
    folder: OutputFolder, record: PartRecord, split: Split, table: pa.Table
) -> bytes | None:
    """Return rows with the scores of their part as a new part; None if the part is damaged."""
    try:
        old = read_part(folder.path(record.part_name), OUTPUT_COLUMNS)
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
