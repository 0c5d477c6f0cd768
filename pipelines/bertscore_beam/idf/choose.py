"""Choose the rows that are counted: one for each key of the whole corpus."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import apache_beam as beam

from bertscore_beam.dump.columns import IdfColumns, column_of
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import countable_references
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.owners import KeyedRows, Owned, choose_owners, keyed_rows
from bertscore_beam.run.step import Each, RunStep

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

    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[ToCount]:
        """Compare the keys of each bucket, and give every split its rows back."""
        found = splits | "FindKeys" >> beam.ParDo(RunStep(Each(partial(_find_keys, self))))
        owned = (
            found
            # KeyedRows: 28 bytes a row.
            | "OfBuckets" >> beam.Filter(_is_of_bucket)
            | "ByBucket" >> beam.GroupByKey()
            | "ChooseOwners" >> beam.FlatMapTuple(lambda _, rows: choose_owners(rows))
        )
        of_splits = found | "OfSplits" >> beam.Filter(lambda one: not _is_of_bucket(one))
        parts = {
            "split": splits | "ByPart" >> beam.Map(lambda split: (split.part_name, split)),
            "owned": (owned, of_splits) | "AllOwned" >> beam.Flatten(),
        }
        return parts | "JoinParts" >> beam.CoGroupByKey() | "ToCount" >> beam.FlatMap(_to_count)


Found: TypeAlias = tuple[int, KeyedRows] | tuple[str, Owned | None]
"""A bucket of keys, and rows of it; or the name of a split's part, and the split's rows without a
key: None if the split could not be read."""


def _is_of_bucket(found: Found) -> bool:
    return isinstance(found[1], KeyedRows)


def _to_count(joined: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[ToCount]:
    _, parts = joined
    found = list(parts["owned"])
    owned = Owned.merge([one for one in found if one is not None])
    for split in parts["split"]:
        yield ToCount(split, owned, is_readable=None not in found)


def _find_keys(choice: ChooseRows, split: Split) -> Iterator[Found]:
    names = dict.fromkeys((choice.reference_column, *choice.columns.names))
    try:
        table = read_split(split, list(names))
    except UNREADABLE as error:
        logger.warning("not counted: %s", mask_credentials(str(error)))
        yield split.part_name, None
        return
    references = countable_references(column_of(table, choice.reference_column))
    rows, alone = keyed_rows(split, table, choice.columns, references)
    yield split.part_name, alone
    yield from rows.buckets(choice.buckets)
