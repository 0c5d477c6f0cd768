"""Random pairs to sums over the scores of every layer, which is all that a baseline needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.ml.inference.base import ModelHandler, RunInference

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.moments import Moments
from bertscore_core.work import Work
from pipelines import metrics
from pipelines.baseline import layout
from pipelines.io.files import join, open_source, write_atomically
from pipelines.lock import RunLock, check_held
from pipelines.transforms.scoring import load_scorer


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsToScore:
    """A part of a language's pairs, and where the sums over it go.

    Attributes:
        pairs: Path of the pairs below the output folder.
        moments: Path of the sums below it; their name says of which pairs they are, and how scored.
    """

    pairs: str
    moments: str


@dataclass(frozen=True, slots=True)
class _ReadPairs:
    """Pairs of a part, read."""

    part: PairsToScore
    table: pa.Table

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.table)


@dataclass(frozen=True, slots=True)
class _SummedPairs:
    """The sums over a part."""

    part: PairsToScore
    moments: Moments


class BaselineModelHandler(ModelHandler[_ReadPairs, _SummedPairs, BertScorer]):
    """Scores whole parts of random pairs at every layer, inside Beam's RunInference."""

    def __init__(self, config: ScorerConfig, backend: str) -> None:
        """Keep the settings; the model is loaded on the worker.

        Args:
            config: How to score: all layers, as each alone would be.
            backend: What the launcher means to run the encoder on, with its version.
        """
        super().__init__()
        self._config = config
        self._backend = backend

    def load_model(self) -> BertScorer:
        """Load the scorer, once a process."""
        return load_scorer(self._config, self._backend)

    def run_inference(
        self, batch: _ReadPairs, model: BertScorer, inference_args: dict[str, Any] | None = None
    ) -> Sequence[_SummedPairs]:
        """Score one part."""
        return [_SummedPairs(batch.part, sum_scores(model, batch.table))]

    def get_num_bytes(self, batch: _ReadPairs) -> int:
        """Size of the part."""
        return int(batch.table.nbytes)

    def should_skip_batching(self) -> bool:
        """Parts are batches already."""
        return True

    def get_metrics_namespace(self) -> str:
        """Namespace of RunInference's own metrics."""
        return metrics.NAMESPACE


@dataclass
class ScorePairParts(beam.PTransform):
    """Parts of pairs -> paths of the sums over them, which are written.

    Spreading the parts over the workers is left to the caller: it needs no GPU.

    Attributes:
        config: How to score.
        backend: What runs the encoder, with its version.
        output: Folder of the run.
        lock: What must be held to write; None leaves that unchecked.
    """

    config: ScorerConfig
    backend: str
    output: str
    lock: RunLock | None = None

    def expand(self, parts: beam.PCollection[PairsToScore]) -> beam.PCollection[str]:
        """Read, score and sum in one stage; no text crosses it."""
        handler = BaselineModelHandler(self.config, self.backend)
        return (
            parts
            | "ReadPairs" >> beam.Map(_read, self.output).with_output_types(_ReadPairs)
            | "ScorePairs" >> RunInference(handler).with_output_types(_SummedPairs)
            | "WriteMoments" >> beam.FlatMap(_write, self.output, self.lock)
        )


def sum_scores(scorer: BertScorer, pairs: pa.Table) -> Moments:
    """Score pairs at every layer and add up; what has no score is left out.

    Args:
        scorer: With all layers, and no scores for empty texts: a sentence of which the tokenizer
            leaves nothing says nothing of the model.
        pairs: Of `PAIR_SCHEMA`.
    """
    tokenized = scorer.tokenize(pairs["candidate"].to_pylist(), pairs["reference"].to_pylist())
    work = Work()
    scores = scorer.score_tokenized(tokenized, scorer.token_weights(None), work)
    metrics.count(metrics.PAIRS_SCORED, len(scores))
    metrics.count_work(work)
    kept = scores.scored
    values = np.stack([scores.raw_precision, scores.raw_recall, scores.raw_f1], axis=-1)
    return Moments.of(values[:, kept], pairs["group"].to_numpy()[kept])


def _read(part: PairsToScore, output: str) -> _ReadPairs:
    with open_source(join(output, part.pairs)) as source:
        return _ReadPairs(part, pq.read_table(source))


def _write(summed: _SummedPairs, output: str, lock: RunLock | None) -> Iterator[str]:
    check_held(lock)
    write_atomically(join(output, summed.part.moments), summed.moments.to_bytes())
    yield summed.part.moments


def pairs_to_score(language: str, model: str, part: str, digest: str) -> PairsToScore:
    """Name a part of pairs and its sums.

    Args:
        language: Language of the pairs.
        model: Model that scores them.
        part: Name of the part.
        digest: Of the pairs and the signature.
    """
    return PairsToScore(
        pairs=layout.pairs_path(language, part),
        moments=f"{layout.moments_folder(language, model)}/{digest}-{part}.npz",
    )
