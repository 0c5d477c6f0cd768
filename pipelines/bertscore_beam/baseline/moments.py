"""Score the pairs with every model, and sum the scores of every layer.

Sums are all that a table needs: they are a few kilobytes a part, and merge in any order.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.ml.inference.base import ModelHandler, RunInference

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.plan import BaselineJob, BaselineModel
from bertscore_beam.baseline.records import PairsRecord, digest_of
from bertscore_beam.crawl.pairing import HOST_COLUMNS
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import open_source
from bertscore_beam.loading import load_scorer
from bertscore_beam.run import counters, live
from bertscore_beam.run.device_loss import ending_with_the_device
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.hints import with_accelerator
from bertscore_beam.run.stage import Stage
from bertscore_core import BertScorer, IdfTable, ScorerConfig
from bertscore_core.moments import Moments
from bertscore_core.work import Work

_READ_AT_ONCE = 64
"""Parts whose sums are in memory at the same time: 10 MB for 24 layers."""


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


def score_with_model(
    job: BaselineJob, model: BaselineModel, pairs: Mapping[str, PairsRecord]
) -> Generator[Stage, None, dict[str, Moments]]:
    """Score the pairs of every language with one model; sums that are there are kept.

    Yields:
        The stage that scores what is left to score, if anything is.

    Returns:
        The sums over all pairs of each language.
    """
    parts = {code: _parts(model, record) for code, record in pairs.items()}
    pending = [part for code in parts for part in _pending(job.folder, model, code, parts[code])]
    if pending:
        transform = ScorePairParts(
            config=model.config, backend=model.settings.backend_version, folder=job.folder
        )
        yield score_stage(job, transform, pending, model.name)
    return {code: _merge(job.folder, parts[code]) for code in parts}


def score_stage(
    job: BaselineJob,
    transform: "ScorePairParts",
    parts: Sequence[PairsToScore] = (),
    model: str = "",
) -> Stage:
    """Return the stage that scores pairs with one model.

    Args:
        job: The run.
        transform: Scores them.
        parts: The pairs.
        model: Name of the model.
    """
    score = with_accelerator(transform, job.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.scoring,
        # The parts are spread here, since that needs no GPU.
        build=lambda root: root | beam.Create(parts) | beam.Reshuffle() | score,
        words=f"Scoring {sum(part.rows for part in parts):,} pairs with {model}",
        folder=layout.MOMENTS_FOLDER,
        amounts={layout.below_moments(part.moments): part.rows for part in parts},
        unit="pairs",
    )


def _parts(model: BaselineModel, record: PairsRecord) -> list[PairsToScore]:
    """Name the parts of a language's pairs, and the sums over each."""
    folder = layout.moments_folder(record.language, model.name)
    digest = digest_of(f"{record.digest} {model.digest}")
    return [
        PairsToScore(
            pairs=layout.pairs_path(record.language, part.name),
            moments=f"{folder}/{digest}-{part.name}.npz",
            rows=part.rows,
            idf=layout.idf_path(record.language, model.name) if model.config.idf else None,
        )
        for part in record.parts
    ]


def _pending(
    folder: OutputFolder, model: BaselineModel, language: str, parts: Sequence[PairsToScore]
) -> list[PairsToScore]:
    """Return the parts without sums, and delete sums of other pairs or other settings."""
    below = layout.moments_folder(language, model.name)
    there = {f"{below}/{name}" for name in folder.files(below)}
    # A model's name may begin with another's and a slash: files further below are not its own.
    own = {path for path in there if path.count("/") == below.count("/") + 1}
    folder.delete(*sorted(own - {part.moments for part in parts}))
    return [part for part in parts if part.moments not in there]


def _merge(folder: OutputFolder, parts: Sequence[PairsToScore]) -> Moments:
    """Add up the sums of all parts; integers, so that the order does not matter."""
    paths = [part.moments for part in parts]
    return Moments.merge(
        Moments.from_bytes(_written(data, path), folder.path(path))
        for start in range(0, len(paths), _READ_AT_ONCE)
        for data, path in _read_some(folder, paths[start : start + _READ_AT_ONCE])
    )


def _read_some(folder: OutputFolder, paths: Sequence[str]) -> Iterator[tuple[bytes | None, str]]:
    yield from zip(folder.read_if_there(*paths), paths, strict=True)


def _written(data: bytes | None, path: str) -> bytes:
    if data is None:
        raise RuntimeError(f"the sums {path} were not written; run the command again")
    return data


@dataclass(frozen=True, slots=True)
class _ReadPairs:
    """Pairs of a part, read, and the idf table to weigh their tokens with."""

    part: PairsToScore
    table: pa.Table
    idf: IdfTable | None

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
            backend: What runs the encoder on the launcher, with its version.
        """
        super().__init__()
        self._config = config
        self._backend = backend

    def load_model(self) -> BertScorer:
        """Load the scorer, once a process."""
        with ending_with_the_device():
            return load_scorer(self._config, self._backend)

    def run_inference(
        self, batch: _ReadPairs, model: BertScorer, inference_args: dict[str, Any] | None = None
    ) -> Sequence[_SummedPairs]:
        """Score one part."""
        work = Work()
        name = layout.below_moments(batch.part.moments)
        with live.doing(name, lambda: work.share), ending_with_the_device():
            return [_SummedPairs(batch.part, sum_scores(model, batch.table, work, batch.idf))]

    def get_num_bytes(self, batch: _ReadPairs) -> int:
        """Size of the part."""
        return int(batch.table.nbytes)

    def should_skip_batching(self) -> bool:
        """Parts are batches already."""
        return True

    def get_metrics_namespace(self) -> str:
        """Namespace of RunInference's own metrics."""
        return counters.NAMESPACE


@dataclass
class ScorePairParts(beam.PTransform):
    """Parts of pairs -> paths of the sums over them, which are written.

    The caller spreads the parts over the workers, since that needs no GPU.

    Attributes:
        config: How to score.
        backend: What runs the encoder, with its version.
        folder: Folder of the run.
    """

    config: ScorerConfig
    backend: str
    folder: OutputFolder

    def expand(self, parts: beam.PCollection[PairsToScore]) -> beam.PCollection[str]:
        """Read, score and sum in one stage; no text crosses it."""
        handler = BaselineModelHandler(self.config, self.backend)
        return (
            parts
            | "ReadPairs" >> beam.Map(_read, self.folder).with_output_types(_ReadPairs)
            | "ScorePairs" >> RunInference(handler).with_output_types(_SummedPairs)
            | "WriteMoments" >> beam.FlatMap(_write, self.folder)
        )


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


def _read(part: PairsToScore, folder: OutputFolder) -> _ReadPairs:
    with open_source(folder.path(part.pairs)) as source:
        table = pq.read_table(source)
    return _ReadPairs(part, table, None if part.idf is None else _read_idf(folder, part.idf))


@lru_cache(maxsize=2)
def _read_idf(folder: OutputFolder, path: str) -> IdfTable:
    """Read an idf table, once for all parts of a language that follow each other."""
    return IdfTable.from_bytes(folder.read(path), mask_credentials(folder.path(path)))


def _write(summed: _SummedPairs, folder: OutputFolder) -> Iterator[str]:
    folder.write(summed.part.moments, summed.moments.to_bytes())
    yield summed.part.moments
