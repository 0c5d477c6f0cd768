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
from bertscore_beam.files.checked import digest_of, to_json
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder, nan_to_null, write_run
from bertscore_beam.run.job import Run, Say
from bertscore_beam.run.output import DONE, TOO_MANY_REJECTS, Outcome
from bertscore_beam.run.phases import Phase, given
from bertscore_beam.run.publication import readable_head
from bertscore_core.errors import IdfError, InputError
from bertscore_core.idf import IdfTable
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.stats.moments import Moments


def baseline_job(options: BaselineOptions, run: Run) -> Outcome:
    """Sample sentences, pair them at random, score the pairs and make tables of the sums."""
    plan = prepare_baseline(options, run.runner)
    if options.dry_run:
        return Outcome(shown=baseline_tables.show_plan(plan), is_answer=True)
    folder = run.take(plan.output)
    with run.first_writing():
        job = begin_baseline(plan, folder, run.say)
    pairs = collect_pairs(job, run)
    for stale in baseline_tables.stale_tables(folder, pairs):
        run.say(
            f"{stale} was made from another sample, or the .json beside it is damaged, and is left "
            "out. Name its model in --models to make it again."
        )
        job.stale.append(stale)
    return _conclude_baseline(job, _make_tables(job, run, pairs))


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
        for code, files in sources.list_files(plan.options, plan.languages).items()
    )


def _make_tables(
    job: BaselineJob, run: Run, pairs: Mapping[str, sources.PairsRecord]
) -> dict[str, Any]:
    """Score the pairs with every model; return what came of it, with the tables in the job."""
    tables, unusable = [], []
    for model in job.plan.models:
        parts = {
            code: _parts(model, record)
            for code, record in pairs.items()
            if code in model.languages and record.parts
        }
        for language, (sums, idf) in _score_with_model(job, run, model, parts).items():
            try:
                made = baseline_tables.write_table(job, model, pairs[language], sums, idf)
                tables.append(_table_row(made))
            except InputError as error:  # no pair with tokens on both sides, or a mean of 1
                table = sources.table_path(language, model.name)
                unusable.append({"table": table, "reason": str(error)})
    summary: dict[str, Any] = nan_to_null(
        {
            "source": job.options.source_shown,
            "seconds": round(time.time() - job.started, 1),
            "tables": tables,
            "unusable": unusable,
            "languages": {code: _sample_row(record) for code, record in pairs.items()},
        }
    )
    job.files[SUMMARY_FILE] = to_json(summary, indent=2)
    return summary


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
    idf, moments = (
        sources.model_folder(below, record.language, model.name)
        for below in (sources.IDF_FOLDER, sources.MOMENTS_FOLDER)
    )
    digest = digest_of(f"{record.digest} {model.digest}", 16)
    return [
        PairsToScore(
            pairs=part.path,
            moments=f"{moments}/{digest}-{part.name}.npz",
            rows=part.rows,
            seal=part.seal,
            idf=f"{idf}/{digest}.npz" if model.setting.config.idf else "",
            corpus=record.digest,
        )
        for part in record.parts
    ]


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
) -> dict[str, tuple[Moments, IdfTable | None]]:
    """Count and score the pairs of every language with one model; what is there is kept."""
    folder = job.folder
    pending: list[PairsToScore] = []
    uncounted: list[PairsToScore] = []
    for language, wanted in parts.items():
        named = {part.idf for part in wanted} | {part.moments for part in wanted}
        there: set[str] = set()
        for kind in (sources.IDF_FOLDER, sources.MOMENTS_FOLDER):
            below = sources.model_folder(kind, language, model.name)
            # A model's name may begin with another's and a slash: what is further below is not its.
            there |= {f"{below}/{name}" for name in folder.files(below) if "/" not in name}
        folder.delete(*sorted(there - named))
        pending += [part for part in wanted if part.moments not in there]
        if model.setting.config.idf and _read_idf(folder, wanted) is None:
            uncounted += wanted
    if pending or uncounted:
        step = ScorePairParts(setting=model.setting, folder=folder)
        rows = sum(part.rows for part in pending)
        expected = step.expected(pending, f"Scoring {rows:,} pairs with {model.name}")
        counting = count_phases(folder, model.setting.config, uncounted) if uncounted else ()
        phases = (*counting, step.phase(job.options.accelerator, pending))
        run.do(phases, expected, runner=job.plan.scoring)
    return {
        code: (Moments.merge(_read_moments(folder, wanted)), _read_idf(folder, wanted))
        for code, wanted in parts.items()
    }


def _read_idf(folder: OutputFolder, parts: Sequence[PairsToScore]) -> IdfTable | None:
    """Return the idf table of parts; None if they need none, or if it is not there or damaged."""
    try:
        return IdfTable.from_bytes(folder.read(parts[0].idf)) if parts[0].idf else None
    except (FileNotFoundError, IdfError):
        return None


def _read_moments(folder: OutputFolder, parts: Sequence[PairsToScore]) -> Iterator[Moments]:
    contents = folder.read_each(part.moments for part in parts)
    for part, data in zip(parts, contents, strict=True):
        yield Moments.from_bytes(data or b"", folder.path(part.moments))


def _conclude_baseline(job: BaselineJob, summary: Mapping[str, Any]) -> Outcome:
    """Publish the tables, and turn the summary into what is shown and an exit status."""
    done = not summary["unusable"] and not baseline_tables.languages_without_pairs(
        summary["languages"]
    )
    with worker_errors():
        baseline_tables.publish_tables(job, is_success=done)
    return Outcome(
        status=DONE if done else TOO_MANY_REJECTS,
        shown=(baseline_tables.show_tables(summary, job.folder),),
        document={"output": job.folder.shown, "summary": summary},
        warnings=tuple(
            baseline_tables.warnings_of(summary, cure=baseline_tables.more_of(job.options))
        ),
    )
