"""The stages of a baseline run that hand files to steps, and what is left for them to do.

Those that sample and pair are in sample.py and pair.py.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

import apache_beam as beam

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.count_idf import CountParts, PairsToCount, write_idf
from bertscore_beam.baseline.extract import ExtractSettings, extract_block
from bertscore_beam.baseline.fetch import fetch_lane, lane_name, lanes_of_files
from bertscore_beam.baseline.inputs import SentenceFile, blocks_of_files
from bertscore_beam.baseline.moments import PairsToScore, ScorePairParts
from bertscore_beam.baseline.plan import BaselineJob, BaselineModel
from bertscore_beam.baseline.records import PairsRecord, digest_of
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.progress import Amounts
from bertscore_beam.run.run_step import RunOnDevice, RunStep
from bertscore_beam.run.stage import Stage
from bertscore_beam.run.step import Each
from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig
from bertscore_core.moments import Moments

_READ_AT_ONCE = 64
"""Parts whose sums are in memory at the same time: 10 MB for 24 layers."""


def fetch_stage(job: BaselineJob, files: Sequence[SentenceFile] = ()) -> Stage:
    """Return the stage that fetches files."""
    lanes = lanes_of_files(files, job.options.downloads)
    fetch = partial(fetch_lane, folder=job.folder, policy=job.plan.source.policy)

    def build(root: beam.Pipeline) -> None:
        # A lane is one element, so that no runner can divide it and have more requests at a time.
        spread = root | beam.Create(lanes) | "SpreadLanes" >> beam.Reshuffle()
        _ = spread | "FetchLane" >> beam.ParDo(RunStep(Each(fetch, lane_name)))

    return Stage(
        name="fetch",
        runner=job.plan.runner,
        build=build,
        words=f"Fetching {len(files):,} files",
        folder=layout.FETCHED_FOLDER,
        amounts=Amounts(
            (layout.raw_record_path(file.label).removeprefix(f"{layout.FETCHED_FOLDER}/"), 1)
            for file in files
        ),
    )


def read_stage(
    job: BaselineJob, files: Sequence[SentenceFile] = (), languages: Sequence[str] = ()
) -> Stage:
    """Return the stage that reads files; those of the web are in the output folder by then.

    Args:
        job: The run.
        files: What to read.
        languages: Languages they are read for.
    """
    options = job.options
    blocks = blocks_of_files(files)
    settings = ExtractSettings(
        folder=job.folder,
        seed=options.seed,
        page_cap=options.sentences_per_page,
        rules=job.plan.source.rules,
        policy=job.plan.source.policy,
    )

    def build(root: beam.Pipeline) -> None:
        step = Each(partial(extract_block, settings=settings), attrgetter("name"))
        # Every worker reads blocks; no text crosses a stage.
        spread = root | beam.Create(blocks) | "SpreadBlocks" >> beam.Reshuffle()
        _ = spread | "ExtractBlock" >> beam.ParDo(RunStep(step))

    return Stage(
        name="read",
        runner=job.plan.runner,
        build=build,
        words=f"Reading {len(files):,} files for {', '.join(languages)}",
        folder=layout.SENTENCES_FOLDER,
        amounts=Amounts((f"{block.name}.json", len(block.files)) for block in blocks),
    )


def count_idf(
    job: BaselineJob, model: BaselineModel, pairs: Mapping[str, PairsRecord]
) -> Generator[Stage, None, dict[str, IdfTable | None]]:
    """Count the sentences of every language with a model's tokens; tables that are there are kept.

    Yields:
        The stage that counts what is left to count, if anything is.

    Returns:
        The table of each language; None for a model that scores without idf.
    """
    if not model.config.idf:
        return dict.fromkeys(pairs)
    pending = [
        PairsToCount(
            pairs=layout.pairs_path(code, part.name),
            table=layout.idf_path(code, model.name),
            corpus=record.digest,
        )
        for code, record in pairs.items()
        if _find_idf(job.folder, model, record) is None
        for part in record.parts
    ]
    if pending:
        yield count_stage(job, model.config, pending, model.name)
    return {code: _read_idf(job.folder, model, record) for code, record in pairs.items()}


def count_stage(
    job: BaselineJob,
    config: ScorerConfig,
    parts: list[PairsToCount] | None = None,
    model: str = "",
) -> Stage:
    """Return the stage that counts sentences with the tokens of a model."""

    def build(root: beam.Pipeline) -> None:
        _ = (
            root
            | beam.Create(parts or [])
            | "SpreadParts" >> beam.Reshuffle()
            # (table to write, frequencies): only these cross to the combine.
            | "CountPart" >> beam.ParDo(RunStep(CountParts(config, job.folder)))
            | "MergeFrequencies" >> beam.CombinePerKey(DocumentFrequencies.merge)
            | "WriteIdf" >> beam.MapTuple(partial(write_idf, folder=job.folder))
        )

    return Stage(
        name="count",
        # Where pairs are scored: only there the model's files must be.
        runner=job.plan.scoring,
        build=build,
        words=f"Counting the tokens of {model}",
    )


def _read_idf(folder: OutputFolder, model: BaselineModel, record: PairsRecord) -> IdfTable:
    """Read the table of a language.

    Raises:
        RuntimeError: It is not there, or was counted over other pairs.
    """
    found = _find_idf(folder, model, record)
    if found is None:
        path = layout.idf_path(record.language, model.name)
        raise RuntimeError(f"the idf table {path} was not written; run the command again")
    return found


def _find_idf(folder: OutputFolder, model: BaselineModel, record: PairsRecord) -> IdfTable | None:
    """Return the table that is there already, if it is of these pairs and tokens."""
    (data,) = folder.read_if_there(layout.idf_path(record.language, model.name))
    if data is None:
        return None
    tokenizer = model.settings.tokenizer
    try:
        table = IdfTable.from_bytes(data)
        table.check_fits(tokenizer.fingerprint, tokenizer.max_length)
    except IdfError:
        return None
    return table if table.corpus == record.digest else None


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
    step: ScorePairParts,
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
    score = RunOnDevice(step, job.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.scoring,
        build=lambda root: root | beam.Create(parts) | "ScorePairParts" >> score,
        words=f"Scoring {sum(part.rows for part in parts):,} pairs with {model}",
        folder=layout.MOMENTS_FOLDER,
        amounts=Amounts((layout.below_moments(part.moments), part.rows) for part in parts),
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
