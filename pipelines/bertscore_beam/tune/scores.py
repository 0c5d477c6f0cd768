"""Score parts of the judgements with a model, at every layer with every weighting."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import open_source
from bertscore_beam.loading import load_scorer
from bertscore_beam.run import at_work, counters
from bertscore_beam.run.folder import MANIFEST_FOLDER, OutputFolder
from bertscore_core import BertScorer, IdfTable, ScorerConfig, TokenWeights
from bertscore_core.work import Work

SCORES_FOLDER = f"{MANIFEST_FOLDER}/scores"

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Weighting:
    """How the matches of a pair are found and averaged.

    Attributes:
        optimal: Whether tokens are assigned one to one.
        idf: Whether tokens are weighted by idf.
    """

    optimal: bool
    idf: bool

    @property
    def matching(self) -> str:
        """The name of the matching."""
        return "optimal" if self.optimal else "greedy"

    @property
    def weights(self) -> str:
        """The name of the weights."""
        return "corpus" if self.idf else "none"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelScores:
    """The scores of N judgements by one model.

    Attributes:
        values: Shape (weightings, L + 1, 3, N), float32; NaN where a pair has no score.
        seconds: How long the device was busy with them, over all workers.
    """

    values: Floats
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartToScore:
    """A part of the judgements, and where its scores go.

    Attributes:
        texts: Path of its texts below the output folder.
        scores: Path of its scores below it.
        rows: Number of rows.
        idf: Path of the idf table of each group; empty without idf.
    """

    texts: str
    scores: str
    rows: int
    idf: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The step that scores parts of judgements, writes the scores and yields their paths.

    Attributes:
        config: How to score: all layers.
        backend: What runs the encoder, with its version.
        folder: Folder of the run.
        weightings: How to match and weigh.
    """

    config: ScorerConfig
    backend: str
    folder: OutputFolder
    weightings: tuple[Weighting, ...]

    def open(self) -> Callable[[PartToScore], Iterator[str]]:
        """Load the scorer.

        Raises:
            ConfigError: This worker's backend has another version than the job's.
        """
        scorer = load_scorer(self.config, self.backend)
        return partial(_score, scorer=scorer, weightings=self.weightings, folder=self.folder)

    def name(self, part: PartToScore) -> str:
        """Return the path of the scores, which no other part has."""
        return part.scores


def _score(
    part: PartToScore,
    *,
    scorer: BertScorer,
    weightings: Sequence[Weighting],
    folder: OutputFolder,
) -> Iterator[str]:
    with open_source(folder.path(part.texts)) as source:
        table = pq.read_table(source)
    idf = [_read_idf(folder, path) for path in part.idf]
    work = Work()
    name = part.scores.removeprefix(f"{SCORES_FOLDER}/")
    with at_work.doing(name, lambda: work.share):
        scores = score_part(scorer, table, idf, weightings, work)
    counters.count(counters.PAIRS_SCORED, len(table))
    counters.count_work(work)
    buffer = io.BytesIO()
    np.savez(buffer, scores=scores, seconds=np.float64(work.busy_seconds))
    folder.write(part.scores, buffer.getvalue())
    yield part.scores


def score_part(
    scorer: BertScorer,
    table: pa.Table,
    idf: Sequence[IdfTable],
    weightings: Sequence[Weighting],
    work: Work,
) -> Floats:
    """Score pairs at every layer with every weighting; each text is encoded once a matching.

    Args:
        scorer: With all layers.
        table: Candidates, references, and the number of each pair's group.
        idf: The idf table of each group; empty without idf.
        weightings: How to match and weigh.
        work: Where the work of the device is counted.

    Returns:
        Raw scores. Shape (weightings, L + 1, 3, pairs), NaN for pairs without a score.
    """
    layers, groups = scorer.encoder.num_outputs, table["group"].to_numpy()
    values = np.full((len(weightings), layers, 3, len(table)), np.nan, dtype=np.float32)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        own = table.take(rows)
        pairs = scorer.tokenize(own["candidate"].to_pylist(), own["references"].to_pylist())
        for optimal in sorted({one.optimal for one in weightings}):
            numbers = [n for n, one in enumerate(weightings) if one.optimal == optimal]
            weights = [_weights(scorer, idf, weightings[n], int(group)) for n in numbers]
            found = scorer.score_with_each(pairs, weights, work, optimal=optimal)
            for number, scores in zip(numbers, found, strict=True):
                three = (scores.raw_precision, scores.raw_recall, scores.raw_f1)
                own_values = np.where(scores.scored, np.stack(three, axis=1), np.float32(np.nan))
                values[number][..., rows] = own_values
    return values


def _weights(
    scorer: BertScorer, idf: Sequence[IdfTable], weighting: Weighting, group: int
) -> TokenWeights:
    return scorer.token_weights(idf[group] if weighting.idf else None)


@lru_cache(maxsize=256)
def _read_idf(folder: OutputFolder, path: str) -> IdfTable:
    """Read an idf table, once for all parts."""
    return IdfTable.from_bytes(folder.read(path), mask_credentials(folder.path(path)))
