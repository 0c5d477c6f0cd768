"""The baseline job: begun, its phases, and its end.

    files --> sentences --> sample --> random pairs --> sums over the scores --> tables

Reading and sampling are repeated while a language lacks sentences. Counting idf and scoring are
done for one model after the other. What an earlier run finished is not done again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bertscore_beam.baseline import baseline_tables, sources
from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.baseline_plan import (
    BaselineJob,
    BaselineModel,
    BaselinePlan,
    check_folder,
    list_tables,
    prepare_baseline,
)
from bertscore_beam.baseline.collect_sentences import collect_pairs
from bertscore_beam.baseline.extract import SentenceIndex
from bertscore_beam.baseline.layer_moments import (
    CountParts,
    PairsToScore,
    ScorePairParts,
    merge_tables,
)
from bertscore_beam.files.checked import digest_of, from_json, to_json
from bertscore_beam.files.reach import before_work
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder, nan_to_null, write_run
from bertscore_beam.run.job import Run, Say
from bertscore_beam.run.output import DONE, TOO_MANY_REJECTS, Outcome
from bertscore_beam.run.phases import Phase, given
from bertscore_beam.run.progress import Expected
from bertscore_beam.run.publication import readable_head
from bertscore_core.errors import IdfError, InputError
from bertscore_core.idf import IdfTable
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.stats.moments import Moments


def baseline_job(options: BaselineOptions, run: Run) -> Outcome:
    """Sample sentences, pair them at random, score the pairs and make tables of the sums."""
    with before_work():
        plan = prepare_baseline(options, run.runner)
    if options.dry_run:
        return run.shown(lambda: baseline_tables.show_plan(plan))
    folder = run.take(plan.output)
    with run.first_writing():
        job = begin_baseline(plan, folder, run.say)
    pairs = collect_pairs(job, run)
    for stale in baseline_tables.stale_tables(folder, pairs):
        run.say(f"{stale} was made from another sample and is left out.")
        job.stale.append(stale)
    _make_tables(job, run, pairs)
    return _conclude_baseline(job)


def begin_baseline(plan: BaselinePlan, folder: OutputFolder, say: Say) -> BaselineJob:
    """Write down whose folder this is.

    Raises:
        SignatureError: Another run has worked on it since it was checked.
    """
    head = readable_head(folder)
    job = BaselineJob(plan=plan, folder=folder, before=head, index=SentenceIndex(folder), say=say)
    before = check_folder(plan, folder)
    must_start_again = plan.options.overwrite and _is_of_other_input(plan, before)
    if must_start_again:
        baseline_tables.delete_data(folder)
        job.stale.extend(list_tables(folder.files()))
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
    return job


def _is_of_other_input(plan: BaselinePlan, before: Mapping[str, Any]) -> bool:
    """Tell whether a folder is of other settings, or of other files of the source."""
    listed = before.get("files", {})
    return before.get("identity") != plan.identity or any(
        listed.get(code, files.digest) != files.digest
        for code, files in plan.source.files().items()
    )


def _make_tables(job: BaselineJob, run: Run, pairs: Mapping[str, sources.PairsRecord]) -> None:
    """Score the pairs with every model; write the tables and the summary."""
    tables, unusable = [], []
    for model in job.plan.models:
        parts = {
            code: _parts(model, record)
            for code, record in pairs.items()
            if code in model.languages and record.parts
        }
        idf = _count_idf(job, run, model, parts)
        moments = _score_with_model(job, run, model, parts)
        for language, sums in moments.items():
            try:
                made = baseline_tables.write_table(job, model, pairs[language], sums, idf[language])
                tables.append(_table_row(made))
            except InputError as error:  # no pair with tokens on both sides, or a mean of 1
                table = sources.table_path(language, model.name)
                unusable.append({"table": table, "reason": str(error)})
    summary = nan_to_null(
        {
            "source": job.plan.source.shown,
            "seconds": round(time.time() - job.started, 1),
            "tables": tables,
            "unusable": unusable,
            "languages": {code: _sample_row(record) for code, record in pairs.items()},
        }
    )
    job.files[SUMMARY_FILE] = to_json(summary, indent=2)


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


def _sample_row(record: sources.PairsRecord) -> dict[str, Any]:
    files = record.files
    return {
        "sentences": record.found,
        "wanted": record.wanted,
        "files": len(files["files"]),
        "failed_files": len(files["failed"]),
        "records": files["records"],
        "records_broken": files["records_broken"],
    }


# The phases that count and score pairs.


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
    job: BaselineJob, run: Run, model: BaselineModel, parts: Mapping[str, Sequence[PairsToScore]]
) -> dict[str, IdfTable | None]:
    """Count the sentences of every language with a model's tokens; tables there are kept."""
    if not model.config.idf:
        return dict.fromkeys(parts)
    tables = {code: _find_idf(job.folder, model, parts[code][0]) for code in parts}
    pending = [part for code, table in tables.items() if table is None for part in parts[code]]
    if pending:
        expected = Expected(message=f"Counting the tokens of {model.name}")
        # Where pairs are scored: only there the model's files must be.
        phases = count_phases(job.folder, model.config, pending)
        run.do(phases, expected, runner=job.plan.scoring)
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


def count_phases(
    folder: OutputFolder, config: ScorerConfig, parts: Sequence[PairsToScore] = ()
) -> tuple[Phase, ...]:
    """Return the phases that count parts of pairs, and save an idf table for each language."""
    step = CountParts(config, folder)
    return (
        Phase(name="CountParts", items=given(parts), step=step, fold=merge_tables, by_key=True),
        Phase(name="WriteIdf", items=partial(_write_idf, folder)),
    )


def _write_idf(folder: OutputFolder, merged: tuple[str, IdfTable]) -> tuple[()]:
    path, table = merged
    folder.write(path, table.to_bytes())
    return ()


def _score_with_model(
    job: BaselineJob, run: Run, model: BaselineModel, parts: Mapping[str, Sequence[PairsToScore]]
) -> dict[str, Moments]:
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
        below = f"{sources.MOMENTS_FOLDER}/"
        expected = Expected(
            message=f"Scoring {sum(part.rows for part in pending):,} pairs with {model.name}",
            folder=sources.MOMENTS_FOLDER,
            amounts={part.moments.removeprefix(below): part.rows for part in pending},
            unit="pairs",
        )
        run.do(score_phases(step, job.options, pending), expected, runner=job.plan.scoring)
    return {code: Moments.merge(_read_moments(job.folder, parts[code])) for code in parts}


def score_phases(
    step: ScorePairParts, options: BaselineOptions, parts: Sequence[PairsToScore] = ()
) -> tuple[Phase]:
    """Return the phase that scores parts of pairs with one model."""
    items, accelerator = given(parts), options.accelerator
    return (Phase(name="ScorePairParts", items=items, step=step, accelerator=accelerator),)


def _read_moments(folder: OutputFolder, parts: Sequence[PairsToScore]) -> Iterator[Moments]:
    contents = folder.read_each(part.moments for part in parts)
    for part, data in zip(parts, contents, strict=True):
        yield Moments.from_bytes(data or b"", folder.path(part.moments))


def _conclude_baseline(job: BaselineJob) -> Outcome:
    """Publish the tables, and turn the summary into what is shown and an exit status."""
    summary = from_json(job.files[SUMMARY_FILE])
    done = not summary["unusable"] and not baseline_tables.languages_without_pairs(
        summary["languages"]
    )
    with worker_errors():
        baseline_tables.publish_tables(job, is_success=done)
    return Outcome(
        status=DONE if done else TOO_MANY_REJECTS,
        shown=(baseline_tables.show_tables(summary, job.folder),),
        document={"output": job.folder.shown, "summary": summary},
        warnings=tuple(baseline_tables.warnings_of(summary, cure=job.plan.source.cure)),
    )
