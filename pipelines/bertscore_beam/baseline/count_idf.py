"""Count sentences for idf weights, for tables of idf-weighted scores.

The documents are the sentences of the language's pairs, so that the weights and the pairs are of
the same text. A table is counted once for every model, since models differ in their tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow.parquet as pq

from bertscore_beam.files.read import open_source
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core import DocumentFrequencies, IdfTable, ScorerConfig, TextTokenizer
from bertscore_core.config import settle_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsToCount:
    """A part of a language's pairs, and the table that its sentences are counted for.

    Attributes:
        pairs: Path of the pairs below the output folder.
        table: Path of the idf table below it.
        corpus: Digest of all pairs of the language, kept in the table.
    """

    pairs: str
    table: str
    corpus: str


_Table: TypeAlias = tuple[str, str, str, int | None]
"""A table to write: its path, its corpus, the fingerprint of the tokenizer, and where it cuts."""


@dataclass(frozen=True, slots=True)
class CountParts:
    """The step that counts the sentences of parts.

    Attributes:
        config: Names the tokenizer.
        folder: Folder of the run.
    """

    config: ScorerConfig
    folder: OutputFolder

    def open(self) -> Callable[[PairsToCount], Iterator[tuple[_Table, DocumentFrequencies]]]:
        """Load the tokenizer."""
        return partial(_count, tokenizer=settle_tokenizer(self.config), folder=self.folder)

    def name(self, part: PairsToCount) -> str:
        """Return the path of the pairs."""
        return part.pairs


def _count(
    part: PairsToCount, *, tokenizer: TextTokenizer, folder: OutputFolder
) -> Iterator[tuple[_Table, DocumentFrequencies]]:
    with open_source(folder.path(part.pairs)) as source:
        table = pq.read_table(source, columns=["candidate", "reference"])
    texts = [text for column in table.columns for text in column.to_pylist()]
    found = DocumentFrequencies.from_tokens(tokenizer.encode(texts))
    counters.count(counters.DOCUMENTS_COUNTED, found.num_documents)
    yield (part.table, part.corpus, tokenizer.fingerprint, tokenizer.max_length), found


def write_idf(table: _Table, frequencies: DocumentFrequencies, *, folder: OutputFolder) -> str:
    """Write the table of a language, and return its path."""
    path, corpus, tokenizer, max_length = table
    counted = IdfTable(
        frequencies=frequencies, tokenizer=tokenizer, max_length=max_length, corpus=corpus
    )
    folder.write(path, counted.to_bytes())
    return path
