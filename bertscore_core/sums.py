"""Sums of any kind, which merge: by field of a dataclass, by key, and of numbers of any size."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt


class Sums:
    """A dataclass with slots. Its fields are added up by name, so that none can be forgotten.

    A number is added, in the order given; each number of a tuple by itself; what has names, for
    each name; anything else by its own `merge`. Without any set, the fields have their defaults.
    """

    __slots__: tuple[str, ...] = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Return the sums over several sets of rows together."""
        parts = list(parts)
        names: Iterable[str] = cls.__dataclass_fields__ if parts else ()
        return cls(**{name: _added([getattr(part, name) for part in parts]) for name in names})

    def __add__(self, other: Self) -> Self:
        return self.merge((self, other))


def _added(parts: Sequence[Any]) -> Any:
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


# Sums of doubles without rounding. A double is a whole number of steps of a power of two, and so is
# a sum of doubles: an integer. Doubles are added up in bands of near exponents, each in three
# pieces of 32 bits, whose sums numpy's doubles hold without rounding.

_BAND = 32
# Numbers below 2**32 that doubles add up without rounding.
_EXACT_ROWS = 2**20
_PIECES = (0, 32, 64)
_MANTISSA = 53
_MOST_PLACES = 1139
"""Of the band of the smallest double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactSums:
    """K sums of finite numbers of any size, without rounding. Merged with `merge`, in any order.

    Equal sums are equal: they have no more places than one of them needs.

    Attributes:
        steps: The sums, in steps of 2**-places.
        places: Binary places, from 0 on.
    """

    steps: tuple[int, ...]
    places: int = 0

    def __post_init__(self) -> None:
        """Check the number of places: a damaged one may be larger than memory."""
        if not 0 <= self.places <= _MOST_PLACES:
            raise ValueError(f"sums in steps of 2**-{self.places}")

    @classmethod
    def of(cls, steps: Iterable[int], places: int) -> Self:
        """Return sums in steps of 2**-places, with as few places as they need."""
        steps = tuple(steps)
        lowest = 0
        for own in steps:
            lowest |= own  # its lowest bit is that of the steps together
        spare = min(places, (lowest & -lowest).bit_length() - 1) if lowest else places
        return cls(steps=tuple(own >> spare for own in steps), places=places - spare)

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """Return the sums over several sets of numbers together; at least one."""
        places = max(part.places for part in parts)
        by_sum = zip(*(part.steps for part in parts), strict=True)
        shifts = [places - part.places for part in parts]
        return cls.of(
            (sum(own << by for own, by in zip(steps, shifts, strict=True)) for steps in by_sum),
            places,
        )

    def over(self, number: int) -> list[float]:
        """Return the sums divided by a number, such as that of the rows, each rounded once."""
        return [own / (number << self.places) for own in self.steps]


def exact_sums(
    values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], number: int
) -> list[ExactSums]:
    """Add up the rows of each group without rounding.

    Args:
        values: Finite numbers, which may be as small or large as a double can be. Shape (N, K).
        groups: Number of the group of each row, from 0. Shape (N,).
        number: Groups; some may have no rows.
    """
    # A number below 2**exponent is a multiple of 2**(exponent - 53). Those of scores, from 2**-31
    # up to 2, are of one band.
    bands = (np.frexp(values)[1] - 2) // _BAND
    lowest = int(bands.min(initial=0))
    highest = int(bands.max(initial=lowest))
    totals = [[0] * values.shape[1] for _ in range(number)]
    for band in range(lowest, highest + 1):
        for column, numbers in enumerate(values.T):
            own, of_band = groups, bands[:, column] == band
            if not of_band.all():
                numbers, own = numbers[of_band], own[of_band]
            for first in range(0, len(own), _EXACT_ROWS):
                chosen = slice(first, first + _EXACT_ROWS)
                steps = np.ldexp(numbers[chosen], _places_of(band))
                shift = (band - lowest) * _BAND
                for group, total in _whole_sums(steps, own[chosen], number):
                    totals[group][column] += total << shift
    return [ExactSums.of(own, _places_of(lowest)) for own in totals]


def _places_of(band: int) -> int:
    return _MANTISSA - 2 - _BAND * band


def _whole_sums(
    steps: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], number: int
) -> Iterator[tuple[int, int]]:
    """Yield sums of whole numbers below 2**96 by group, in pieces."""
    for shift in _PIECES:
        above = np.floor(steps * 2.0**-_BAND)
        piece = steps - above * 2.0**_BAND if shift < _PIECES[-1] else steps
        if piece.any():
            sums = np.bincount(groups, weights=piece, minlength=number)
            for group in np.flatnonzero(sums).tolist():
                yield group, int(sums[group]) << shift
        steps = above


LEAST_EXPONENT = -1074
"""Exponent of numbers that are all 0: there is no smaller double than 2**-1074."""


def below_one(numbers: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], int]:
    """Return numbers divided by 2**exponent, and the exponent.

    The largest in size is then from .5 to 1. Infinity is not among the numbers, and NaN stays.
    """
    doubles = np.asarray(numbers, dtype=np.float64)
    largest = float(np.fmax.reduce(np.abs(doubles), axis=None, initial=0.0))
    exponent = math.frexp(largest)[1] if largest else LEAST_EXPONENT
    return np.ldexp(doubles, -exponent), exponent
