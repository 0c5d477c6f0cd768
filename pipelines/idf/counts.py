"""The counts of some splits: document frequencies by key, which add up to the tables of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from bertscore_core import DocumentFrequencies, TextTokenizer
from pipelines.dump.texts import countable_references
from pipelines.idf.row_keys import RowKeys
from pipelines.idf.tables import IdfKey

_CONTENT_RANGE = 1 << 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """Document frequencies of some splits, and a digest of their references.

    Attributes:
        frequencies: The frequencies by key.
        unreadable: Number of splits that could not be read.
        content: Sum of the digests of the references and their positions; any order gives the same.
    """

    frequencies: Mapping[IdfKey, DocumentFrequencies] = field(default_factory=dict)
    unreadable: int = 0
    content: int = 0

    @property
    def num_documents(self) -> int:
        """References counted."""
        return sum(one.num_documents for one in self.frequencies.values())

    @classmethod
    def merge(cls, counts: Iterable["SplitCount"]) -> "SplitCount":
        """Add up counts; any order gives the same."""
        kept = list(counts)
        parts: dict[IdfKey, list[DocumentFrequencies]] = {}
        for count in kept:
            for key, frequencies in count.frequencies.items():
                parts.setdefault(key, []).append(frequencies)
        return cls(
            frequencies={key: DocumentFrequencies.merge(some) for key, some in parts.items()},
            unreadable=sum(count.unreadable for count in kept),
            content=sum(count.content for count in kept) % _CONTENT_RANGE,
        )


def count_references(
    tokenizers: Mapping[str, TextTokenizer], column: pa.ChunkedArray, keys: RowKeys
) -> dict[IdfKey, DocumentFrequencies]:
    """Count the references of some rows, each a document, for the key of its row.

    Rows without a key are left out, and rows whose references are rejected, as in scoring.

    Args:
        tokenizers: The tokenizer of each language.
        column: The references.
        keys: The keys of the rows.
    """
    texts: dict[int, list[str]] = {}
    for code, references in zip(keys.codes.tolist(), countable_references(column), strict=True):
        if references is not None:
            texts.setdefault(code, []).extend(references)
    return {
        key: DocumentFrequencies.from_tokens(tokenizers[key.language].encode(texts[code]))
        for code, key in enumerate(keys.keys)
        if code in texts
    }
