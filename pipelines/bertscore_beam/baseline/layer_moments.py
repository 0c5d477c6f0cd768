"""Score parts of pairs with a model, and sum the scores of every layer.

Sums are all that a table needs: they are a few kilobytes a part, and merge in any order.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bertscore_beam.baseline.sources import MOMENTS_FOLDER, read_pairs
from bertscore_beam.crawl.sampling import HOST_COLUMNS
from bertscore_beam.idf.idf_tables import read_table
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.layer_step import LayerStep
from bertscore_core.config import settle_tokenizer
from bertscore_core.idf import DocumentFrequencies, IdfTable
from bertscore_core.scorer import BertScorer
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.stats.moments import Moments
from bertscore_core.tokenizer.tokenization import TextTokenizer
from bertscore_core.work import Work

# Count sentences for idf weights, for tables of idf-weighted scores.
#
# The documents are the sentences of the language's pairs, so that the weights and the pairs are of
# the same text. A table is counted once for every model, since models differ in their tokens.


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsToScore:
    """A part of a language's pairs, the idf table ("" if none), and where the sums over it go.

    The names of both say of which pairs they are, and how scored; `seal` is that of the file of
    the pairs, `corpus` the digest of all pairs of the language.
    """

    pairs: str
    moments: str
    rows: int
    seal: str
    idf: str
    corpus: str


@dataclass(frozen=True, slots=True)
class CountParts:
    """The step that counts the sentences of parts with the tokenizer that a configuration names."""

    config: ScorerConfig
    folder: OutputFolder

    def open(self) -> Callable[[PairsToScore], Iterator[list[tuple[str, IdfTable]]]]:
        """Load the tokenizer."""
        return partial(_count, tokenizer=settle_tokenizer(self.config), folder=self.folder)

    def name(self, part: PairsToScore) -> str:
        """Return the path of the pairs."""
        return part.pairs


def _count(
    part: PairsToScore, *, tokenizer: TextTokenizer, folder: OutputFolder
) -> Iterator[list[tuple[str, IdfTable]]]:
    table = read_pairs(folder, part.pairs, part.seal).select(["candidate", "reference"])
    texts = [text for column in table.columns for text in column.to_pylist()]
    counters.count(counters.DOCUMENTS_COUNTED, len(texts))
    yield [(part.idf, tokenizer.count_documents(texts, part.corpus))]


def merge_tables(tables: Iterable[IdfTable]) -> IdfTable:
    """Add up the idf tables of parts of one corpus."""
    first, *others = tables
    frequencies = (table.frequencies for table in (first, *others))
    return replace(first, frequencies=DocumentFrequencies.merge(frequencies))


@dataclass(frozen=True, slots=True)
class ScorePairParts(LayerStep):
    """The step that scores parts at every layer, and writes the sums."""

    below: ClassVar[str] = MOMENTS_FOLDER

    def name(self, part: PairsToScore) -> str:
        """Return the path of the sums."""
        return part.moments

    def scored(self, scorer: BertScorer, part: PairsToScore, work: Work) -> bytes:
        """Return the sums of a part."""
        table = read_pairs(self.folder, part.pairs, part.seal)
        idf = read_table(self.folder.path(part.idf)) if part.idf else None
        return sum_scores(scorer, table, work, idf).to_bytes()


def sum_scores(
    scorer: BertScorer, pairs: pa.Table, work: Work, idf: IdfTable | None = None
) -> Moments:
    """Score pairs of `PAIR_SCHEMA` at every layer and add up; the work of the device is counted.

    Pairs without a score are left out, and so are those with a text of nothing but special tokens.
    """
    tokenized = scorer.tokenize(pairs["candidate"].to_pylist(), pairs["reference"].to_pylist())
    scores = scorer.score_tokenized(tokenized, scorer.token_weights(idf), work)
    usable = scores.scored & ~scores.only_special
    values = np.stack([scores.raw_precision, scores.raw_recall, scores.raw_f1], axis=-1)
    return Moments.of(values[:, usable], _hosts(pairs.filter(pa.array(usable))))


def _hosts(pairs: pa.Table) -> npt.NDArray[np.int16] | None:
    """Return the host buckets of both sides of pairs, (N, 2); None where hosts are not known."""
    columns = [pairs[name] for name in HOST_COLUMNS]
    if any(column.null_count for column in columns):
        return None
    return np.stack([column.to_numpy() for column in columns], axis=1)
