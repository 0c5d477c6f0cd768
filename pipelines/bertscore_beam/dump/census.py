"""Count the languages and the groups of a dump before any model runs, and check both.

    splits --pieces of files, a few at a time--> SplitReader, chosen columns only --> Census

Of a file only these columns are read, from its start to its end; a split is in memory at a time.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial

import pyarrow as pa

from bertscore_beam.dump.columns import column_of, has_column, no_column
from bertscore_beam.dump.groups import Group, check_number, groups_of
from bertscore_beam.dump.languages import count_languages
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.plan import Census
from bertscore_beam.dump.read_split import SplitReader, read_split
from bertscore_beam.dump.runs import row_group_of
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.parallel import in_parallel
from bertscore_core.errors import InputError

OPTION = "--group-by"

MOST_LANGUAGES = 1000
"""More distinct codes than this are not those of languages: the registry has about 100."""

_FILES_AT_ONCE = 8
"""Each takes the memory of a split."""
_PIECE_SPLITS = 200
"""So many splits are read in one go, so that an error or Ctrl-C does not wait for a long file."""
_LOOKED_AT = 20
"""Splits whose columns are named in a message."""


def take_census(splits: Sequence[Split], language: str | None, by: Sequence[str]) -> Census:
    """Count the rows of each language, and the groups.

    Splits that cannot be read are left out: their rows are not scored either, or have a language
    without a setting, if they can be read later.

    Args:
        splits: The splits of a plan, in its order.
        language: Name or dotted path of the column of language codes; None for no languages.
        by: Names or dotted paths of the group columns; none for no groups.

    Raises:
        InputError: There are too many languages or groups, a column cannot make groups, or no file
            has it.
    """
    if language is None and not by:
        return Census()
    total = _Count(language, by)
    count = partial(_count_piece, language=language, by=by)
    for piece in in_parallel(count, _pieces(splits), _FILES_AT_ONCE):
        total.add(piece)
    for name in by:
        if name not in total.there and total.groups:
            raise no_column(_columns_of(splits), name, "group", OPTION)
    return Census(
        languages=dict(total.languages), num_groups=len(total.groups), unread=total.unread
    )


class _Count:
    """What is counted so far. Mutable."""

    def __init__(self, language: str | None, by: Sequence[str]) -> None:
        """Begin with no rows."""
        self.languages: Counter[str] = Counter()
        self.groups: set[Group] = set()
        self.there: set[str] = set()
        """Group columns that some file has."""
        self.unread = 0
        self._language = language
        self._by = by

    def add_rows(self, split: Split, table: pa.Table) -> None:
        """Count the rows of a split.

        Raises:
            InputError: As for `take_census`.
        """
        if self._language is not None:
            self.languages += count_languages(column_of(table, self._language))
        if self._by:
            try:
                self.groups.update(groups_of(table, self._by).groups)
            except InputError as error:
                raise InputError(f"{split.input_name}: {error}") from error
            self.there.update(name for name in self._by if has_column(table.schema, name))
        self._check()

    def add(self, other: "_Count") -> None:
        """Add what was counted in other splits.

        Raises:
            InputError: As for `take_census`.
        """
        self.languages += other.languages
        self.groups |= other.groups
        self.there |= other.there
        self.unread += other.unread
        self._check()

    def _check(self) -> None:
        if len(self.languages) > MOST_LANGUAGES:
            raise InputError(
                f"the language column {self._language!r} holds no languages: got more than "
                f"{MOST_LANGUAGES:,} distinct values; expected codes such as en or zh. Name "
                "the right one with --language-column."
            )
        check_number(self.groups, self._by, OPTION)


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
    count = _Count(language, by)
    columns = [*by] if language is None else [language, *by]
    with closing(SplitReader(piece, columns)) as reader:
        for split in piece:
            try:
                table = reader.read(split).table
            except UNREADABLE:
                count.unread += 1
            else:
                count.add_rows(split, table)
    return count


def _columns_of(splits: Sequence[Split]) -> pa.Schema:
    """Return the columns of some splits, for a message."""
    fields: dict[str, pa.Field] = {}
    for split in splits[:_LOOKED_AT]:
        with suppress(*UNREADABLE):
            for field in read_split(split).schema:
                fields.setdefault(field.name, field)
    return pa.schema(fields.values())
