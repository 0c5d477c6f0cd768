"""The stage of a tuning run that scores the judgements with a model, and what it leaves."""

import io
from collections.abc import Generator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.progress import Amounts
from bertscore_beam.run.run_step import RunOnDevice
from bertscore_beam.run.stage import Stage
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.plan import Part, TuneJob, TuneModel, idf_path, scores_path
from bertscore_beam.tune.scores import SCORES_FOLDER, ModelScores, PartToScore, ScoreParts
from bertscore_core import DocumentFrequencies, IdfTable


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
    job: TuneJob, scoring: ScoreParts, parts: Sequence[PartToScore] = (), model: str = ""
) -> Stage:
    """Return the stage that scores parts with one model."""
    score = RunOnDevice(scoring, job.plan.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.runner,
        build=lambda root: root | beam.Create(parts) | "ScoreParts" >> score,
        words=f"Scoring {sum(part.rows for part in parts):,} judgements with {model}",
        folder=SCORES_FOLDER,
        amounts=Amounts(
            (part.scores.removeprefix(f"{SCORES_FOLDER}/"), part.rows) for part in parts
        ),
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


def _read_all(folder: OutputFolder, parts: Sequence[PartToScore]) -> ModelScores:
    values, seconds = [], 0.0
    for part in parts:
        with np.load(io.BytesIO(folder.read(part.scores)), allow_pickle=False) as archive:
            values.append(archive["scores"])
            seconds += float(archive["seconds"])
    return ModelScores(values=np.concatenate(values, axis=-1), seconds=seconds)
