"""Check the groups of a dump before any model runs: are there too many, and do columns exist?"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from bertscore_beam.dump.columns import has_column, no_column
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_split import read_split
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.paths import IO_THREADS
from bertscore_beam.score.groups import Group, check_number, groups_of
from bertscore_core.errors import InputError

OPTION = "--group-by"

_LOOKED_AT = 20
"""Splits whose columns are named in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The groups of a split, and which group columns its file has."""

    groups: tuple[Group, ...] = ()
    there: frozenset[str] = frozenset()


def count_groups(splits: Sequence[Split], by: Sequence[str]) -> int:
    """Return the number of groups in a dump, reading only the group columns.

    Splits are read in parallel; text files, which have no columns on disk, as a whole. Splits that
    cannot be read are left out: their rows are not scored either.

    Args:
        splits: What to read.
        by: Names or dotted paths of the group columns; none for no groups.

    Raises:
        InputError: There are too many, a column cannot make groups, or no file has it.
    """
    if not by:
        return 0
    groups: set[Group] = set()
    there: set[str] = set()
    with ThreadPoolExecutor(IO_THREADS) as pool:
        try:
            for found in pool.map(lambda split: _groups(split, by), splits):
                groups.update(found.groups)
                there |= found.there
                check_number(groups, by, OPTION)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    for name in by:
        if name not in there and groups:
            raise no_column(_columns_of(splits), name, "group", OPTION)
    return len(groups)


def _columns_of(splits: Sequence[Split]) -> pa.Schema:
    """Return the columns of some splits, for a message."""
    fields: dict[str, pa.Field] = {}
    for split in splits[:_LOOKED_AT]:
        with suppress(*UNREADABLE):
            for field in read_split(split).schema:
                fields.setdefault(field.name, field)
    return pa.schema(fields.values())


def _groups(split: Split, by: Sequence[str]) -> _Found:
    try:
        table = read_split(split, by)
    except UNREADABLE:
        return _Found()
    try:
        groups = groups_of(table, by).groups
    except InputError as error:
        raise InputError(f"{split.input_name}: {error}") from error
    names = [name for name in by if has_column(table.schema, name)]
    return _Found(groups=groups, there=frozenset(names))
