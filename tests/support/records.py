"""Damage to the parts of a folder, and parts that are not listed, as a killed run leaves them."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from bertscore_beam.records.records import SHARDS_FOLDER


def forget(output: Path) -> None:
    """Delete the manifest of a folder: the parts are left, each with the record in its footer."""
    shutil.rmtree(output / SHARDS_FOLDER)


def flip_column(part: Path, name: str) -> None:
    """Flip a bit of the values of a column of a part."""
    group = pq.read_metadata(part).row_group(0)
    chunks = map(group.column, range(group.num_columns))
    (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == name)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(part.read_bytes())
    data[start + chunk.total_compressed_size - 1] ^= 1  # not of the header of a page
    part.write_bytes(data)
