"""Which table a row belongs to, and which row of each key is counted.

    split --keyed_rows--> KeyedRows, cut into buckets of keys --choose_owners--> Owned, by split

The first row of a key counts: that of the input whose name comes first, and in it the first row.
So the choice depends on the data alone, not on workers, order or the cut into splits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.digests import Digests, digest_words
from bertscore_beam.dump.languages import NO_CODE, NO_LANGUAGE
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.buckets import in_order, rows_by_value
from bertscore_beam.files.checked import digest_of
from bertscore_beam.idf.idf_tables import WHOLE, IdfKey

# Which idf table each row belongs to.

NO_KEY = -1
"""Code of a row without a table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowKeys:
    """The keys of N rows.

    Attributes:
        keys: The distinct keys, in order of appearance.
        codes: Position of each row's key in `keys`; `NO_KEY` for a row without one. Shape (N,).
    """

    keys: tuple[IdfKey, ...]
    codes: npt.NDArray[np.int64]


def row_keys(rows: Rows) -> RowKeys:
    """Return the key of every row: the one place that decides which table a row belongs to.

    A row has no key if a value of a group column is null, NaN or not valid UTF-8, or if it has no
    language where languages have their own tables.
    """
    fields = rows.fields
    if not fields.group and fields.language is None:
        return key_of_all(len(rows))
    languages: Sequence[str | None] = [WHOLE.language] * len(rows)
    if fields.language is not None:
        languages = _with_tables(rows.languages)
    return _keys(languages, *rows.words_of(fields.group))


def keys_of_languages(languages: Sequence[str]) -> RowKeys:
    """Return the key of each row by its language alone, as `language_of` returns it."""
    return _keys(_with_tables(languages))


def _with_tables(languages: Sequence[str]) -> list[str | None]:
    return [None if language in (NO_LANGUAGE, NO_CODE) else language for language in languages]


def _keys(*values: Sequence[str | None]) -> RowKeys:
    numbers: dict[IdfKey, int] = {}
    codes = np.full(len(values[0]), NO_KEY, dtype=np.int64)
    for row, (language, *group) in enumerate(zip(*values, strict=True)):
        known = tuple(value for value in group if value is not None)
        if language is not None and len(known) == len(group):
            key = IdfKey(language=language, group=known)
            codes[row] = numbers.setdefault(key, len(numbers))
    return RowKeys(keys=tuple(numbers), codes=codes)


def key_of_all(rows: int) -> RowKeys:
    """Return the keys of rows that are all scored alike."""
    return RowKeys(keys=(WHOLE,), codes=np.zeros(rows, dtype=np.int64))


_ROWS_OF_A_BUCKET = 250_000
"""Rows whose keys are compared at a time; each takes 28 bytes."""

_MOST_BUCKETS = 4096

Positions = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedRows:
    """The keys of R rows of a split.

    Attributes:
        run: Name of the split's run.
        part_name: Name of the split's part.
        offset: Its first row, counted in the input, or its first byte.
        positions: Position of each row in the split, ascending. Shape (R,), int32.
        keys: Digest of each row's key. Shape (R, 2), uint64.
        references: Digest of each row's references. Shape (R,), uint64.
    """

    run: str
    part_name: str
    input_name: str
    offset: int
    positions: Positions
    keys: Digests
    references: npt.NDArray[np.uint64]

    def buckets(self, number: int) -> Iterator[tuple[int, "KeyedRows"]]:
        """Yield the rows of each bucket of keys that has some."""
        for bucket, rows in rows_by_value(self.keys[:, 0] % np.uint64(number)):
            yield (
                bucket,
                replace(
                    self,
                    positions=self.positions[rows],
                    keys=self.keys[rows],
                    references=self.references[rows],
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Owned:
    """Rows of a split, by position.

    Attributes:
        conflicts: Rows not counted whose references differ from those of the counted row.
        without_key: Rows without a value in a key column; they are counted, each for itself.
    """

    rows: Positions
    conflicts: Positions
    without_key: Positions

    @classmethod
    def merge(cls, parts: Iterable["Owned"]) -> "Owned":
        """Put together what different buckets say of one split."""
        owned = list(parts)
        names, none = (one.name for one in fields(cls)), np.zeros(0, dtype=np.int32)
        lists = {name: [none, *(getattr(part, name) for part in owned)] for name in names}
        return cls(**{name: np.sort(np.concatenate(rows)) for name, rows in lists.items()})

    @property
    def digest(self) -> str:
        """Digest of what is counted and how; 32 hexadecimal digits."""
        lists = (self.rows, self.conflicts, self.without_key)
        text = b"".join(b"%d:" % len(rows) + rows.astype("<i4").tobytes() for rows in lists)
        return digest_of(text)


def num_buckets(rows: int) -> int:
    """Return into how many buckets the keys of this many rows are cut."""
    return min(max(rows // _ROWS_OF_A_BUCKET, 1), _MOST_BUCKETS)


def keyed_rows(split: Split, run: str, rows: Rows) -> tuple[KeyedRows, Owned]:
    """Digest the keys of the rows that can be counted; those without a key are counted anyway."""
    tables = row_keys(rows)
    values = zip(*rows.words_of(rows.fields.key), strict=True)
    positions: list[int] = []
    without_key: list[int] = []
    keys: list[tuple[str, ...]] = []
    texts: list[list[str]] = []
    numbered = enumerate(zip(tables.codes.tolist(), values, rows.countable, strict=True))
    for position, (code, key, group) in numbered:
        if code == NO_KEY or group is None:
            continue
        known = [value for value in key if value is not None]
        if len(known) < len(key):
            without_key.append(position)
            continue
        positions.append(position)
        table = tables.keys[code]
        keys.append((table.language, *table.group, *known))
        texts.append(group)
    keyed = KeyedRows(
        run=run,
        part_name=split.part_name,
        input_name=split.input_name,
        offset=split.row_offset,
        positions=np.array(positions, dtype=np.int32),
        keys=digest_words(keys),
        references=digest_words(texts)[:, 0],
    )
    alone = np.array(without_key, dtype=np.int32)
    return keyed, Owned(rows=alone, conflicts=alone[:0], without_key=alone)


def choose_owners(parts: Iterable[KeyedRows]) -> Iterator[tuple[str, tuple[str, Owned]]]:
    """Choose the row that counts for every key of a bucket, of all its rows in the whole corpus.

    Yields:
        Name of a run, and of a part in it with the rows of that split.
    """
    ordered_parts = sorted(parts, key=lambda part: (part.input_name, part.offset))
    keys = np.concatenate([part.keys for part in ordered_parts])
    references = np.concatenate([part.references for part in ordered_parts])
    order, first = in_order(*keys.T)
    owner = order[np.flatnonzero(first)[np.cumsum(first) - 1]]
    is_owner, differs = np.empty_like(first), np.empty_like(first)
    is_owner[order] = first
    differs[order] = references[order] != references[owner]
    start = 0
    for part in ordered_parts:
        rows = slice(start, start := start + len(part.positions))
        owned = Owned(
            rows=part.positions[is_owner[rows]],
            conflicts=part.positions[differs[rows]],
            without_key=part.positions[:0],
        )
        yield part.run, (part.part_name, owned)
