"""The scored rows of runs as entries of one width: by what they are paired, and what is compared.

A key is a digest of 128 bits of the values of its columns. Two different keys among 10^8 are equal
with probability 1.5e-23.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import column_of
from bertscore_beam.dump.groups import MOST_GROUPS, check_number, groups_of
from bertscore_beam.dump.text_digests import digest_texts
from bertscore_beam.dump.texts import values_as_text
from bertscore_beam.results.comparison import Group
from bertscore_beam.score.finished import FinishedRun, PartRows, read_columns
from bertscore_core.errors import ConfigError

ENTRY = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("cluster", "<u8"),
        # Digest of the references, or their number of tokens; 0 if it is not known.
        ("reference", "<u8"),
        ("row", "<i8"),
        ("score", "<f4"),
        # Before rescaling.
        ("raw", "<f4"),
        ("file", "<u4"),
        ("group", "<u4"),
        ("side", "<u2"),
    ]
)
"""A row of a side: 58 bytes."""

# Two digests of 64 bits with different keys make one of 128. The values are arbitrary.
_HASH_KEYS = ("bertscore-keys-1", "bertscore-keys-2")
_CLUSTER_KEY = "bertscore-groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """The columns that a comparison needs.

    Attributes:
        measure: A key of `columns.SCORES`.
        key: Columns that pair rows; empty if file and position do.
        by: Columns of groups.
        cluster: Column of clusters.
        system: Column of systems.
    """

    measure: str
    key: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    cluster: str | None = None
    system: str | None = None

    @property
    def options(self) -> dict[str, str]:
        """The option that names each column."""
        single = {self.cluster: "--cluster", self.system: "--system-column"}
        return {
            **dict.fromkeys(self.by, "--by"),
            **dict.fromkeys(self.key, "--key"),
            **{name: option for name, option in single.items() if name is not None},
        }


@dataclass(slots=True)
class Numbers:
    """Numbers of values in order of appearance, the same for all sides of a comparison.

    Attributes:
        files: Names of input files.
        groups: Values of the columns of groups.
        systems: Names of systems.
    """

    files: dict[str, int] = field(default_factory=dict)
    groups: dict[Group, int] = field(default_factory=dict)
    systems: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class LeftOut:
    """Rows that cannot be paired.

    Attributes:
        without_key: Rows with a null or NaN in a column of the key.
        without_system: Rows with a null as their system.
    """

    without_key: int = 0
    without_system: int = 0


def read_entries(
    run: FinishedRun,
    wanted: RowColumns,
    numbers: Numbers,
    left_out: LeftOut,
    *,
    side: int = 0,
    references: str | None = None,
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the rows of a run as entries, part by part.

    Args:
        run: The run.
        wanted: The columns.
        numbers: Numbers of files, groups and systems so far; new ones are added.
        left_out: Counts of rows that cannot be paired; they are added up.
        side: The side that the rows belong to, unless they have a column of systems.
        references: Column of references to digest; None to take their number of tokens.

    Raises:
        InputError: A part is damaged, or there are too many groups.
        ConfigError: There are too many systems.
    """
    score, raw = columns.SCORES[wanted.measure], columns.RAW_SCORES[wanted.measure]
    names = [score, raw, columns.REFERENCE_TOKENS, *wanted.options]
    if references is not None:
        names.append(references)
    for part in read_columns(run, names):
        entries = np.zeros(len(part.table), dtype=ENTRY)
        entries["side"] = side
        _put_scores(entries, part.table, score, raw)
        _put_places(entries, part, numbers)
        _put_references(entries, part.table, references)
        _put_groups(entries, part.table, wanted.by, numbers)
        if wanted.cluster is not None:
            _put_clusters(entries, column_of(part.table, wanted.cluster))
        kept = np.ones(len(entries), dtype=np.bool_)
        if wanted.key:
            kept &= _put_keys(entries, [column_of(part.table, name) for name in wanted.key])
            left_out.without_key += int(np.count_nonzero(~kept))
        if wanted.system is not None:
            named = _put_systems(entries, part.table, wanted.system, kept, numbers)
            left_out.without_system += int(np.count_nonzero(kept & ~named))
            kept &= named
        yield entries[kept]


def _put_scores(entries: npt.NDArray[np.void], table: pa.Table, score: str, raw: str) -> None:
    for kind, name in (("score", score), ("raw", raw if raw in table.column_names else score)):
        entries[kind] = pc.fill_null(table[name], float("nan")).to_numpy()


def _put_places(entries: npt.NDArray[np.void], part: PartRows, numbers: Numbers) -> None:
    """Enter file and row, which are also the key of rows that have no other."""
    name = part.input_name
    entries["file"] = numbers.files.setdefault(name, len(numbers.files))
    entries["row"] = np.arange(part.first_row, part.first_row + len(entries))
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    entries["high"] = int.from_bytes(digest[:8], "little")
    entries["low"] = entries["row"]


def _put_references(entries: npt.NDArray[np.void], table: pa.Table, references: str | None) -> None:
    if references is None:
        tokens = pc.fill_null(table[columns.REFERENCE_TOKENS], 0).to_numpy()
        entries["reference"] = tokens.astype(np.uint64)
        return
    column = column_of(table, references)
    nothing = pa.chunked_array([pa.nulls(len(table), pa.string())])
    entries["reference"] = digest_texts(nothing, column)[:, 0] | np.uint64(1)  # never 0


def _put_groups(
    entries: npt.NDArray[np.void], table: pa.Table, by: Sequence[str], numbers: Numbers
) -> None:
    """Enter the number of each row's group.

    Raises:
        InputError: There are too many.
    """
    if not by:
        numbers.groups.setdefault((), 0)
        return
    found = groups_of(table, by)
    codes = [numbers.groups.setdefault(group, len(numbers.groups)) for group in found.groups]
    check_number(numbers.groups, by, "--by")
    entries["group"] = np.array(codes, dtype=np.uint32)[found.codes]


def _put_clusters(entries: npt.NDArray[np.void], column: pa.ChunkedArray) -> None:
    """Enter what identifies each row's cluster; a row without a value is a cluster by itself."""
    values, valid = _as_bytes(column)
    found = pd.util.hash_array(values, hash_key=_CLUSTER_KEY, categorize=False)
    alone = entries["high"] + entries["low"] * np.uint64(0x9E3779B97F4A7C15)
    entries["cluster"] = np.where(valid, found, alone)


def _put_keys(
    entries: npt.NDArray[np.void], key: Sequence[pa.ChunkedArray]
) -> npt.NDArray[np.bool_]:
    """Enter the digest of each row's key; return which rows have one."""
    values, valid = zip(*map(_as_bytes, key), strict=True)
    frame = pd.DataFrame(dict(enumerate(values)))
    for half, hash_key in zip(("high", "low"), _HASH_KEYS, strict=True):
        entries[half] = pd.util.hash_pandas_object(
            frame, index=False, hash_key=hash_key, categorize=False
        ).to_numpy()
    return np.asarray(np.logical_and.reduce(valid), dtype=np.bool_)


def _put_systems(
    entries: npt.NDArray[np.void],
    table: pa.Table,
    name: str,
    kept: npt.NDArray[np.bool_],
    numbers: Numbers,
) -> npt.NDArray[np.bool_]:
    """Enter the number of each row's system as its side; return which rows have one.

    Systems are numbered that have a row to keep.

    Raises:
        ConfigError: There are too many.
    """
    found = groups_of(table, [name])
    systems = [system for (system,) in found.groups]
    sides = np.zeros(len(systems), dtype=np.int64)
    for code in np.unique(found.codes[kept]).tolist():
        if (system := systems[code]) is not None:
            sides[code] = numbers.systems.setdefault(system, len(numbers.systems))
    if len(numbers.systems) > MOST_GROUPS:
        raise ConfigError(
            f"the column of systems has too many values: got more than {MOST_GROUPS:,}; expected "
            "names of systems. Name another column with --system-column."
        )
    entries["side"] = sides[found.codes]
    return np.array([system is not None for system in systems], dtype=np.bool_)[found.codes]


def _as_bytes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.bool_]]:
    """Return the values of a column as bytes, equal for equal values, and which are not null.

    Equal numbers are equal, whatever their type, as in `values_as_text`.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_floating(kind):
        texts: Any = pa.chunked_array([pa.array(values_as_text(column), pa.large_string())])
    elif pa.types.is_null(kind):
        texts = pa.chunked_array([pa.nulls(len(column), pa.large_string())])
    else:
        texts = pc.cast(column, pa.large_string())
    raw = pc.cast(texts, pa.large_binary())
    values = raw.to_numpy()
    return values, ~raw.is_null().to_numpy()
