"""Count the languages and the groups of a dump before any model runs, and check both.

    splits --pieces of files, a few at a time--> SplitReader, chosen columns only --> Census

Of a file only these columns are read, from its start to its end; a split is in memory at a time.

Languages are counted in all rows, since each has a setting of its own, which is checked before any
model runs and is a part of the run's identity. By a sample, rows of a rare language would have no
scores, or a run would be refused for languages that few rows have. The number of groups changes
nothing but a table at the end. So a few splits are enough to notice a column of ids; a dump that
has more groups than it had the night before is scored all the same.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.columns import ReferenceFile, check_choosing_columns, missing_column_error
from bertscore_beam.dump.keys import Keys, combined, keys_of, shown_key
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.paths import column_of, has_column
from bertscore_beam.dump.read_rows import SplitReader, SplitRows
from bertscore_beam.dump.reference_file import load
from bertscore_beam.dump.splits import Split, row_group_of
from bertscore_beam.dump.texts import languages_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import in_parallel
from bertscore_core.errors import InputError
from bertscore_core.tokens import IntArray

# The groups of rows: which rows belong together by the values of some columns.
#
# A group is the values of these columns as texts: equal numbers are equal texts, whatever their
# type. A null, a NaN and a text that is not UTF-8 are one value, None. So is every row of a table
# that does not have the column.

Group: TypeAlias = tuple[str | None, ...]
"""The values of the group columns, as texts; None for no value."""

WHOLE: Group = ()
"""Stands for all rows."""

MOST_GROUPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupsOfRows:
    """The groups of N rows.

    Attributes:
        groups: The groups that have rows.
        codes: Position of each row's group in `groups`. Shape (N,).
    """

    groups: tuple[Group, ...]
    codes: IntArray


def groups_of(table: pa.Table, by: Sequence[str]) -> GroupsOfRows:
    """Return the group of every row.

    Args:
        table: The rows.
        by: Names or dotted paths of the group columns. Of one that the table does not have, all
            values are None.

    Raises:
        InputError: A column holds values that cannot be groups.
    """
    there = [name for name in by if has_column(table.schema, name)]
    check_choosing_columns(table.schema, dict.fromkeys(there, "--by"))
    nothing = Keys(words=[None], codes=np.zeros(table.num_rows, dtype=np.int64))
    found = {name: keys_of(column_of(table, name)).readable for name in there}
    groups, codes = combined([found.get(name, nothing) for name in by], table.num_rows)
    return GroupsOfRows(groups=tuple(groups), codes=codes)


def check_number(groups: Collection[Group], by: Sequence[str]) -> None:
    """Check that there are not too many groups of the columns `by`.

    Raises:
        InputError: There are more than `MOST_GROUPS`.
    """
    if len(groups) <= MOST_GROUPS:
        return
    values = [len({group[place] for group in groups}) for place in range(len(by))]
    worst = max(range(len(by)), key=values.__getitem__)
    each = ", ".join(f"{name!r} {n:,}" for name, n in zip(by, values, strict=True))
    raise InputError(
        f"too many groups: got more than {MOST_GROUPS:,}; expected at most that. The column "
        f"{by[worst]!r} has the most values (values seen so far: {each}). Leave it out of --by."
    )


MOST_LANGUAGES = 1000
"""More distinct codes than this are not those of languages: the registry has about 100."""

_FILES_AT_ONCE = 8
"""Each takes the memory of a split."""
_PIECE_SPLITS = 200
"""So many splits are read in one go, so that an error or Ctrl-C does not wait for a long file."""
_LOOKED_AT = 20
"""Files whose first split is looked at for groups."""


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """The group columns of a dump, looked up in the schema of every file.

    Attributes:
        by: Names or dotted paths of the group columns.
        found: Those that some file has.
        fields: All columns of all files, for a message.
    """

    by: Sequence[str]
    found: set[str] = field(default_factory=set)
    fields: dict[str, pa.Field] = field(default_factory=dict)

    def look(self, schema: pa.Schema, input_name: str) -> None:
        """Look into a file's schema.

        Raises:
            InputError: A column of it cannot make groups.
        """
        if not self.by:
            return
        there = [name for name in self.by if has_column(schema, name)]
        try:
            check_choosing_columns(schema, dict.fromkeys(there, "--by"))
        except InputError as error:
            raise InputError(f"{input_name}: {error}") from error
        self.found.update(there)
        for one in schema:
            self.fields.setdefault(one.name, one)

    def check(self) -> None:
        """Check that some file has each column.

        Raises:
            InputError: None has it.
        """
        for name in self.by:
            if name not in self.found:
                raise missing_column_error(pa.schema(self.fields.values()), name, "group", "--by")


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What the columns of languages and groups hold, counted before any model runs.

    Attributes:
        languages: Rows of each language; empty without a column of languages.
        num_groups: Number of groups in the first splits; 0 without group columns.
        unread: Splits that were left out, since they could not be read.
    """

    languages: Mapping[str, int] = field(default_factory=dict)
    num_groups: int = 0
    unread: int = 0


def first_splits(splits: Iterable[Split]) -> list[Split]:
    """Return the first split of the first files."""
    files = itertools.groupby(splits, attrgetter("path"))
    return [next(of_file) for _, of_file in itertools.islice(files, _LOOKED_AT)]


def take_census(splits: Sequence[Split], language: str | None, by: Sequence[str]) -> Census:
    """Count the rows of each language, and the groups.

    Splits that cannot be read are left out: their rows are not scored either, or have a language
    without a setting, if they can be read later.

    Args:
        splits: The splits of a plan, in its order.
        language: Name or dotted path of the column of language codes; None for no languages.
        by: Names or dotted paths of the group columns; none for no groups.

    Raises:
        InputError: There are too many languages or groups, or a column cannot make groups.
    """
    if language is None and not by:
        return Census()
    total = _Count()
    count = partial(_count_piece, language=language, by=by)
    for piece in in_parallel(count, _pieces(splits), _FILES_AT_ONCE):
        total.add(piece, language, by)
    return Census(
        languages=dict(total.languages), num_groups=len(total.groups), unread=total.unread
    )


def check_references(splits: Sequence[Split], references: ReferenceFile) -> str:
    """Check that every row of the input has references; return what is to be said of the file.

    Splits that cannot be read, and lines that are not rows, are left out: they are not scored.

    Raises:
        InputError: Rows have none.
    """
    rows, missing, example, used = 0, 0, "", set[str]()
    known = load(references).rows
    look = partial(_keys_of_piece, key=references.key)
    for keys in in_parallel(look, _pieces(splits), _FILES_AT_ONCE):
        rows += len(keys)
        used.update(filter(None, keys))
        absent = [key for key in keys if key not in known]
        missing += len(absent)
        example = example or next(filter(None, absent), "")
    shown = mask_credentials(references.path)
    if missing:
        such = f", such as {shown_key(example)}" if example else ", all of them null"
        raise InputError(
            f"rows have no references: got {missing:,} of {rows:,} with a {references.key!r} that "
            f"{shown!r} does not have{such}; expected each of them there. Add them, or leave these "
            "rows out of the input."
        )
    unused = len(known) - len(used)
    return f"No row of the input has {unused:,} of the keys in {shown!r}." if unused else ""


def _keys_of_piece(piece: Sequence[Split], key: str) -> list[str | None]:
    keys: list[str | None] = []
    for _, read in _rows_of(piece, [key]):
        if read is not None:
            bad = set() if read.lines is None else read.lines.bad.keys()
            words = enumerate(keys_of(column_of(read.table, key)).of_rows)
            keys += [word for row, word in words if row not in bad]
    return keys


def _rows_of(
    piece: Sequence[Split], columns: Sequence[str]
) -> Iterator[tuple[Split, SplitRows | None]]:
    """Yield the splits of a piece with some columns of their rows; None if they cannot be read."""
    with closing(SplitReader(piece, columns)) as reader:
        for split in piece:
            rows = None
            with suppress(*UNREADABLE):
                rows = reader.read(split)
            yield split, rows


@dataclass(slots=True)
class _Count:
    languages: Counter[str] = field(default_factory=Counter)
    groups: set[Group] = field(default_factory=set)
    unread: int = 0

    def add(self, other: "_Count", language: str | None, by: Sequence[str]) -> None:
        self.languages += other.languages
        self.groups |= other.groups
        self.unread += other.unread
        if len(self.languages) > MOST_LANGUAGES:
            raise InputError(
                f"the language column {language!r} holds no languages: got more than "
                f"{MOST_LANGUAGES:,} distinct values; expected codes such as en or zh. Name "
                "the right one with --language-column."
            )
        check_number(self.groups, by)


def _pieces(splits: Iterable[Split]) -> Iterator[list[Split]]:
    """Cut splits into pieces, each of one file, which begin and end with a row group."""
    piece: list[Split] = []
    for _, row_group in itertools.groupby(splits, row_group_of):
        more = list(row_group)
        if piece and (len(piece) >= _PIECE_SPLITS or piece[0].path != more[0].path):
            yield piece
            piece = []
        piece += more
    if piece:
        yield piece


def _count_piece(piece: Sequence[Split], language: str | None, by: Sequence[str]) -> _Count:
    total = _Count()
    columns = [*by] if language is None else [language, *by]
    for split, rows in _rows_of(piece, columns):
        if rows is None:
            total.unread += 1
            continue
        count = _Count()
        if language is not None:
            count.languages.update(languages_of(column_of(rows.table, language)))
        try:
            count.groups.update(groups_of(rows.table, by).groups if by else ())
        except InputError as error:
            raise InputError(f"{split.input_name}: {error}") from error
        total.add(count, language, by)
    return total
