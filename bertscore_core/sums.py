"""Sums of any kind, which merge: by field of a dataclass, and by key."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt


class Sums:
    """A dataclass with slots. Its fields are added up by name, so that none can be forgotten.

    A number is added, in the order given; each number of a tuple by itself; what has names, for
    each name; anything else by its own `merge`. What is not known of one set (None) is not known of
    all. Without any set, the fields have their defaults.
    """

    __slots__: tuple[str, ...] = ()

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Return the sums over several sets of rows together."""
        parts = list(parts)
        names = cls.__slots__ if parts else ()  # the names of a dataclass's fields, at no cost
        return cls(**{name: _added([getattr(part, name) for part in parts]) for name in names})

    def __add__(self, other: Self) -> Self:
        return self.merge((self, other))


def _added(parts: Sequence[Any]) -> Any:
    if None in parts:
        return None
    first = parts[0]
    if isinstance(first, int | float):
        return reduce(add, parts)
    if isinstance(first, tuple):
        return tuple(map(_added, zip(*parts, strict=True)))
    if isinstance(first, Mapping):
        names = sorted({name for part in parts for name in part})
        return {name: _added([part[name] for part in parts if name in part]) for name in names}
    return type(first).merge(parts)


_Name = TypeVar("_Name")
_Sums = TypeVar("_Sums", bound=Sums)

_MERGED_AT_ONCE = 16


class SumsByName(dict[_Name, list[_Sums]]):
    """Sums that grow, by name: what is added to one is kept, and merged several at a time."""

    def add(self, name: _Name, more: _Sums) -> None:
        """Add to the sums of a name."""
        parts = self.setdefault(name, [])
        parts.append(more)
        if len(parts) >= _MERGED_AT_ONCE:
            parts[:] = [more.merge(parts)]

    def parts(self, names: Iterable[_Name]) -> list[_Sums]:
        """Return what there is of some names, to be merged."""
        return [part for name in names for part in self.get(name, ())]

    def merged(self) -> dict[_Name, _Sums]:
        """Return the sums of each name."""
        return {name: parts[0].merge(parts) for name, parts in self.items()}


def summed_by_key(
    keys: npt.NDArray[Any], *columns: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], ...]:
    """Return the K different keys of N rows, ascending, and columns (N, ...) summed, (K, ...)."""
    order = np.argsort(keys, kind="stable")
    names, starts = np.unique(keys[order], return_index=True)
    if len(names):  # `reduceat` adds up runs, such as those of equal keys; it refuses none
        columns = tuple(np.add.reduceat(column[order], starts) for column in columns)
    return names, *columns
