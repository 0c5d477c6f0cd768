"""The stages of a baseline run that pass files to steps, and which files are still to do.

Those that sample and pair are in sample.py.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

import apache_beam as beam

from bertscore_beam.baseline.baseline_plan import BaselineJob, BaselineModel
from bertscore_beam.baseline.extract import (
    ExtractSettings,
    extract_block,
    fetch_lane,
    lane_name,
    lanes_of_files,
)
from bertscore_beam.baseline.layer_moments import (
    CountParts,
    PairsToCount,
    PairsToScore,
    ScorePairParts,
    write_idf,
)
from bertscore_beam.baseline.sources import (
    FETCHED_FOLDER,
    MOMENTS_FOLDER,
    SENTENCES_FOLDER,
    PairsRecord,
    SentenceFile,
    blocks_of_files,
    digest_of,
    idf_path,
    moments_folder,
    pairs_path,
    raw_record_path,
)
from bertscore_beam.run import Amounts, Each, OutputFolder, RunOnDevice, RunStep, Stage
from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig
from bertscore_core.stats import Moments

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
        folder=FETCHED_FOLDER,
        amounts=Amounts(
            (raw_record_path(file.label).removeprefix(f"{FETCHED_FOLDER}/"), 1) for file in files
        ),
    )


def read_stage(
    job: BaselineJob, files: Sequence[SentenceFile] = (), languages: Sequence[str] = ()
) -> Stage:
    """Return the stage that reads files; those of the web are in the output folder by then."""
    options = job.options
    blocks = blocks_of_files(files)
    settings = ExtractSettings(
        folder=job.folder,
        seed=options.seed,
        page_cap=options.sentences_per_page,
        rules=job.plan.source.rules,
        policy=job.plan.source.policy,
        source=options.source,
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
        folder=SENTENCES_FOLDER,
        amounts=Amounts((f"{block.name}.json", len(block.files)) for block in blocks),
    )


def count_idf(
    job: BaselineJob, model: BaselineModel, pairs: Mapping[str, PairsRecord]
) -> Generator[Stage, None, dict[str, IdfTable | None]]:
    """Count the sentences of every language with a model's tokens; tables there are kept."""
    if not model.config.idf:
        return dict.fromkeys(pairs)
    pending = [
        PairsToCount(
            pairs=pairs_path(code, part.name),
            table=idf_path(code, model.name),
            corpus=record.digest,
        )
        for code, record in pairs.items()
        if _find_idf(job.folder, model, record) is None
        for part in record.parts
    ]
    if pending:
        yield count_stage(job, model.config, pending, model.name)
    tables = {code: _find_idf(job.folder, model, record) for code, record in pairs.items()}
    for code, table in tables.items():
        if table is None:
            path = idf_path(code, model.name)
            raise RuntimeError(f"the idf table {path} was not written; run the command again")
    return tables


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


def _find_idf(folder: OutputFolder, model: BaselineModel, record: PairsRecord) -> IdfTable | None:
    (data,) = folder.read_if_there(idf_path(record.language, model.name))
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
    """Score the pairs of every language with one model; sums that are there are kept."""
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
    """Return the stage that scores pairs with one model."""
    score = RunOnDevice(step, job.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.scoring,
        build=lambda root: root | beam.Create(parts) | "ScorePairParts" >> score,
        words=f"Scoring {sum(part.rows for part in parts):,} pairs with {model}",
        folder=MOMENTS_FOLDER,
        amounts=Amounts(
            (part.moments.removeprefix(f"{MOMENTS_FOLDER}/"), part.rows) for part in parts
        ),
        unit="pairs",
    )


def _parts(model: BaselineModel, record: PairsRecord) -> list[PairsToScore]:
    folder = moments_folder(record.language, model.name)
    digest = digest_of(f"{record.digest} {model.digest}")
    return [
        PairsToScore(
            pairs=pairs_path(record.language, part.name),
            moments=f"{folder}/{digest}-{part.name}.npz",
            rows=part.rows,
            idf=idf_path(record.language, model.name) if model.config.idf else None,
        )
        for part in record.parts
    ]


def _pending(
    folder: OutputFolder, model: BaselineModel, language: str, parts: Sequence[PairsToScore]
) -> list[PairsToScore]:
    below = moments_folder(language, model.name)
    written = {f"{below}/{name}" for name in folder.files(below)}
    # A model's name may begin with another's and a slash: files further below are not its own.
    own = {path for path in written if path.count("/") == below.count("/") + 1}
    folder.delete(*sorted(own - {part.moments for part in parts}))
    return [part for part in parts if part.moments not in written]


def _merge(folder: OutputFolder, parts: Sequence[PairsToScore]) -> Moments:
    return Moments.merge(
        moments
        for start in range(0, len(parts), _READ_AT_ONCE)
        for moments in _read_moments(folder, parts[start : start + _READ_AT_ONCE])
    )


def _read_moments(folder: OutputFolder, parts: Sequence[PairsToScore]) -> Iterator[Moments]:
    paths = [part.moments for part in parts]
    for path, data in zip(paths, folder.read_if_there(*paths), strict=True):
        if data is None:
            raise RuntimeError(f"the sums {path} were not written; run the command again")
        yield Moments.from_bytes(data, folder.path(path))
