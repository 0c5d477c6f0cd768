"""Score parts of pairs with a model, and sum the scores of every layer.

Sums are all that a table needs: they are a few kilobytes a part, and merge in any order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.baseline import layout
from bertscore_beam.crawl.pairing import HOST_COLUMNS
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import open_source
from bertscore_beam.loading import load_scorer
from bertscore_beam.run import at_work, counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core import BertScorer, IdfTable, ScorerConfig
from bertscore_core.moments import Moments
from bertscore_core.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsToScore:
    """A part of a language's pairs, and where the sums over it go.

    Attributes:
        pairs: Path of the pairs below the output folder.
        moments: Path of the sums below it; the name says of which pairs they are, and how scored.
        rows: Number of pairs.
        idf: Path of the idf table to weigh tokens with; None for none.
    """

    pairs: str
    moments: str
    rows: int
    idf: str | None


@dataclass(frozen=True, slots=True)
class ScorePairParts:
    """The step that scores parts of pairs at every layer, writes the sums and yields their paths.

    Attributes:
        config: How to score: all layers, as each alone would be.
        backend: What runs the encoder, with its version.
        folder: Folder of the run.
    """

    config: ScorerConfig
    backend: str
    folder: OutputFolder

    def open(self) -> Callable[[PairsToScore], Iterator[str]]:
        """Load the scorer.

        Raises:
            ConfigError: This worker's backend has another version than the job's.
        """
        scorer = load_scorer(self.config, self.backend)
        return partial(_score, scorer=scorer, folder=self.folder)

    def name(self, part: PairsToScore) -> str:
        """Return the path of the sums, which no other part has."""
        return part.moments


def _score(part: PairsToScore, *, scorer: BertScorer, folder: OutputFolder) -> Iterator[str]:
    with open_source(folder.path(part.pairs)) as source:
        table = pq.read_table(source)
    idf = None if part.idf is None else _read_idf(folder, part.idf)
    work = Work()
    with at_work.doing(layout.below_moments(part.moments), lambda: work.share):
        moments = sum_scores(scorer, table, work, idf)
    folder.write(part.moments, moments.to_bytes())
    yield part.moments


def sum_scores(
    scorer: BertScorer, pairs: pa.Table, work: Work, idf: IdfTable | None = None
) -> Moments:
    """Score pairs at every layer and add up.

    Pairs without a score are left out, and so are those with a text of nothing but special tokens.

    Args:
        scorer: With all layers, and no scores for empty texts.
        pairs: Of `PAIR_SCHEMA`.
        work: Where the work of the device is counted.
        idf: What tokens are weighed with; None for nothing.
    """
    tokenized = scorer.tokenize(pairs["candidate"].to_pylist(), pairs["reference"].to_pylist())
    scores = scorer.score_tokenized(tokenized, scorer.token_weights(idf), work)
    counters.count(counters.PAIRS_SCORED, len(scores))
    counters.count_work(work)
    kept = scores.scored & ~scores.only_special
    values = np.stack([scores.raw_precision, scores.raw_recall, scores.raw_f1], axis=-1)
    return Moments.of(values[:, kept], _hosts(pairs.filter(pa.array(kept))))


def _hosts(pairs: pa.Table) -> npt.NDArray[np.int16] | None:
    """Return the host buckets of both sides of pairs, (N, 2); None where hosts are not known."""
    columns = [pairs[name] for name in HOST_COLUMNS]
    if any(column.null_count for column in columns):
        return None
    return np.stack([column.to_numpy() for column in columns], axis=1)


@lru_cache(maxsize=2)
def _read_idf(folder: OutputFolder, path: str) -> IdfTable:
    """Read an idf table, once for all parts of a language that follow each other."""
    return IdfTable.from_bytes(folder.read(path), mask_credentials(folder.path(path)))
