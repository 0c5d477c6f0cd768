"""Sums over disjoint sets of rows, which can be merged."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Self


class Sums:
    """A dataclass with slots. Its fields are added up by name, so that none can be forgotten.

    A number is added, in the order given; each number of a tuple by itself; counts by name, for
    each name; anything else by its own `merge`. What is not known of one set (None) is not known of
    all. Without any set, the fields have their defaults. Where fields belong together, such as keys
    and the sums of each, a class has its own `merge`, and `+` follows it.
    """

    __slots__: tuple[str, ...] = ()

    @classmethod
    def merge(cls, every: Sequence[Self]) -> Self:
        """Return the sums over several sets of rows together."""
        names = cls.__slots__ if every else ()  # the names of a dataclass's fields, at no cost
        return cls(**{name: _added([getattr(one, name) for one in every]) for name in names})

    def __add__(self, other: Self) -> Self:
        """Return the sums over both sets of rows."""
        return self.merge((self, other))


def _added(every: Sequence[Any]) -> Any:
    if None in every:
        return None
    first = every[0]
    if isinstance(first, int | float):
        return reduce(add, every)
    if isinstance(first, tuple):
        return tuple(map(_added, zip(*every, strict=True)))
    if isinstance(first, Mapping):
        names = sorted({name for one in every for name in one})
        return {name: sum(one.get(name, 0) for one in every) for name in names}
    return type(first).merge(every)
