"""Choose the rows that are counted: one for each key of the whole corpus."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints import no_annotations

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import countable_references
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.owners import Owned, choose_owners, keyed_rows

logger = logging.getLogger(__name__)

_FAILED = "failed"
_ALONE = "alone"


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


@dataclass
class ChooseRows(beam.PTransform):
    """Splits -> ToCount, with one row for each key of the whole corpus.

    Attributes:
        reference_column: Column of references.
        columns: Columns that say how references are counted.
        buckets: Number of buckets of keys.
    """

    reference_column: str
    columns: IdfColumns
    buckets: int

    @no_annotations  # Beam has no type hint for several outputs
    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[ToCount]:
        """Compare the keys of each bucket, and give every split its rows back."""
        find = beam.ParDo(_FindKeys(self)).with_outputs(_ALONE, _FAILED, main="keys")
        found = splits | "FindKeys" >> find
        owned = (
            # KeyedRows: 28 bytes a row.
            found.keys
            | "ByBucket" >> beam.GroupByKey()
            | "ChooseOwners" >> beam.FlatMapTuple(lambda _, rows: choose_owners(rows))
        )
        parts = {
            "split": splits | "ByPart" >> beam.Map(lambda split: (split.part_name, split)),
            "owned": (owned, found[_ALONE]) | "AllOwned" >> beam.Flatten(),
            "failed": found[_FAILED],
        }
        return parts | "JoinParts" >> beam.CoGroupByKey() | "ToCount" >> beam.FlatMap(_to_count)


def _to_count(joined: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[ToCount]:
    _, parts = joined
    owned = Owned.merge(parts["owned"])
    is_readable = not list(parts["failed"])
    for split in parts["split"]:
        yield ToCount(split, owned, is_readable)


class _FindKeys(beam.DoFn):
    def __init__(self, choice: ChooseRows) -> None:
        self._reference_column = choice.reference_column
        self._columns = choice.columns
        self._buckets = choice.buckets

    def process(self, split: Split) -> Iterator[Any]:
        names = dict.fromkeys((self._reference_column, *self._columns.names))
        try:
            table = read_split(split, list(names))
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            yield TaggedOutput(_FAILED, (split.part_name, True))
            return
        references = countable_references(column_of(table, self._reference_column))
        rows, alone = keyed_rows(split, table, self._columns, references)
        yield TaggedOutput(_ALONE, (split.part_name, alone))
        yield from rows.buckets(self._buckets)
