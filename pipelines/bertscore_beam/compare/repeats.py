"""Which rows of a side repeat others, by their texts.

Rows of a group with equal references are a set. If the references are long, and all rows of the set
have one candidate, those with one source repeat each other, such as the greedy answers to a prompt
that is there ten times. A set with a second candidate has no repeats: there a system draws its
answers, or rows have equal references by chance.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.paths import has_column, is_list
from bertscore_beam.dump.texts import Rows, groups_of_texts, raw_texts
from bertscore_beam.files.buckets import Buckets
from bertscore_beam.records.finished import FinishedRun
from bertscore_core.tokens import BoolArray, IntArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Spreads bits over a key."""

LEAST_TOKENS = 10
"""Fewest tokens of a reference, on average if a row has several: eight and two special ones."""

_BUCKET_ROWS, _MOST_BITS = 2_000_000, 6
"""Rows of a bucket, and bits of their number: the buckets of rows are open at the same time."""

_TEXTS = np.dtype([("set", "<u8"), ("unit", "<u8"), ("candidate", "<u8"), ("place", "<i8")])
"""A row: hashes of its set, of this and the source, and of the candidate; and its number."""

Texts = npt.NDArray[np.void]
Keys = npt.NDArray[np.uint64]


class Repeated(NamedTuple):
    """The units that several rows are of, ascending, and their numbers, from 1. Shapes: (K,)."""

    units: Keys
    numbers: Keys

    def numbers_of(self, units: Keys) -> Keys:
        """Return the number of each row's unit; 0 for a row that repeats no other. Shape (N,)."""
        if not len(self.units):
            return np.zeros(len(units), dtype=np.uint64)
        places = np.minimum(np.searchsorted(self.units, units), len(self.units) - 1)
        return np.where(self.units[places] == units, self.numbers[places], np.uint64(0))


class Repeats:
    """Finds the rows that repeat others, of any number of sides.

    Hashes have 64 bits. Two of 10^8 references have the same with a probability of 3e-4, and rows
    of these are repeats only if their candidates are equal, too. The disk holds 32 bytes for each
    row with long references meanwhile.
    """

    def __init__(self, rows: int) -> None:
        """Begin with nothing, for about this many rows."""
        bits = max(0, math.ceil(math.log2(max(1, rows) / _BUCKET_ROWS)))
        self._buckets = Buckets(min(bits, _MOST_BITS), lambda texts: texts["set"])
        self._rows = 0

    def close(self) -> None:
        """Give up what was added and not found."""
        self._buckets.close()

    def add(
        self,
        run: FinishedRun,
        table: pa.Table,
        scored: BoolArray,
        sides: IntArray,
        groups: IntArray,
    ) -> Keys:
        """Add rows, and return the unit of each; 0 for a row that can repeat no other. Shape (N,).

        Args:
            run: Their run.
            table: Their columns, `text_columns` among them.
            scored: Which have a score. Shape (N,).
            sides: Their sides. Shape (N,).
            groups: Their groups. Shape (N,).
        """
        units = np.zeros(len(table), dtype=np.uint64)
        rows = Rows(table, run.notes.fields)
        is_there = has_column(table.schema, rows.fields.reference_column)
        if rows.fields.compares_samples or not is_there:
            return units
        tokens = pc.fill_null(table[columns.REFERENCE_TOKENS], 0).to_numpy()
        wanted = scored & (tokens >= LEAST_TOKENS)
        chosen = pa.array(wanted)
        counts, references = _hashes(rows.references.filter(chosen))
        texts = np.zeros(len(references), dtype=_TEXTS)
        texts["set"] = texts["unit"] = mixed(references, sides[wanted], groups[wanted])
        for source in rows.source_columns:
            texts["unit"] = mixed(texts["set"], _hashes(source.filter(chosen))[1])
        texts["candidate"] = _hashes(rows.candidates.filter(chosen))[1]
        texts["place"] = self._rows + np.flatnonzero(wanted)
        self._rows += len(table)
        is_long = tokens[wanted] >= LEAST_TOKENS * counts
        self._buckets.add(texts[is_long])
        units[wanted] = np.where(is_long, texts["unit"], np.uint64(0))
        return units

    def found(self) -> Repeated:
        """Return the units that several rows are of, numbered by their first rows."""
        units, places = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
        for texts in filter(len, map(_of_several, self._buckets.take(_TEXTS))):
            texts = texts[np.lexsort((texts["place"], texts["candidate"], texts["set"]))]
            begins = np.flatnonzero(np.diff(texts["set"], prepend=~texts["set"][:1]))
            ends = np.append(begins[1:], len(texts))
            is_one = texts["candidate"][begins] == texts["candidate"][ends - 1]
            texts = texts[np.repeat(is_one, ends - begins)]
            own, first, counts = np.unique(texts["unit"], return_index=True, return_counts=True)
            units.append(own[counts > 1])
            places.append(texts["place"][first[counts > 1]])
        every, first = np.concatenate(units), np.concatenate(places)
        numbers = np.empty(len(every), dtype=np.uint64)
        numbers[np.argsort(first)] = np.arange(1, len(every) + 1)
        order = np.argsort(every)
        return Repeated(every[order], numbers[order])


def _of_several(texts: Texts) -> Texts:
    """Return the rows of sets with several rows: of most dumps none, which saves much sorting."""
    sets = np.ascontiguousarray(texts["set"])
    order = np.argsort(sets)
    is_same = np.diff(sets[order]) == 0
    several: Texts = texts[order[np.append(False, is_same) | np.append(is_same, False)]]
    return several


def text_columns(run: FinishedRun) -> list[str]:
    """Return the columns of a run that its repeats are found by."""
    return [*run.notes.fields.shown, *run.notes.fields.sources]


def mixed(*parts: npt.NDArray[np.integer]) -> Keys:
    """Return keys that are equal where all parts are. Shapes: (N,)."""
    keys = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        keys = (keys ^ part.astype(np.uint64)) * GOLDEN
        keys ^= keys >> np.uint64(29)
    return keys


def _hashes(column: pa.ChunkedArray) -> tuple[IntArray, Keys]:
    """Return how many texts each row has, and a hash of them, the same of a text and a list of one.

    Python's collector would look at lists of texts again and again: single texts need none.
    """
    counts, rows = np.ones(len(column), dtype=np.int64), _single(column)
    if is_list(column.type):
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        rows = (tuple(row or ()) for row in groups_of_texts(column, raw_texts))
    return counts, np.fromiter(map(hash, rows), np.int64, len(column)).view(np.uint64)


def _single(column: pa.ChunkedArray) -> Iterator[tuple[bytes | None, ...]]:
    return ((text,) for chunk in column.chunks for text in raw_texts(chunk))
