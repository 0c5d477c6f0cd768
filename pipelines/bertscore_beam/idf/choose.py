"""Find the keys of rows: of the whole corpus, one row of each key is counted."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import SplitReader
from bertscore_beam.dump.runs import SplitRun
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import countable_references
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.owners import KeyedRows, Owned, keyed_rows

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToCount:
    """A run of splits, and which of its rows are counted.

    Attributes:
        run: The run.
        owned: The rows of each split, by the name of its part, and None for a split that could not
            be read; all rows count if it is None itself.
    """

    run: SplitRun
    owned: Mapping[str, Owned | None] | None = None

    def is_readable(self, split: Split) -> bool:
        """Tell whether the rows of a split could be chosen."""
        return self.owned is None or self.owned[split.part_name] is not None

    def owned_by(self, split: Split) -> Owned | None:
        """Return the rows of a split that count; None for all."""
        return None if self.owned is None else self.owned[split.part_name]


OfPart: TypeAlias = tuple[str, Owned | None]
"""The name of a split's part, and some of its rows; None if the split could not be read."""

Found: TypeAlias = tuple[int, KeyedRows] | tuple[str, OfPart]
"""A bucket of keys, and rows of it; or the name of a run, and rows of a split without a key."""


def find_keys(
    run: SplitRun, *, reference_column: str, columns: IdfColumns, buckets: int
) -> Iterator[list[Found]]:
    """Find the keys of the rows of splits; yield what is found of each split.

    Args:
        run: The splits.
        reference_column: Column of references.
        columns: Columns that say how references are counted.
        buckets: Number of buckets of keys.
    """
    names = list(dict.fromkeys((reference_column, *columns.names)))
    reader = SplitReader(run.splits, names)
    for split in run.splits:
        try:
            table = reader.read(split).table
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            yield [(run.name, (split.part_name, None))]
            continue
        references = countable_references(column_of(table, reference_column))
        rows, alone = keyed_rows(split, run.name, table, columns, references)
        yield [(run.name, (split.part_name, alone)), *rows.buckets(buckets)]
