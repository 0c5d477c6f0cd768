"""The baseline job: begun, run in stages, and concluded.

    files --> sentences --> sample --> random pairs --> sums over the scores --> tables

Reading and sampling are repeated while a language lacks sentences. Counting idf and scoring have a
stage for every model, pairing one on a service, and here one for every language. What an earlier
run finished is not done again.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from bertscore_beam.baseline import baseline_tables, sources
from bertscore_beam.baseline.baseline_plan import (
    BaselineJob,
    BaselineModel,
    BaselinePlan,
    check_folder,
    prepare_baseline,
)
from bertscore_beam.baseline.collect_sentences import collect_samples
from bertscore_beam.baseline.extract import SentenceIndex
from bertscore_beam.baseline.layer_moments import (
    CountParts,
    PairsToScore,
    ScorePairParts,
    merge_tables,
)
from bertscore_beam.baseline.sample import make_pairs
from bertscore_beam.files.checked import digest_of, from_json
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import (
    SUCCESS_FILE,
    SUMMARY_FILE,
    OutputFolder,
    declare_success,
    write_run,
)
from bertscore_beam.run.job import JobKind, Say
from bertscore_beam.run.output import DONE, TOO_MANY_REJECTS, Outcome
from bertscore_beam.run.progress import Stage
from bertscore_beam.run.run_step import RunOnDevice, RunStep
from bertscore_core.errors import IdfError, InputError
from bertscore_core.idf import IdfTable
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.stats.moments import Moments


def begin_baseline(
    plan: BaselinePlan, folder: OutputFolder, say: Say
) -> tuple[BaselineJob, Iterator[Stage]]:
    """Write down whose folder this is, and take back an earlier success.

    Raises:
        FolderLostError: The folder belongs to another run by now.
        SignatureError: Another run has worked on it since it was checked.
    """
    job = BaselineJob(plan=plan, folder=folder, index=SentenceIndex(folder), say=say)
    before = check_folder(plan, folder)
    must_start_again = plan.options.overwrite and _is_of_other_input(plan, before)
    folder.delete(SUCCESS_FILE)  # before the summary: no success without one
    folder.delete(SUMMARY_FILE)
    if must_start_again:
        baseline_tables.delete_output(folder)
    folder.delete_temporary()
    write_run(
        folder,
        {
            "run": job.run,
            "files": {} if must_start_again else before.get("files", {}),
            "identity": plan.identity,
            "options": plan.options.describe(),
        },
    )
    if plan.device_note is not None:
        say(f"The encoder runs on {plan.device_note}")
    return job, _baseline_stages(job)


def _is_of_other_input(plan: BaselinePlan, before: Mapping[str, Any]) -> bool:
    """Tell whether a folder is of other settings, or of other files of the source."""
    listed = before.get("files", {})
    return before.get("identity") != plan.identity or any(
        listed.get(code, files.digest) != files.digest
        for code, files in plan.source.files().items()
    )


def _baseline_stages(job: BaselineJob) -> Iterator[Stage]:
    """Yield what is left to do, then write the tables and the summary."""
    samples = yield from collect_samples(job)
    for stale in baseline_tables.delete_stale_tables(job.folder, samples):
        job.say(f"{stale} was made from another sample and was deleted.")
    pairs = yield from make_pairs(job, samples)
    tables, unusable = [], []
    for model in job.plan.models:
        parts = {
            code: _parts(model, record) for code, record in pairs.items() if code in model.languages
        }
        idf = yield from _count_idf(job, model, parts)
        moments = yield from _score_with_model(job, model, parts)
        for language, sums in moments.items():
            try:
                made = baseline_tables.write_table(
                    job, model, samples[language], pairs[language], sums, idf[language]
                )
                tables.append(_table_row(made))
            except InputError as error:  # no pair with tokens on both sides, or a mean of 1
                table = sources.table_path(language, model.name)
                unusable.append({"table": table, "reason": str(error)})
    job.folder.write_json(
        SUMMARY_FILE,
        {
            "source": job.plan.source.shown,
            "seconds": round(time.time() - job.started, 1),
            "tables": tables,
            "unusable": unusable,
            "languages": {code: _sample_row(samples[code]) for code in job.plan.source.languages},
        },
    )


def _table_row(made: Mapping[str, Any]) -> dict[str, Any]:
    errors = [layer["f1"]["standard_error"] for layer in made["layers"]]
    return {
        "table": sources.table_path(made["language"], made["model"]),
        "pairs": made["pairs"],
        "pairs_without_tokens": made["pairs_without_tokens"],
        "largest_error": None if None in errors else max(errors),
        "failed_checks": [check["name"] for check in made["checks"] if check["passed"] is False],
        "skipped_checks": [check["name"] for check in made["checks"] if check["passed"] is None],
    }


def _sample_row(sample: sources.SampleRecord) -> dict[str, Any]:
    files = sample.files
    return {
        "sentences": sample.found,
        "wanted": sample.wanted,
        "files": len(files["files"]),
        "failed_files": len(files["failed"]),
        "records": files["records"],
        "records_broken": files["records_broken"],
    }


# The stages that count and score pairs.


def _parts(model: BaselineModel, record: sources.PairsRecord) -> list[PairsToScore]:
    folder = sources.moments_folder(record.language, model.name)
    digest = digest_of(f"{record.digest} {model.digest}", 16)
    return [
        PairsToScore(
            pairs=sources.pairs_path(record.language, part.name),
            moments=f"{folder}/{digest}-{part.name}.npz",
            rows=part.rows,
            digest=part.digest,
            idf=sources.idf_path(record.language, model.name) if model.config.idf else "",
            corpus=record.digest,
        )
        for part in record.parts
    ]


def _count_idf(
    job: BaselineJob, model: BaselineModel, parts: Mapping[str, Sequence[PairsToScore]]
) -> Generator[Stage, None, dict[str, IdfTable | None]]:
    """Count the sentences of every language with a model's tokens; tables there are kept."""
    if not model.config.idf:
        return dict.fromkeys(parts)
    tables = {code: _find_idf(job.folder, model, parts[code][0]) for code in parts}
    pending = [part for code, table in tables.items() if table is None for part in parts[code]]
    if pending:
        yield _count_stage(job, model.config, pending, model.name)
    paths = {code: sources.idf_path(code, model.name) for code in parts}
    return {
        code: table or IdfTable.from_bytes(job.folder.read(paths[code]), paths[code])
        for code, table in tables.items()
    }


def _find_idf(folder: OutputFolder, model: BaselineModel, part: PairsToScore) -> IdfTable | None:
    data = folder.read_if_there(part.idf)
    tokenizer = model.settings.tokenizer
    try:
        table = IdfTable.from_bytes(data or b"")
        table.check_fits(tokenizer.fingerprint, tokenizer.max_length)
    except IdfError:
        return None
    return table if table.corpus == part.corpus else None


def _count_stage(
    job: BaselineJob, config: ScorerConfig, parts: Sequence[PairsToScore] = (), model: str = ""
) -> Stage:
    folder = job.folder

    def build(root: beam.Pipeline) -> None:
        _ = (
            root
            | beam.Create(parts)
            | "SpreadParts" >> beam.Reshuffle()
            # (path, idf table): only these cross to the combine.
            | "CountPart" >> beam.ParDo(RunStep(CountParts(config, folder)))
            | "MergeTables" >> beam.CombinePerKey(merge_tables)
            | "WriteIdf" >> beam.MapTuple(lambda path, table: folder.write(path, table.to_bytes()))
        )

    return Stage(
        name="count",
        # Where pairs are scored: only there the model's files must be.
        runner=job.plan.scoring,
        build=build,
        message=f"Counting the tokens of {model}",
    )


def _score_with_model(
    job: BaselineJob, model: BaselineModel, parts: Mapping[str, Sequence[PairsToScore]]
) -> Generator[Stage, None, dict[str, Moments]]:
    """Score the pairs of every language with one model; sums that are there are kept."""
    pending = []
    for language, wanted in parts.items():
        below = sources.moments_folder(language, model.name)
        # A model's name may begin with another's and a slash: files further below are not its own.
        written = {f"{below}/{name}" for name in job.folder.files(below) if "/" not in name}
        job.folder.delete(*sorted(written - {part.moments for part in wanted}))
        pending += [part for part in wanted if part.moments not in written]
    if pending:
        step = ScorePairParts(
            config=model.config, backend=model.settings.backend_version, folder=job.folder
        )
        yield _score_stage(job, step, pending, model.name)
    return {code: Moments.merge(_read_moments(job.folder, parts[code])) for code in parts}


def _score_stage(
    job: BaselineJob, step: ScorePairParts, parts: Sequence[PairsToScore] = (), model: str = ""
) -> Stage:
    score = RunOnDevice(step, job.options.accelerator)
    return Stage(
        name="score",
        runner=job.plan.scoring,
        build=lambda root: root | beam.Create(parts) | "ScorePairParts" >> score,
        message=f"Scoring {sum(part.rows for part in parts):,} pairs with {model}",
        folder=sources.MOMENTS_FOLDER,
        amounts={
            part.moments.removeprefix(f"{sources.MOMENTS_FOLDER}/"): part.rows for part in parts
        },
        unit="pairs",
    )


def _read_moments(folder: OutputFolder, parts: Sequence[PairsToScore]) -> Iterator[Moments]:
    contents = folder.read_each(part.moments for part in parts)
    for part, data in zip(parts, contents, strict=True):
        yield Moments.from_bytes(data or b"", folder.path(part.moments))


def _conclude_baseline(job: BaselineJob) -> Outcome:
    """Mark a success, and turn the summary into what is shown and an exit status."""
    with worker_errors():
        summary = from_json(job.folder.read(SUMMARY_FILE))
    done = not summary["unusable"] and not baseline_tables.languages_without_pairs(
        summary["languages"]
    )
    if done:
        declare_success(job.folder, job.run)
    return Outcome(
        status=DONE if done else TOO_MANY_REJECTS,
        shown=(baseline_tables.show_tables(summary, job.folder),),
        document={"output": job.folder.shown, "summary": summary},
        warnings=tuple(baseline_tables.warnings_of(summary, cure=job.plan.source.cure)),
    )


BASELINE = JobKind(
    prepare=prepare_baseline,
    show=baseline_tables.show_plan,
    begin=begin_baseline,
    conclude=_conclude_baseline,
)
