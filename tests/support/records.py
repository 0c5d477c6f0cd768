"""Damage to the parts of a folder, parts that are not listed, and the records of parts."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import find_parts
from bertscore_beam.run.folder import MANIFEST_FOLDER, OutputFolder
from bertscore_beam.run.publication import read_head


def forget(output: Path) -> None:
    """Delete the manifest of a folder: the parts are left, each with the record in its footer."""
    for shard in (output / MANIFEST_FOLDER).glob("parts-*"):
        shard.unlink()


def flip_column(part: Path, name: str) -> None:
    """Flip a bit of the values of a column of a part."""
    group = pq.read_metadata(part).row_group(0)
    chunks = map(group.column, range(group.num_columns))
    (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == name)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(part.read_bytes())
    data[start + chunk.total_compressed_size - 1] ^= 1  # not of the header of a page
    part.write_bytes(data)


def records_in(output: Path) -> Mapping[str, PartRecord]:
    """Return the records of the parts that are published in a folder, by part name."""
    folder = OutputFolder(str(output))
    return find_parts(folder, read_head(folder)).records
