"""The baseline job: begun, run in stages, and concluded.

    files --> sentences --> sample --> random pairs --> sums over the scores --> tables

Files of the web are fetched before they are read. Reading and sampling are repeated while a
language lacks sentences. Pairing has a stage for every language, counting idf and scoring one for
every model. What an earlier run finished is not done again.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.baseline_plan import (
    BaselineJob,
    BaselinePlan,
    check_folder,
    prepare_baseline,
)
from bertscore_beam.baseline.baseline_tables import (
    delete_output,
    delete_stale_tables,
    describe_certainty,
    languages_without_pairs,
    show_plan,
    show_tables,
    warnings_of,
    write_table,
)
from bertscore_beam.baseline.blocks import SentenceIndex
from bertscore_beam.baseline.collect_sentences import collect_samples
from bertscore_beam.baseline.file_stages import (
    count_idf,
    count_stage,
    fetch_stage,
    read_stage,
    score_stage,
    score_with_model,
)
from bertscore_beam.baseline.layer_moments import ScorePairParts
from bertscore_beam.baseline.sample import make_pairs, pair_stage, sample_stage
from bertscore_beam.baseline.sources import SampleRecord, Source, table_path
from bertscore_beam.crawl import FetchPolicy, PageRules
from bertscore_beam.run import (
    DONE,
    RUN_FILE,
    SUCCESS_FILE,
    SUMMARY_FILE,
    TOO_MANY_REJECTS,
    JobKind,
    Outcome,
    OutputFolder,
    Runner,
    Say,
    Stage,
    declare_success,
    worker_errors,
)
from bertscore_core import InputError, ScorerConfig


def begin_baseline(plan: BaselinePlan, folder: OutputFolder, say: Say) -> BaselineJob:
    """Write down whose folder this is, and take back an earlier success.

    Raises:
        FolderLostError: The folder belongs to another run by now.
        SignatureError: Another run has worked on it since it was checked.
    """
    job = BaselineJob(plan=plan, folder=folder, run=uuid.uuid4().hex, started=time.time(), say=say)
    before = check_folder(plan, folder)
    files = before.get("files", {})
    if _must_start_again(plan, before):
        # Killed while it deletes, the run leaves a folder that no settings fit: only another
        # --overwrite may continue in it.
        unlike_any = {"command": "baseline", "state": "being overwritten"}
        folder.write_json(RUN_FILE, {"identity": unlike_any})
        delete_output(folder)
        files = {}
    folder.delete(SUCCESS_FILE)  # before the summary: no success without one
    folder.delete(SUMMARY_FILE)
    folder.delete_temporary()
    folder.write_json(
        RUN_FILE,
        {
            "run": job.run,
            "files": files,
            "identity": plan.identity,
            "options": plan.options.describe(),
        },
    )
    if plan.device_words is not None:
        say(f"The encoder runs on {plan.device_words}")
    return job


def _must_start_again(plan: BaselinePlan, before: Mapping[str, Any]) -> bool:
    if not plan.options.overwrite:
        return False
    listed = before.get("files", {})
    changed = any(
        listed.get(code, files.digest) != files.digest for code, files in plan.files.items()
    )
    return changed or before.get("identity") != plan.identity


def baseline_stages(job: BaselineJob) -> Iterator[Stage]:
    """Yield what is left to do, then write the tables and the summary."""
    index = SentenceIndex(job.folder)
    samples = yield from collect_samples(job, index)
    for stale in delete_stale_tables(job.folder, samples):
        job.say(f"{stale} was made from another sample and was deleted.")
    pairs = yield from make_pairs(job, samples, index)
    tables, unusable = [], []
    for model in job.plan.models:
        of_model = {code: pairs[code] for code in pairs if code in model.languages}
        idf = yield from count_idf(job, model, of_model)
        moments = yield from score_with_model(job, model, of_model)
        for language, sums in moments.items():
            try:
                made = write_table(
                    job, model, samples[language], pairs[language], sums, idf[language]
                )
                tables.append(_table_row(made))
            except InputError as error:  # no pair with tokens on both sides, or a mean of 1
                table = table_path(language, model.name)
                unusable.append({"table": table, "reason": str(error)})
    job.folder.write_json(
        SUMMARY_FILE,
        {
            "source": job.plan.source.shown,
            "seconds": round(time.time() - job.started, 1),
            "tables": tables,
            "unusable": unusable,
            "languages": {
                code: _sample_row(job.plan.source, samples[code])
                for code in job.plan.source.languages
            },
        },
    )


def _table_row(made: Mapping[str, Any]) -> dict[str, Any]:
    errors = [layer["f1"]["standard_error"] for layer in made["layers"]]
    return {
        "table": table_path(made["language"], made["model"]),
        "pairs": made["pairs"],
        "pairs_without_tokens": made["pairs_without_tokens"],
        "largest_error": None if None in errors else max(errors),
        "failed_checks": [check["name"] for check in made["checks"] if check["passed"] is False],
        "skipped_checks": [check["name"] for check in made["checks"] if check["passed"] is None],
    }


def _sample_row(source: Source, sample: SampleRecord) -> dict[str, Any]:
    return {
        "language_check": describe_certainty(source, sample.language, sample.counts),
        "sentences": sample.found,
        "wanted": sample.wanted,
        "files": len(sample.files),
        "failed_files": len(sample.failed),
        "records": sample.records,
        "records_broken": sample.records_broken,
    }


def conclude_baseline(job: BaselineJob) -> Outcome:
    """Mark a success, and turn the summary into what is shown and an exit status."""
    with worker_errors():
        summary = json.loads(job.folder.read(SUMMARY_FILE))
    done = not summary["unusable"] and not languages_without_pairs(summary)
    if done:
        declare_success(job.folder, job.run)
    return Outcome(
        status=DONE if done else TOO_MANY_REJECTS,
        shown=(show_tables(summary, job.folder),),
        document={"output": job.folder.shown, "summary": summary},
        warnings=tuple(warnings_of(summary, cure=job.plan.source.cure)),
    )


def sketch_baseline(options: BaselineOptions, runner: Runner) -> Iterator[Stage]:
    """Yield each stage of a job once, without a plan: its steps do not depend on it."""
    job = BaselineJob(
        plan=BaselinePlan(
            options=options,
            runner=runner,
            scoring=Runner.of(options.for_scoring),
            output=options.output,
            source=Source(
                options=options,
                languages=(),
                policy=FetchPolicy(),
                rules=PageRules(words=options.words),
            ),
        ),
        folder=OutputFolder(options.output),
        run="",
        started=0.0,
        say=lambda _: None,
    )
    yield fetch_stage(job)
    yield read_stage(job)
    yield sample_stage(job)
    yield pair_stage(job)
    if options.idf:
        yield count_stage(job, ScorerConfig(idf=True))
    yield score_stage(job, ScorePairParts(config=ScorerConfig(), backend="", folder=job.folder))


BASELINE = JobKind(
    prepare=prepare_baseline,
    sketch=sketch_baseline,
    show=show_plan,
    begin=begin_baseline,
    stages=baseline_stages,
    conclude=conclude_baseline,
)
