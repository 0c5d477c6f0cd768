"""Score the pairs with every model, and sum the scores of every layer.

Sums are all that a table needs: they are a few kilobytes a part, and merge in any order.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

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
from bertscore_beam.run.stage import Stage
from bertscore_beam.run.step import RunOnDevice
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
        step = ScorePairParts(
            config=model.config, backend=model.settings.backend_version, folder=job.folder
        )
        yield score_stage(job, step, pending, model.name)
    return {code: _merge(job.folder, parts[code]) for code in parts}


def score_stage(
    job: BaselineJob,
    step: "ScorePairParts",
    parts: Sequence[PairsToScore] = (),
    model: str = "",
) -> Stage:
    """Return the stage that scores pairs with one model.

    Args:
        job: The run.
        step: Scores the pairs.
        parts: The pairs.
        model: Name of the model.
    """
    score = RunOnDevice(step, attrgetter("moments"), job.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.scoring,
        build=lambda root: root | beam.Create(parts) | "ScorePairParts" >> score,
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
        with ending_with_the_device():
            scorer = load_scorer(self.config, self.backend)
        return partial(_score, scorer=scorer, folder=self.folder)


def _score(part: PairsToScore, *, scorer: BertScorer, folder: OutputFolder) -> Iterator[str]:
    with open_source(folder.path(part.pairs)) as source:
        table = pq.read_table(source)
    idf = None if part.idf is None else _read_idf(folder, part.idf)
    work = Work()
    doing = live.doing(layout.below_moments(part.moments), lambda: work.share)
    with doing, ending_with_the_device():
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
