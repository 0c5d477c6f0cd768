"""Many splits in little memory."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import get_type_hints, overload

import pyarrow as pa

from bertscore_beam.dump.splits import Split

_AT_ONCE = 1024
"""Splits that are Python objects at a time."""
_POOL = pa.system_memory_pool()
"""For many small arrays the other pools take twice the memory."""


def _columns() -> pa.Schema:
    """Return a column for each field of a split, in order."""
    kinds = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), int | None: pa.int64()}
    return pa.schema(
        [
            pa.field(name, kinds[hint], nullable=hint == int | None)
            for name, hint in get_type_hints(Split).items()
        ]
    )


SPLIT_COLUMNS = _columns()
"""The columns of a table of splits."""
_VALUES = attrgetter(*SPLIT_COLUMNS.names)


class Splits(Sequence[Split]):
    """Splits in order, kept as a table: some hundred bytes each, a fifth of the objects.

    Each access makes new objects, so a loop over them is fast and a lookup by number is not.

    Attributes:
        table: The splits, with the columns of `SPLIT_COLUMNS`.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @classmethod
    def of(cls, splits: Iterable[Split]) -> "Splits":
        """Keep some splits, which may come one by one."""
        if isinstance(splits, Splits):
            return splits
        waiting = iter(splits)
        batches = []
        while some := list(islice(waiting, _AT_ONCE)):
            columns = zip(*map(_VALUES, some), strict=True)
            arrays = [
                pa.array(values, field.type, memory_pool=_POOL)
                for values, field in zip(columns, SPLIT_COLUMNS, strict=True)
            ]
            batches.append(pa.record_batch(arrays, schema=SPLIT_COLUMNS))
        return cls(pa.Table.from_batches(batches, SPLIT_COLUMNS))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Split]:
        for some in self.table.to_batches(max_chunksize=_AT_ONCE):
            known: dict[str, str] = {}  # equal texts become one object: many are equal
            columns = [
                [known.setdefault(text, text) for text in column.to_pylist()]
                if pa.types.is_string(column.type)
                else column.to_pylist()
                for column in some.columns
            ]
            for values in zip(*columns, strict=True):
                yield Split(**dict(zip(SPLIT_COLUMNS.names, values, strict=True)))

    @overload
    def __getitem__(self, place: int) -> Split: ...
    @overload
    def __getitem__(self, place: slice) -> "Splits": ...
    def __getitem__(self, place: int | slice) -> "Split | Splits":
        numbers = range(len(self))[place]
        if isinstance(numbers, int):
            (split,) = Splits(self.table.slice(numbers, 1))
            return split
        return self.at(numbers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(
                one == another for one, another in zip(self, other, strict=True)
            )
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def at(self, places: Sequence[int]) -> "Splits":
        """Return the splits at some places."""
        return Splits(self.table.take(pa.array(places, pa.int64())))

    def where(self, chosen: Sequence[bool]) -> "Splits":
        """Return the splits for which there is a True."""
        return self if all(chosen) else Splits(self.table.filter(pa.array(chosen, pa.bool_())))

    def with_files(self, paths: Sequence[str], data: Sequence[str]) -> "Splits":
        """Return the splits with other files, in the same order; see `Split`."""
        table = self.table
        for name, values in (("path", paths), ("data", data)):
            place = SPLIT_COLUMNS.get_field_index(name)
            column = pa.array(values, pa.string())
            table = table.set_column(place, SPLIT_COLUMNS.field(place), column)
        return Splits(table)
