"""Look rows up in an earlier run, on a worker: at the same place first, then in its index.

Most rows of a night are where they were the night before, in the file of the same name. Then one
small file a split is read. Only for the others is the index needed (`records.index`).
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.digests import Digests
from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records.index import (
    Index,
    IndexFile,
    IndexPair,
    IndexReader,
    are_sound,
    read_index,
)
from bertscore_beam.records.row_scores import (
    NO_SETTING,
    ROWS_SUFFIX,
    VALUES,
    RowScores,
    SignedRows,
    reasons_of,
    rows_file,
    rows_from_bytes,
)
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import event
from bertscore_core.errors import InputError, SignatureError
from bertscore_core.signature import Signature, exact_fields, score_differences

logger = logging.getLogger(__name__)

_READERS = 8
"""Files that are fetched at the same time from an object store."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundRows:
    """Which of N rows have scores in the earlier run.

    Attributes:
        found: Shape (N,).
        values: Their scores, of the type `VALUES`; undefined where nothing was found. Shape (N,).
        reasons: Their reasons, None without one. Shape (N,).
        failures: Damaged pieces and index entries that were met, and look-ups that failed.
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
class _WantedRows:
    """Rows that are looked up, by digests of the shape (N, 2), and what has been found of them."""

    digests: Digests
    signed: SignedRows
    result: FoundRows

    def missing(self) -> npt.NDArray[np.int64]:
        rows: npt.NDArray[np.int64] = np.flatnonzero(
            ~self.result.found & (self.signed.codes != NO_SETTING)
        )
        return rows

    def take(
        self, piece: RowScores, rows: npt.NDArray[np.int64], of_piece: npt.NDArray[np.int64]
    ) -> None:
        """Take those of the rows `of_piece` of a piece that are equal to the rows wanted."""
        codes = equal_settings(piece.signed.signatures, self.signed.signatures)
        equal = (
            (piece.digests[of_piece] == self.digests[rows]).all(axis=1)
            & (codes[piece.signed.codes[of_piece]] == self.signed.codes[rows])
            & (self.signed.codes[rows] != NO_SETTING)
            & piece.scored[of_piece]
            & ~self.result.found[rows]
        )
        self.put(rows[equal], piece.values[of_piece[equal]], piece.reasons)

    def put(
        self, rows: npt.NDArray[np.int64], values: npt.NDArray[np.void], reasons: Sequence[str]
    ) -> None:
        for name in VALUES.names or ():
            self.result.values[name][rows] = values[name]
        self.result.reasons[rows] = reasons_of(values["reason"], reasons)
        self.result.found[rows] = True  # last: damaged scores raise an error before


class EarlierRun:
    """The scores of an earlier run. Threads may share it."""

    def __init__(self, root: str) -> None:
        """Keep the folder; it is read when rows are looked up."""
        self._folder = OutputFolder(root)
        self._lock = threading.Lock()
        self._piece_starts = lru_cache(maxsize=64)(self._list_pieces)

    def find(
        self,
        input_name: str,
        positions: npt.NDArray[np.int64],
        digests: Digests,
        signed: SignedRows,
    ) -> FoundRows:
        """Look up the raw scores of rows that were scored alike.

        Args:
            input_name: Name of the input file that the rows are from.
            positions: Position of each row in that file, ascending. Shape (N,).
            digests: Digests of their texts. Shape (N, 2).
            signed: How they are to be scored.
        """
        result = FoundRows.none(len(positions))
        wanted = _WantedRows(digests=digests, signed=signed, result=result)
        at_same_place = partial(self._find_at_same_place, input_name, positions)
        failures = 0
        for look_up in (at_same_place, self._find_in_index):
            problems: list[str] = []
            try:
                if len(wanted.missing()):
                    problems = look_up(wanted)
            except Exception as error:
                # The run is only read: it may be deleted, damaged in any way or out of reach. Its
                # rows are then scored again, which is right all the same.
                problems = [f"{type(error).__name__}: {error}"]
            if problems:
                failures += len(problems)
                reason = mask_credentials(problems[0])
                logger.warning(event("not_reused", run=self._folder.shown, reason=reason))
        return replace(result, failures=failures)

    def _find_at_same_place(
        self, input_name: str, positions: npt.NDArray[np.int64], wanted: "_WantedRows"
    ) -> list[str]:
        """Look into the pieces of the same file: at the same positions, then anywhere in them.

        Return what is wrong with each piece that is damaged.
        """
        starts = self._piece_starts(input_name)
        first = max(0, int(np.searchsorted(starts, positions[0], side="right")) - 1)
        stop = int(np.searchsorted(starts, positions[-1], side="right"))
        names = [rows_file(part_name(input_name, start)) for start in starts[first:stop].tolist()]
        contents = self._folder.read_each(names)
        pieces: list[tuple[int, RowScores]] = []
        problems: list[str] = []
        for start, name, data in zip(starts[first:stop].tolist(), names, contents, strict=True):
            try:
                pieces += [] if data is None else [(start, rows_from_bytes(data, name))]
            except InputError as error:
                problems.append(str(error))
        for start, piece in pieces:
            inner = positions - start
            inside = np.flatnonzero((inner >= 0) & (inner < len(piece)))
            wanted.take(piece, inside, inner[inside])
        for _, piece in pieces:
            rows = wanted.missing()
            if len(rows) and len(piece):
                order = np.argsort(piece.digests[:, 0], kind="stable")
                places = np.searchsorted(piece.digests[order, 0], wanted.digests[rows, 0])
                wanted.take(piece, rows, order[np.minimum(places, len(piece) - 1)])
        return problems

    def _list_pieces(self, input_name: str) -> npt.NDArray[np.int64]:
        """Return where the pieces of an input begin, ascending: it may be cut otherwise now."""
        folder, _, _ = rows_file(part_name(input_name, 0)).rpartition("/")
        names = self._folder.files(folder, suffix=ROWS_SUFFIX)
        stems = [name.removesuffix(ROWS_SUFFIX).removeprefix("part-") for name in names]
        return np.array(sorted(int(stem) for stem in stems if stem.isdecimal()), dtype=np.int64)

    def _find_in_index(self, wanted: "_WantedRows") -> list[str]:
        """Look into the files of the index, one after the other; the first that has a row counts.

        Return what is wrong with each file or entry that is damaged.
        """
        with self._lock:  # opened once for all threads
            reader = self._index
        if reader is None:
            return []
        index = reader.index
        codes = equal_settings(tuple(index.signatures), wanted.signed.signatures)
        files = [file for file in index.files if (codes[file.signatures] != NO_SETTING).any()]
        rows = wanted.missing()
        rows = rows[np.argsort(wanted.digests[rows, 0], kind="stable")]
        problems: list[str] = []
        opened = in_parallel(reader.open, files, _READERS, waiting=0)
        for file, held in zip(files, opened, strict=True):
            if held is None:
                _say_left_out(self._folder.shown)
            elif isinstance(held, str):
                problems.append(held)
            else:
                damaged = _take_from_file(wanted, rows, held, *_meaning(index, file, codes))
                problems += ["an entry of its index has a wrong checksum"] * damaged
                rows = rows[~wanted.result.found[rows]]
            if not len(rows):
                break
        return problems

    @cached_property
    def _index(self) -> IndexReader | None:
        index = read_index(self._folder)
        return None if index is None else IndexReader(self._folder, index)


def _meaning(
    index: Index, file: IndexFile, codes: npt.NDArray[np.uint16]
) -> tuple[npt.NDArray[np.uint16], list[str]]:
    """Return which of today's settings each code in a file of an index gives, and its reasons.

    `codes` are those of `equal_settings`. Any code of an entry is an index, also a damaged one.
    """
    of_file = np.full(NO_SETTING + 1, NO_SETTING, dtype=np.uint16)
    of_file[: len(file.signatures)] = codes[file.signatures]
    return of_file, [index.reasons[place] for place in file.reasons]


def _take_from_file(
    wanted: _WantedRows,
    rows: npt.NDArray[np.int64],
    held: IndexPair,
    codes: npt.NDArray[np.uint16],
    reasons: Sequence[str],
) -> int:
    """Search a file for rows in the order of their digests, and take the scores it has.

    Return how many entries are damaged. Codes and reasons are those of `_meaning`.
    """
    keys, all_entries = held
    damaged = 0
    places = np.searchsorted(keys, wanted.digests[rows, 0], side="left")
    # More than once only where digests share their high half, or for several settings.
    while True:
        is_hit = places < len(keys)
        is_hit[is_hit] = keys[places[is_hit]] == wanted.digests[rows[is_hit], 0]
        rows, places = rows[is_hit], places[is_hit]
        if not len(rows):
            return damaged
        entries = np.asarray(all_entries[places])
        equal = (entries["low"] == wanted.digests[rows, 1]) & (
            codes[entries["setting"]] == wanted.signed.codes[rows]
        )
        sound = are_sound(keys[places[equal]], entries[equal])
        damaged += int(np.count_nonzero(~sound))
        equal[equal] = sound
        wanted.put(rows[equal], entries[equal], reasons)
        rows, places = rows[~equal], places[~equal] + 1


@lru_cache(maxsize=4)  # once a process, not for every split
def _say_left_out(run: str) -> None:
    logger.warning(event("not_all_looked_up", run=run))


@lru_cache(maxsize=4)
def open_earlier(root: str, run: str) -> EarlierRun:
    """Return the earlier run of a folder, once a process.

    Args:
        root: Its folder.
        run: The run that it held when this job was planned.
    """
    return EarlierRun(root)


@lru_cache(maxsize=64)
def equal_settings(earlier: tuple[str, ...], now: tuple[str, ...]) -> npt.NDArray[np.uint16]:
    """Return which of today's settings gives the scores of each earlier one.

    Returns:
        Position in `now` by position in `earlier`; `NO_SETTING` without one. Any code of a piece
        is an index.
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
