"""The counts of some splits: document frequencies by key, which add up to the tables of a run."""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bertscore_beam.idf.owners import Owned
from bertscore_beam.idf.repeats import Repeats
from bertscore_beam.idf.row_keys import NO_KEY, RowKeys
from bertscore_beam.idf.tables import MOST_TABLES, IdfKey, IdfTables
from bertscore_core import DocumentFrequencies, IdfError
from bertscore_core.idf import CountedRows

if TYPE_CHECKING:
    from bertscore_core import TextTokenizer

_CONTENT_RANGE = 1 << 128


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """What is counted for one table: the frequencies, and which rows they come from."""

    frequencies: DocumentFrequencies
    rows: CountedRows

    @classmethod
    def merge(cls, counts: Sequence["KeyCount"]) -> "KeyCount":
        """Add up counts; any order gives the same."""
        rows = CountedRows()
        for count in counts:
            rows += count.rows
        frequencies = DocumentFrequencies.merge(count.frequencies for count in counts)
        return cls(frequencies=frequencies, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """What is counted in some splits, and a digest of their references.

    Attributes:
        by_key: What is counted for each table.
        repeats: How often the references counted repeat.
        without_table: Rows whose references could be counted but that have no group.
        unreadable: Number of splits that could not be read.
        too_many: Whether there are more tables than `MOST_TABLES`; then none is kept.
        content: Sum of the digests of the references and their positions; any order gives the same.
    """

    by_key: Mapping[IdfKey, KeyCount] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=lambda: Repeats.of([]))
    without_table: int = 0
    unreadable: int = 0
    too_many: bool = False
    content: int = 0

    @property
    def num_documents(self) -> int:
        """References counted."""
        return sum(one.frequencies.num_documents for one in self.by_key.values())

    @classmethod
    def merge(cls, counts: Iterable["SplitCount"]) -> "SplitCount":
        """Add up counts; any order gives the same."""
        kept = list(counts)
        parts: dict[IdfKey, list[KeyCount]] = {}
        for count in kept:
            for key, one in count.by_key.items():
                parts.setdefault(key, []).append(one)
        merged = cls(
            by_key={key: KeyCount.merge(some) for key, some in parts.items()},
            repeats=Repeats.merge(count.repeats for count in kept),
            without_table=sum(count.without_table for count in kept),
            unreadable=sum(count.unreadable for count in kept),
            too_many=any(count.too_many for count in kept),
            content=sum(count.content for count in kept) % _CONTENT_RANGE,
        )
        return merged.bounded()

    def bounded(self) -> "SplitCount":
        """Return the count without its tables if there are too many for the memory of a worker."""
        if len(self.by_key) <= MOST_TABLES and not self.too_many:
            return self
        return replace(self, by_key={}, too_many=True)


def count_rows(
    tokenizers: Mapping[str, "TextTokenizer"],
    references: Sequence[Sequence[str] | None],
    keys: RowKeys,
    key_columns: tuple[str, ...] = (),
    owned: Owned | None = None,
) -> SplitCount:
    """Count the references of some rows, each a document, for the table of its row.

    Args:
        tokenizers: The tokenizer of each language.
        references: The references of each row, None if they are rejected. Shape (N,).
        keys: The keys of the rows.
        key_columns: The columns of --idf-key.
        owned: Which rows are counted; None for all.
    """
    there = np.array([group is not None for group in references], dtype=np.bool_)
    has_table = keys.codes != NO_KEY
    seen = there & has_table
    chosen = seen if owned is None else _marked(owned.rows, len(references)) & seen
    texts: dict[int, list[str]] = {}
    counted_rows: list[Sequence[str]] = []
    for row in np.flatnonzero(chosen).tolist():
        group = references[row] or ()
        texts.setdefault(int(keys.codes[row]), []).extend(group)
        counted_rows.append(group)
    facts = _facts(keys, key_columns, seen, chosen, owned)
    by_key = {
        key: KeyCount(
            frequencies=DocumentFrequencies.from_tokens(
                tokenizers[key.language].encode(texts.get(code, []))
            ),
            rows=facts[code],
        )
        for code, key in enumerate(keys.keys)
        if facts[code].rows and key.language in tokenizers
    }
    return SplitCount(
        by_key=by_key,
        repeats=Repeats.of(counted_rows),
        without_table=int((there & ~has_table).sum()),
    ).bounded()


def _facts(
    keys: RowKeys,
    key_columns: tuple[str, ...],
    seen: np.ndarray,
    chosen: np.ndarray,
    owned: Owned | None,
) -> list[CountedRows]:
    """Return for each key which rows were counted."""
    number, size = len(seen), len(keys.keys)
    nothing = np.zeros(0, dtype=np.int32)
    conflicts = _marked(nothing if owned is None else owned.conflicts, number) & seen
    without = _marked(nothing if owned is None else owned.without_key, number) & seen

    def by_key(marked: np.ndarray) -> list[int]:
        counts: list[int] = np.bincount(keys.codes[marked], minlength=size).tolist()
        return counts

    every = zip(
        by_key(seen), by_key(seen & ~chosen), by_key(conflicts), by_key(without), strict=True
    )
    return [
        CountedRows(
            key_columns=key_columns,
            rows=rows,
            duplicates=left_out,
            conflicts=different,
            without_key=alone,
        )
        for rows, left_out, different, alone in every
    ]


def _marked(positions: np.ndarray, number: int) -> np.ndarray:
    marks = np.zeros(number, dtype=np.bool_)
    marks[positions] = True
    return marks


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCount:
    """The count of one split as a file, for a run that goes on after a kill.

    Attributes:
        tables: What is counted, as tables.
        repeats: How often the references repeat.
        owned: Digest of the choice of rows; "" if every row counts.
    """

    tables: IdfTables
    repeats: Repeats
    owned: str

    def to_bytes(self) -> bytes:
        """Return the file."""
        head = {"rows": self.repeats.rows, "owned": self.owned}
        buffer = io.BytesIO()
        np.savez(
            buffer,
            head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
            tables=np.frombuffer(self.tables.to_bytes(), dtype=np.uint8),
            smallest=self.repeats.smallest,
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "KeptCount":
        """Read the file.

        Raises:
            IdfError: It is damaged, or of another version.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                head = json.loads(arrays["head"].tobytes())
                smallest = arrays["smallest"].astype(np.uint64)
                tables = IdfTables.from_bytes(arrays["tables"].tobytes())
            repeats = Repeats(rows=int(head["rows"]), smallest=smallest)
            return cls(tables=tables, repeats=repeats, owned=str(head["owned"]))
        except (ValueError, KeyError, OSError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise IdfError(f"a count is damaged ({type(error).__name__})") from error
