"""Look rows up in earlier parts, on a worker: in those of the same input first, then in tables.

Most rows of a night are where they were the night before, in the file of the same name. Then a part
or two of a split are read. Only for the other rows are tables needed (`records.score_tables`).
"""

import logging
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.digests import Digests
from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import Stored
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records.row_scores import (
    NO_SETTING,
    VALUES,
    ScoreTable,
    SignedRows,
    distinct,
    read_row_scores,
    reasons_of,
)
from bertscore_beam.records.score_tables import ScoreTables
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import event
from bertscore_core.errors import InputError, SignatureError
from bertscore_core.signature import Signature, exact_fields, score_differences

logger = logging.getLogger(__name__)

_READERS = 4
"""Parts that are read at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundRows:
    """Which of N rows have scores in earlier parts.

    Attributes:
        found: Shape (N,).
        values: Their scores, of the type `VALUES`; undefined where nothing was found. Shape (N,).
        reasons: Their reasons, None without one. Shape (N,).
        failures: Damaged parts that were met, and tables that could not be searched.
    """

    found: npt.NDArray[np.bool_]
    values: npt.NDArray[np.void]
    reasons: npt.NDArray[np.object_]
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WantedRows(FoundRows):
    """Rows that are looked up, by digests of the shape (N, 2), and what has been found of them."""

    digests: Digests
    signed: SignedRows

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows that can be scored and are not found yet."""
        rows: npt.NDArray[np.int64] = np.flatnonzero(
            ~self.found & (self.signed.codes != NO_SETTING)
        )
        return rows

    def take(
        self, rows: npt.NDArray[np.int64], table: ScoreTable, places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Take the scores at places of a table, where they are those of the rows wanted: which?"""
        entries = np.asarray(table.entries[places])
        codes = equal_settings(table.signatures, self.signed.signatures)
        equal: npt.NDArray[np.bool_] = (
            (table.highs[places] == self.digests[rows, 0])
            & (entries["low"] == self.digests[rows, 1])
            & (codes[entries["setting"]] == self.signed.codes[rows])
            & (self.signed.codes[rows] != NO_SETTING)
            & ~np.isnan(entries["raw_precision"])
            & ~self.found[rows]
        )
        rows, entries = rows[equal], entries[equal]
        for name in VALUES.names or ():
            self.values[name][rows] = entries[name]
        self.reasons[rows] = reasons_of(entries["reason"], table.reasons)
        self.found[rows] = True
        return equal


class PartsOfInput:
    """The parts that an output folder has of one input. Threads may share it."""

    def __init__(
        self, folder: OutputFolder, input_name: str, files: Iterable[tuple[str, Stored]]
    ) -> None:
        """Read nothing yet. `files`: what lies below the folder of the input."""
        self._folder, self._input = folder, input_name
        starts = {
            int(number): stored
            for name, stored in files
            if (number := name.removesuffix(".parquet").removeprefix("part-")).isdecimal()
        }
        self._starts = np.array(sorted(starts), dtype=np.int64)
        self._stored = starts

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, root: str, run: str, input_name: str) -> "PartsOfInput":
        """List the parts of an input in the folder of an earlier run, once a process."""
        folder = OutputFolder(root)
        return cls(folder, input_name, folder.each_stored(input_name))

    def look_up(self, positions: npt.NDArray[np.int64], wanted: WantedRows) -> list[str]:
        """Look rows up at their positions in the input, ascending, then anywhere in these parts.

        Return what is wrong with each part that is damaged.
        """
        first = max(0, int(np.searchsorted(self._starts, positions[0], side="right")) - 1)
        stop = int(np.searchsorted(self._starts, positions[-1], side="right"))
        starts = self._starts[first:stop].tolist()
        parts: list[tuple[int, ScoreTable]] = []
        problems: list[str] = []
        read = partial(self._read, positions[0])
        for start, part in zip(starts, in_parallel(read, starts, _READERS), strict=True):
            if isinstance(part, str):
                problems.append(part)
            elif part is not None:
                parts.append((start, part))
        for start, part in parts:
            inner = positions - start
            inside = np.flatnonzero((inner >= 0) & (inner < len(part.entries)))
            wanted.take(inside, part, inner[inside])
        for _, part in parts:
            rows = wanted.missing()
            if len(rows):
                highs, entries = distinct(part.highs, part.entries)
                _search(wanted, rows, replace(part, highs=highs, entries=entries))
        return problems

    def _read(self, position: int, start: int) -> ScoreTable | str | None:
        """Read a part that begins somewhere, unless it ends before a position."""
        path = self._folder.path(part_name(self._input, start))
        try:
            return read_row_scores(path, self._stored[start], least=position - start + 1)
        except InputError as error:
            return str(error)


def look_up_in_tables(
    tables: ScoreTables, name: str, _: npt.NDArray[np.int64], wanted: WantedRows
) -> list[str]:
    """Look rows up in tables, one after the other; the first that has a row counts.

    Return what is wrong with each that cannot be used. `name` decides which is made first.
    """
    rows = wanted.missing()
    rows = rows[np.argsort(wanted.digests[rows, 0], kind="stable")]
    problems: list[str] = []
    for table in tables.each(zlib.crc32(name.encode())):
        if isinstance(table, str):
            problems.append(table)
            continue
        _search(wanted, rows, table)
        rows = rows[~wanted.found[rows]]
        if not len(rows):
            break
    return problems


def _search(wanted: WantedRows, rows: npt.NDArray[np.int64], table: ScoreTable) -> None:
    """Search a table of distinct entries for rows, and take the scores it has."""
    highs = table.highs
    places = np.searchsorted(highs, wanted.digests[rows, 0], side="left")
    # More than once only where digests share their high half, or for several settings.
    while True:
        is_hit = places < len(highs)
        is_hit[is_hit] = highs[places[is_hit]] == wanted.digests[rows[is_hit], 0]
        rows, places = rows[is_hit], places[is_hit]
        if not len(rows):
            return
        equal = wanted.take(rows, table, places)
        rows, places = rows[~equal], places[~equal] + 1


LookUp: TypeAlias = Callable[[npt.NDArray[np.int64], WantedRows], list[str]]
"""Looks rows up, by their positions in the input; returns what has gone wrong."""


def find_rows(
    places: Sequence[LookUp], positions: npt.NDArray[np.int64], digests: Digests, signed: SignedRows
) -> FoundRows:
    """Look up the raw scores of rows in one place after the other.

    Args:
        places: Where to look.
        positions: Position of each row in its input, ascending. Shape (N,).
        digests: Digests of their texts. Shape (N, 2).
        signed: How they are to be scored.
    """
    rows, failures = len(positions), 0
    wanted = WantedRows(
        digests=digests,
        signed=signed,
        found=np.zeros(rows, dtype=np.bool_),
        values=np.zeros(rows, dtype=VALUES),
        reasons=np.full(rows, None, dtype=object),
    )
    for look_up in places:
        problems: list[str] = []
        try:
            if len(wanted.missing()):
                problems = look_up(positions, wanted)
        except Exception as error:
            # Earlier parts are only read: they may be deleted, damaged in any way or out of reach.
            # Their rows are then scored again, which is right all the same.
            problems = [f"{type(error).__name__}: {error}"]
        if problems:
            failures += len(problems)
            logger.warning(event("not_reused", reason=mask_credentials(problems[0])))
    return replace(wanted, failures=failures)


@lru_cache(maxsize=64)
def equal_settings(earlier: tuple[str, ...], now: tuple[str, ...]) -> npt.NDArray[np.uint16]:
    """Return which of today's settings gives the scores of each earlier one.

    Returns:
        Position in `now` by position in `earlier`; `NO_SETTING` without one. Any code of a row is
        an index.
    """
    codes = np.full(max(NO_SETTING + 1, len(earlier)), NO_SETTING, dtype=np.uint16)
    # There may be thousands of each, one for every idf table: few of them can be equal.
    candidates: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for code, text in enumerate(now):
        candidates[exact_fields(Signature.parse(text))].append(code)
    for number, text in enumerate(earlier):
        with suppress(SignatureError):
            signature = Signature.parse(text)
            for code in candidates.get(exact_fields(signature), ()):
                if not score_differences(signature, Signature.parse(now[code])):
                    codes[number] = code
    return codes
