"""The stage of a tuning run that scores the judgements with a model, and what it leaves."""

import io
from collections.abc import Generator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.run import Amounts, OutputFolder, RunOnDevice, Stage
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.layer_scores import SCORES_FOLDER, ModelScores, Part, ScoreParts
from bertscore_beam.tune.tune_plan import IDF_FOLDER, TuneJob, TuneModel
from bertscore_core import DocumentFrequencies, IdfTable


def write_parts(job: TuneJob) -> None:
    """Write the texts of each part for the workers, and delete those of other judgements."""
    names = {part.path for part in job.plan.parts}
    folder = next(iter(names)).rpartition("/")[0]
    present = {f"{folder}/{name}" for name in job.folder.files(folder)}
    job.folder.delete(*sorted(present - names))
    for part in job.plan.parts:
        if part.path not in present:
            job.folder.write(part.path, _texts_of(job.plan.judgements, part))


def _texts_of(judgements: Judgements, part: Part) -> bytes:
    rows = slice(part.first, part.first + part.rows)
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
    weightings, parts = job.plan.weightings, job.plan.parts
    # The names say of which texts the scores are, and how made.
    how = "-".join(f"{weighting.matching}.{weighting.weights}" for weighting in weightings)
    corpus = parts[0].name.partition("-")[0]
    groups = range(len(job.plan.judgements.names)) if model.config.idf else ()
    scoring = ScoreParts(
        config=model.config,
        backend=model.settings.backend_version,
        folder=job.folder,
        weightings=weightings,
        scores=f"{SCORES_FOLDER}/{model.digest}/{how}",
        idf=tuple(f"{IDF_FOLDER}/{model.digest}/{corpus}-{group}.npz" for group in groups),
    )
    present = {f"{SCORES_FOLDER}/{name}" for name in job.folder.files(SCORES_FOLDER)}
    pending = [part for part in parts if scoring.name(part) not in present]
    if pending:
        _count_idf(job, model, scoring.idf)
        yield score_stage(job, scoring, pending, model.name)
    return _read_all(job.folder, [scoring.name(part) for part in parts])


def score_stage(
    job: TuneJob, scoring: ScoreParts, parts: Sequence[Part] = (), model: str = ""
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
            (scoring.name(part).removeprefix(f"{SCORES_FOLDER}/"), part.rows) for part in parts
        ),
        unit="pairs",
    )


def _count_idf(job: TuneJob, model: TuneModel, paths: Sequence[str]) -> None:
    judgements, tokenizer = job.plan.judgements, model.settings.tokenizer
    for group, path in enumerate(paths):
        if job.folder.exists(path):
            continue
        texts = [text for row in judgements.of_group(group) for text in judgements.references[row]]
        table = IdfTable(
            frequencies=DocumentFrequencies.from_tokens(tokenizer.encode(texts)),
            tokenizer=tokenizer.fingerprint,
            max_length=tokenizer.max_length,
        )
        job.folder.write(path, table.to_bytes())


def _read_all(folder: OutputFolder, paths: Sequence[str]) -> ModelScores:
    values, seconds = [], 0.0
    for path in paths:
        with np.load(io.BytesIO(folder.read(path)), allow_pickle=False) as archive:
            values.append(archive["scores"])
            seconds += float(archive["seconds"])
    return ModelScores(values=np.concatenate(values, axis=-1), seconds=seconds)
