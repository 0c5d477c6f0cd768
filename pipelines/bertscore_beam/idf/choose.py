"""Find the keys of rows: of the whole corpus, one row of each key is counted."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import countable_references
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.owners import KeyedRows, Owned, keyed_rows

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToCount:
    """A split, and which of its rows are counted.

    Attributes:
        split: The split.
        owned: The rows; None for all.
        is_readable: Whether the rows could be chosen.
    """

    split: Split
    owned: Owned | None = None
    is_readable: bool = True


Found: TypeAlias = tuple[int, KeyedRows] | tuple[str, Owned | None]
"""A bucket of keys, and rows of it; or the name of a split's part, and the split's rows without a
key: None if the split could not be read."""


def find_keys(
    split: Split, *, reference_column: str, columns: IdfColumns, buckets: int
) -> Iterator[Found]:
    """Find the keys of a split's rows.

    Args:
        split: The split.
        reference_column: Column of references.
        columns: Columns that say how references are counted.
        buckets: Number of buckets of keys.
    """
    names = dict.fromkeys((reference_column, *columns.names))
    try:
        table = read_split(split, list(names))
    except UNREADABLE as error:
        logger.warning("not counted: %s", mask_credentials(str(error)))
        yield split.part_name, None
        return
    references = countable_references(column_of(table, reference_column))
    rows, alone = keyed_rows(split, table, columns, references)
    yield split.part_name, alone
    yield from rows.buckets(buckets)
