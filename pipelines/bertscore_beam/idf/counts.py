"""The counts of some splits: document frequencies by key, which add up to the tables of a run."""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bertscore_beam.dump.texts import Rows
from bertscore_beam.idf.idf_tables import MOST_TABLES, IdfKey, IdfTables
from bertscore_beam.idf.owners import NO_KEY, Owned, row_keys
from bertscore_beam.idf.repeats import Repeats
from bertscore_core.errors import IdfError, load_json
from bertscore_core.idf import CountedRows, DocumentFrequencies

if TYPE_CHECKING:
    from bertscore_core.tokenizer.tokenization import TextTokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """What is counted for one table: the frequencies, and which rows they come from."""

    frequencies: DocumentFrequencies
    rows: CountedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """What is counted in some splits.

    Attributes:
        by_key: What is counted for each table.
        repeats: How often the references counted repeat.
        without_table: Rows whose references could be counted but that have no group.
        unreadable: Number of splits that could not be read.
        too_many: Whether there are more tables than `MOST_TABLES`; then none is kept.
    """

    by_key: Mapping[IdfKey, KeyCount] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=lambda: Repeats.of([]))
    without_table: int = 0
    unreadable: int = 0
    too_many: bool = False

    @property
    def num_documents(self) -> int:
        """References counted."""
        return sum(count.frequencies.num_documents for count in self.by_key.values())

    @classmethod
    def merge(cls, counts: Iterable["SplitCount"]) -> "SplitCount":
        """Add up counts; any order gives the same."""
        counts = list(counts)
        parts: dict[IdfKey, list[KeyCount]] = {}
        for count in counts:
            for key, counted in count.by_key.items():
                parts.setdefault(key, []).append(counted)
        merged = cls(
            by_key={
                key: KeyCount(
                    frequencies=DocumentFrequencies.merge(one.frequencies for one in counted),
                    rows=sum((one.rows for one in counted), CountedRows()),
                )
                for key, counted in parts.items()
            },
            repeats=Repeats.merge(count.repeats for count in counts),
            without_table=sum(count.without_table for count in counts),
            unreadable=sum(count.unreadable for count in counts),
            too_many=any(count.too_many for count in counts),
        )
        return merged.bounded()

    def bounded(self) -> "SplitCount":
        """Return the count without its tables if there are too many for the memory of a worker."""
        if len(self.by_key) <= MOST_TABLES and not self.too_many:
            return self
        return replace(self, by_key={}, too_many=True)


def count_rows(
    tokenizers: Mapping[str, "TextTokenizer"], rows: Rows, owned: Owned | None = None
) -> SplitCount:
    """Count the references of rows, or of those `owned`, each for the table of its row."""
    keys, references = row_keys(rows), rows.countable
    countable = np.array([group is not None for group in references], dtype=np.bool_)
    seen = countable & (keys.codes != NO_KEY)
    chosen, conflicts, without_key = seen, np.zeros_like(seen), np.zeros_like(seen)
    if owned is not None:
        places = (owned.rows, owned.conflicts, owned.without_key)
        chosen, conflicts, without_key = (_mark(place, len(rows)) & seen for place in places)
    texts: dict[int, list[str]] = {}
    counted_rows: list[Sequence[str]] = []
    for row in np.flatnonzero(chosen).tolist():
        group = references[row] or ()
        texts.setdefault(int(keys.codes[row]), []).extend(group)
        counted_rows.append(group)
    numbers = (
        np.bincount(keys.codes[marked], minlength=len(keys.keys)).tolist()
        for marked in (seen, seen & ~chosen, conflicts, without_key)
    )
    by_key = {}
    for code, (key, number, left_out, different, alone) in enumerate(
        zip(keys.keys, *numbers, strict=True)
    ):
        if number and key.language in tokenizers:
            tokens = tokenizers[key.language].encode(texts.get(code, []))
            facts = CountedRows(
                key_columns=rows.fields.key,
                rows=number,
                duplicates=left_out,
                conflicts=different,
                without_key=alone,
            )
            by_key[key] = KeyCount(frequencies=DocumentFrequencies.from_tokens(tokens), rows=facts)
    return SplitCount(
        by_key=by_key,
        repeats=Repeats.of(counted_rows),
        without_table=int((countable & (keys.codes == NO_KEY)).sum()),
    ).bounded()


def _mark(positions: np.ndarray, number: int) -> np.ndarray:
    marks = np.zeros(number, dtype=np.bool_)
    marks[positions] = True
    return marks


def count_to_bytes(tables: IdfTables, repeats: Repeats, owned: str) -> bytes:
    """Return the file of a count; `owned` is the digest of its choice of rows, "" for all."""
    head = {"rows": repeats.rows, "owned": owned}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
        tables=np.frombuffer(tables.to_bytes(), dtype=np.uint8),
        smallest=repeats.smallest,
    )
    return buffer.getvalue()


def count_from_bytes(data: bytes) -> tuple[SplitCount, str]:
    """Read what `count_to_bytes` wrote: the count, and the digest of its choice of rows.

    Raises:
        IdfError: It is damaged, or of another version.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            head = load_json(arrays["head"].tobytes())
            smallest = arrays["smallest"].astype(np.uint64)
            tables = IdfTables.from_bytes(arrays["tables"].tobytes())
        by_key = {
            key: KeyCount(frequencies=table.frequencies, rows=table.counted or CountedRows())
            for key, table in tables.tables.items()
        }
        repeats = Repeats(rows=int(head["rows"]), smallest=smallest)
        counted = SplitCount(by_key=by_key, repeats=repeats, without_table=tables.without_table)
        return counted, str(head["owned"])
    except (ValueError, KeyError, OSError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise IdfError(f"a count is damaged ({type(error).__name__})") from error
