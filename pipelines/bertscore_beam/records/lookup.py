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
    RowScores,
    SignedRows,
    read_row_scores,
    reasons_of,
)
from bertscore_beam.records.score_tables import ScoreTable, ScoreTables
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

    @classmethod
    def none(cls, rows: int) -> "FoundRows":
        """Return that nothing was found."""
        values = np.zeros(rows, dtype=VALUES)
        return cls(
            found=np.zeros(rows, dtype=np.bool_),
            values=values,
            reasons=np.full(rows, None, dtype=object),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WantedRows:
    """Rows that are looked up, by digests of the shape (N, 2), and what has been found of them."""

    digests: Digests
    signed: SignedRows
    result: FoundRows

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows that can be scored and are not found yet."""
        rows: npt.NDArray[np.int64] = np.flatnonzero(
            ~self.result.found & (self.signed.codes != NO_SETTING)
        )
        return rows

    def take(
        self, part: RowScores, rows: npt.NDArray[np.int64], of_part: npt.NDArray[np.int64]
    ) -> None:
        """Take those of the rows `of_part` of a part that are equal to the rows wanted."""
        codes = equal_settings(part.signed.signatures, self.signed.signatures)
        equal = (
            (part.digests[of_part] == self.digests[rows]).all(axis=1)
            & (codes[part.signed.codes[of_part]] == self.signed.codes[rows])
            & (self.signed.codes[rows] != NO_SETTING)
            & part.scored[of_part]
            & ~self.result.found[rows]
        )
        self.put(rows[equal], part.values[of_part[equal]], part.reasons)

    def put(
        self, rows: npt.NDArray[np.int64], values: npt.NDArray[np.void], reasons: Sequence[str]
    ) -> None:
        """Take the scores of rows."""
        for name in VALUES.names or ():
            self.result.values[name][rows] = values[name]
        self.result.reasons[rows] = reasons_of(values["reason"], reasons)
        self.result.found[rows] = True


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
        parts: list[tuple[int, RowScores]] = []
        problems: list[str] = []
        read = partial(self._read, positions[0])
        for start, part in zip(starts, in_parallel(read, starts, _READERS), strict=True):
            if isinstance(part, str):
                problems.append(part)
            elif part:
                parts.append((start, part))
        for start, part in parts:
            inner = positions - start
            inside = np.flatnonzero((inner >= 0) & (inner < len(part)))
            wanted.take(part, inside, inner[inside])
        for _, part in parts:
            rows = wanted.missing()
            if len(rows):
                order = np.argsort(part.digests[:, 0], kind="stable")
                places = np.searchsorted(part.digests[order, 0], wanted.digests[rows, 0])
                wanted.take(part, rows, order[np.minimum(places, len(part) - 1)])
        return problems

    def _read(self, position: int, start: int) -> RowScores | str | None:
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
        _take_from_table(wanted, rows, table)
        rows = rows[~wanted.result.found[rows]]
        if not len(rows):
            break
    return problems


def _take_from_table(wanted: WantedRows, rows: npt.NDArray[np.int64], table: ScoreTable) -> None:
    """Search a table for rows in the order of their digests, and take the scores it has."""
    codes = equal_settings(table.signatures, wanted.signed.signatures)
    highs = table.entries["high"]
    places = np.searchsorted(highs, wanted.digests[rows, 0], side="left")
    # More than once only where digests share their high half, or for several settings.
    while True:
        is_hit = places < len(highs)
        is_hit[is_hit] = highs[places[is_hit]] == wanted.digests[rows[is_hit], 0]
        rows, places = rows[is_hit], places[is_hit]
        if not len(rows):
            return
        entries = np.asarray(table.entries[places])
        equal = (entries["low"] == wanted.digests[rows, 1]) & (
            codes[entries["setting"]] == wanted.signed.codes[rows]
        )
        wanted.put(rows[equal], entries[equal], table.reasons)
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
    result = FoundRows.none(len(positions))
    wanted = WantedRows(digests=digests, signed=signed, result=result)
    failures = 0
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
    return replace(result, failures=failures)


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
