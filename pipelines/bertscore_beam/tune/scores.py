"""Score judgements at every layer with every weighting: one stage for each model."""

import io
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import open_source
from bertscore_beam.loading import load_scorer
from bertscore_beam.run import counters, live
from bertscore_beam.run.device_loss import ending_with_the_device
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.stage import Stage
from bertscore_beam.run.step import RunOnDevice
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.plan import (
    SCORES_FOLDER,
    Part,
    TuneJob,
    TuneModel,
    Weighting,
    idf_path,
    scores_path,
)
from bertscore_core import BertScorer, DocumentFrequencies, IdfTable, ScorerConfig, TokenWeights
from bertscore_core.work import Work

Floats = npt.NDArray[np.float32]


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


def write_parts(job: TuneJob) -> None:
    """Write the texts of each part for the workers, and delete those of other judgements."""
    names = {part.path for part in job.plan.parts}
    folder = next(iter(names)).rpartition("/")[0]
    there = {f"{folder}/{name}" for name in job.folder.files(folder)}
    job.folder.delete(*sorted(there - names))
    for part in job.plan.parts:
        if part.path not in there:
            job.folder.write(part.path, _texts_of(job.plan.judgements, part))


def _texts_of(judgements: Judgements, part: Part) -> bytes:
    rows = slice(part.first, part.stop)
    table = pa.table(
        {
            "candidate": pa.array(judgements.candidates[rows], pa.large_string()),
            "references": pa.array(judgements.references[rows], pa.list_(pa.large_string())),
            "group": judgements.groups[rows],
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def score_with_model(job: TuneJob, model: TuneModel) -> Generator[Stage, None, ModelScores]:
    """Score all judgements with one model; scores that are there are kept.

    Yields:
        The stage that scores what is left to score, if anything is.

    Returns:
        All scores.
    """
    weightings = job.plan.weightings
    parts = [_to_score(job, model, part) for part in job.plan.parts]
    there = {f"{SCORES_FOLDER}/{name}" for name in job.folder.files(SCORES_FOLDER)}
    pending = [part for part in parts if part.scores not in there]
    if pending:
        if model.config.idf:
            _count_idf(job, model)
        scoring = ScoreParts(
            config=model.config,
            backend=model.settings.backend_version,
            folder=job.folder,
            weightings=weightings,
        )
        yield score_stage(job, scoring, pending, model.name)
    return _read_all(job.folder, parts)


def score_stage(
    job: TuneJob, scoring: "ScoreParts", parts: Sequence[PartToScore] = (), model: str = ""
) -> Stage:
    """Return the stage that scores parts with one model."""
    score = RunOnDevice(scoring, attrgetter("scores"), job.plan.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.runner,
        build=lambda root: root | beam.Create(parts) | "ScoreParts" >> score,
        words=f"Scoring {sum(part.rows for part in parts):,} judgements with {model}",
        folder=SCORES_FOLDER,
        amounts={part.scores.removeprefix(f"{SCORES_FOLDER}/"): part.rows for part in parts},
        unit="pairs",
    )


def _to_score(job: TuneJob, model: TuneModel, part: Part) -> PartToScore:
    groups = range(len(job.plan.judgements.names)) if model.config.idf else ()
    return PartToScore(
        texts=part.path,
        scores=scores_path(model, job.plan.weightings, part),
        rows=part.rows,
        idf=tuple(idf_path(model, part, group) for group in groups),
    )


def _count_idf(job: TuneJob, model: TuneModel) -> None:
    """Count and write the idf table of each group that is not there yet."""
    judgements, tokenizer = job.plan.judgements, model.settings.tokenizer
    for group in range(len(judgements.names)):
        path = idf_path(model, job.plan.parts[0], group)
        if job.folder.exists(path):
            continue
        texts = [text for row in judgements.of_group(group) for text in judgements.references[row]]
        table = IdfTable(
            frequencies=DocumentFrequencies.from_tokens(tokenizer.encode(texts)),
            tokenizer=tokenizer.fingerprint,
            max_length=tokenizer.max_length,
        )
        job.folder.write(path, table.to_bytes())


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
        with ending_with_the_device():
            scorer = load_scorer(self.config, self.backend)
        return partial(_score, scorer=scorer, weightings=self.weightings, folder=self.folder)


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
    with live.doing(name, lambda: work.share), ending_with_the_device():
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


def _read_all(folder: OutputFolder, parts: Sequence[PartToScore]) -> ModelScores:
    values, seconds = [], 0.0
    for part in parts:
        with np.load(io.BytesIO(folder.read(part.scores)), allow_pickle=False) as archive:
            values.append(archive["scores"])
            seconds += float(archive["seconds"])
    return ModelScores(values=np.concatenate(values, axis=-1), seconds=seconds)
