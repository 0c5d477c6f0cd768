"""Score parts of the judgements with a model, at every layer with every weighting."""

import io
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.parquet import open_kept
from bertscore_beam.idf.idf_tables import read_table
from bertscore_beam.run.folder import MANIFEST_FOLDER
from bertscore_beam.run.layer_step import LayerStep
from bertscore_core.scorer import BertScorer
from bertscore_core.tokens import FloatArray
from bertscore_core.work import Work

SCORES_FOLDER = f"{MANIFEST_FOLDER}/scores"
_ROWS_FOLDER = f"{MANIFEST_FOLDER}/judgements"
_CURE = "Delete it and run the same command again: it writes that file once more."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelScores:
    """The scores of N judgements by one model.

    Attributes:
        values: Shape (weightings, L + 1, 3, N), float32; NaN where a pair has no score.
        seconds: How long the device was busy with them, over all workers.
    """

    values: FloatArray
    seconds: float


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the judgements, which a worker scores at a time.

    Its name in the folders of judgements and scores follows from its texts.
    """

    name: str
    first: int
    rows: int

    @property
    def path(self) -> str:
        """Path of its texts below the output folder."""
        return f"{_ROWS_FOLDER}/{self.name}.pq"


@dataclass(frozen=True, slots=True)
class ScoreParts(LayerStep):
    """The step that scores parts of judgements, and writes the scores.

    Attributes:
        scores: Folder of the scores, below that of the run.
        idf: Paths of the idf tables of all groups, below that of the run; none without idf.
    """

    below: ClassVar[str] = SCORES_FOLDER

    weightings: tuple[str, ...]
    scores: str
    idf: tuple[str, ...] = ()

    def name(self, part: Part) -> str:
        """Return the path of the scores."""
        return f"{self.scores}/{part.name}.npz"

    def scored(self, scorer: BertScorer, part: Part, work: Work) -> bytes:
        """Return the scores of a part, and how long the device was busy."""
        with open_kept(self.folder.path(part.path), _CURE) as file:
            table = file.read()
        scores = self._score_part(scorer, table, work)
        buffer = io.BytesIO()
        np.savez(buffer, scores=scores, seconds=np.float64(work.busy_seconds))
        return buffer.getvalue()

    def _score_part(self, scorer: BertScorer, table: pa.Table, work: Work) -> FloatArray:
        """Score pairs at every layer with every weighting; each text is encoded once.

        Returns:
            Raw scores. Shape (weightings, L + 1, 3, pairs), NaN for pairs without a score.
        """
        layers, groups = scorer.encoder.num_outputs, table["group"].to_numpy()
        shape = (len(self.weightings), layers, 3, len(table))
        values = np.full(shape, np.nan, dtype=np.float32)
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            own = table.take(rows)
            pairs = scorer.tokenize(own["candidate"].to_pylist(), own["references"].to_pylist())
            idf = read_table(self.folder.path(self.idf[int(group)])) if self.idf else None
            tables = [idf if weighting == "corpus" else None for weighting in self.weightings]
            weights = [*map(scorer.token_weights, tables)]
            for number, scores in enumerate(scorer.score_with_each(pairs, weights, work)):
                three = (scores.raw_precision, scores.raw_recall, scores.raw_f1)
                own_values = np.where(scores.scored, np.stack(three, axis=1), np.float32(np.nan))
                values[number][..., rows] = own_values
        return values
