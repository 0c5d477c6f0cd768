"""The scoring job: everything checked and planned, then one pipeline.

    plan --> splits --> CountDocumentFrequencies --> SaveIdf ------+ (side input: the idf table)
                                                                   v
    pending --> splits --> Reshuffle --> [ReadSplit | ScoreChunk | WritePart] --> FinishRun

`python -m pipelines.score` is `bertscore-beam score`.
"""

import hashlib
import json
import logging
import time
from dataclasses import asdict, dataclass, replace

import apache_beam as beam

from bertscore_core import (
    ConfigError,
    IdfTable,
    ScorerConfig,
    Settings,
    Signature,
    parse_baseline,
    settle,
)
from bertscore_core.encoder import resolve_device
from pipelines import manifest
from pipelines.io.files import (
    absolute,
    delete,
    delete_many,
    exists,
    is_file,
    join,
    mask_credentials,
    read_bytes,
    write_atomically,
)
from pipelines.io.inputs import expand_inputs
from pipelines.options import JobOptions, ScoreOptions
from pipelines.planning import Plan, plan_from_bytes, plan_inputs, plan_to_bytes
from pipelines.runners import is_local, threads_per_worker
from pipelines.scoring import TableFields
from pipelines.splits import Split
from pipelines.totals import SHOWN_FAILURES, RunGoal, RunTotals
from pipelines.transforms.finish import FinishRun
from pipelines.transforms.idf import CountDocumentFrequencies, SaveIdf, load_idf
from pipelines.transforms.scoring import ScoreSplits

logger = logging.getLogger(__name__)

PENDING_FILE = "_manifest/pending.pq"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreJob:
    """A scoring run, checked and planned.

    Attributes:
        output: Folder of the run.
        config: How to score.
        fields: Where the texts are.
        signature: How the scores are made, up to the idf table.
        digest: Identity of the job's settings, kept in every part's record.
        plan: All splits.
        pending: Splits that still have to be scored.
        superseded: Parts to delete before: cut elsewhere now, or of inputs that are gone.
        outdated: Parts to be made anew, whose records must go before.
        idf_path: Saved idf table, when there is one or there will be; None without idf.
        count_idf: Whether the table still has to be counted.
        goal: What the run is judged against.
    """

    output: str
    config: ScorerConfig
    fields: TableFields
    signature: Signature
    digest: str
    plan: Plan
    pending: tuple[Split, ...]
    superseded: tuple[str, ...]
    outdated: tuple[str, ...]
    idf_path: str | None
    count_idf: bool
    goal: RunGoal


def scorer_config(options: JobOptions) -> ScorerConfig:
    """Return how to score, from the options of a job.

    Raises:
        ConfigError: the baseline's file cannot be read, or is no such table.
    """
    config = ScorerConfig(
        model=options.model,
        language=options.lang,
        max_length=options.max_length,
        revision=options.revision,
        num_threads=threads_per_worker(options),
    )
    if not isinstance(options, ScoreOptions):
        return config
    baseline = None
    if options.baseline is not None:
        try:
            text = read_bytes(options.baseline).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"baseline {mask_credentials(options.baseline)!r} cannot be read "
                f"({type(error).__name__}); expected a LAYER,P,R,F table. Check --baseline."
            ) from error
        baseline = parse_baseline(text, mask_credentials(options.baseline))
    return replace(
        config,
        num_layers=options.num_layers,
        idf=options.idf != "none",
        rescale=options.rescale,
        baseline=baseline,
        dtype=options.dtype,
        device=options.device,
        max_batch_tokens=options.max_batch_tokens,
        allow_pickle_weights=options.allow_pickle_weights,
    )


def prepare_score(options: ScoreOptions) -> ScoreJob:
    """Check everything a run needs and plan it; no model is loaded and nothing is written.

    Raises:
        BertScoreError: whatever cannot work, before any work is done.
    """
    started = time.time()
    config = scorer_config(options)
    settings = settle(config)
    if is_local(options):
        resolve_device(config.device)
    output = absolute(options.output)
    check_output(options, output)
    files = expand_inputs(options.input, exclude=output)
    plan = plan_inputs(
        files,
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
        target_rows=options.split_rows,
        target_bytes=options.split_bytes,
    )
    idf = _find_idf(options, output, settings, plan)
    signature = replace(settings.signature(), idf=idf.label, empty=options.empty)
    fields = TableFields(
        candidate_column=options.candidate_column,
        reference_column=options.reference_column,
        empty=options.empty,
    )
    identity = job_identity(signature, fields)
    manifest.check_same_run(manifest.read_run(output), identity, overwrite=options.overwrite)
    digest = identity_digest(identity)
    records = manifest.read_records(output)
    sizes = manifest.read_part_sizes(output)
    pending = tuple(manifest.pending_splits(plan, records, digest, idf.fingerprint, sizes))
    waiting = {split.part_name for split in pending}
    done = [records[s.part_name] for s in plan.splits if s.part_name not in waiting]
    orphans = manifest.orphan_parts(plan, sizes.keys() & records.keys())
    kept_orphans = () if options.overwrite else tuple(orphans)
    rejected = {file.path: file.message for file in plan.rejected_files[:SHOWN_FAILURES]}
    return ScoreJob(
        output=output,
        config=config,
        fields=fields,
        signature=signature,
        digest=digest,
        plan=plan,
        pending=pending,
        superseded=(
            *manifest.stale_parts(plan, sizes),
            *(orphans if options.overwrite else ()),
        ),
        outdated=tuple(sorted(waiting & records.keys())),
        idf_path=idf.path,
        count_idf=idf.must_count and bool(pending),
        goal=RunGoal(
            parts=len(plan.splits),
            rows=plan.num_rows,
            files=len(files),
            num_rejected_files=len(plan.rejected_files),
            rejected_files=rejected,
            max_reject_fraction=options.max_reject_fraction,
            num_orphan_parts=len(kept_orphans),
            orphan_parts=kept_orphans[:SHOWN_FAILURES],
            started=started,
            carried=RunTotals.sum(map(RunTotals.of_record, done)),
        ),
    )


def check_output(options: JobOptions, output: str) -> None:
    """Check that workers can write where the output goes.

    Raises:
        ConfigError: it lies in the memory of a process that others cannot reach, or is a file.
    """
    if output.startswith("memory://") and (options.workers > 1 or not is_local(options)):
        raise ConfigError(
            f"output {output!r} lies in this process's memory, which other worker processes cannot "
            "reach; expected a folder or an object store. Use one worker, or another --output."
        )
    if is_file(output):
        raise ConfigError(
            f"output {mask_credentials(output)!r} is a file; expected a folder. Choose another "
            "--output."
        )


def job_identity(signature: Signature, fields: TableFields) -> dict[str, str]:
    """Return everything that must be equal for two runs to share an output folder."""
    return {
        **asdict(signature),
        "candidate_column": fields.candidate_column,
        "reference_column": fields.reference_column,
    }


def identity_digest(identity: dict[str, str]) -> str:
    """Digest of a job's identity. 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def start_run(job: ScoreJob, options: ScoreOptions) -> None:
    """Write down what is about to be done, and take back an earlier success.

    Parts that the plan now cuts elsewhere would hold rows twice, so they go first, record before
    part; so do the records of parts to be made anew, so that a record always tells of its part.
    """
    delete(join(job.output, manifest.SUCCESS_FILE))
    parts = (*job.superseded, *job.outdated)
    delete_many([manifest.record_path(job.output, part) for part in parts])
    delete_many([join(job.output, part) for part in job.superseded])
    run = {
        "identity": job_identity(job.signature, job.fields),
        "signature": job.signature.format(),
        "options": options.describe(),
        "corpus": job.plan.digest,
        "rows": job.plan.num_rows,
        "parts": len(job.plan.splits),
        "started": job.goal.started,
    }
    pending = replace(job.plan, splits=job.pending)
    write_atomically(join(job.output, manifest.PLAN_FILE), plan_to_bytes(job.plan))
    write_atomically(join(job.output, PENDING_FILE), plan_to_bytes(pending))
    text = json.dumps(run, indent=2, ensure_ascii=False)
    write_atomically(join(job.output, manifest.RUN_FILE), text.encode())


def build_score_pipeline(root: beam.Pipeline, job: ScoreJob) -> None:
    """Add the scoring job to a pipeline; `start_run` must have written its plan.

    Between stages pass splits, the idf table, and part records; never a text or a score.
    """
    idf = _idf_table(root, job)
    results = (
        root
        # Split: what to read, a few hundred bytes each.
        | "ReadPending" >> ReadPlan(join(job.output, PENDING_FILE))
        # (PartRecord, FailedSplit): what became of each.
        | "ScoreSplits"
        >> ScoreSplits(
            config=job.config,
            fields=job.fields,
            output=job.output,
            job_digest=job.digest,
            signature=job.signature,
            idf=idf,
        )
    )
    _ = results | "FinishRun" >> FinishRun(
        output=job.output, goal=job.goal, signature=job.signature, idf=idf
    )


@dataclass
class ReadPlan(beam.PTransform):
    """The splits of a saved plan, spread over the workers.

    Only the plan's path is in the job itself, whose size is limited.
    """

    path: str

    def expand(self, root: beam.Pipeline) -> beam.PCollection[Split]:
        """Read the plan on a worker."""
        return (
            root
            | "PlanPath" >> beam.Create([self.path])
            | "ReadSplits" >> beam.FlatMap(_read_splits).with_output_types(Split)
            | "Spread" >> beam.Reshuffle()
        )


def _read_splits(path: str) -> tuple[Split, ...]:
    return plan_from_bytes(read_bytes(path), path).splits


def _idf_table(root: beam.Pipeline, job: ScoreJob) -> beam.PCollection[IdfTable] | None:
    """Count the idf table over the whole corpus, or load it."""
    if job.idf_path is None:
        return None
    if not job.count_idf:
        return root | "IdfPath" >> beam.Create([job.idf_path]) | "LoadIdf" >> beam.Map(load_idf)
    return (
        root
        | "ReadPlan" >> ReadPlan(join(job.output, manifest.PLAN_FILE))
        | "CountDocumentFrequencies"
        >> CountDocumentFrequencies(job.config, job.fields.reference_column, job.plan.digest)
        | "SaveIdf" >> SaveIdf(job.idf_path)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdfSource:
    """Where a job's idf table is.

    Attributes:
        path: Its file, there or to be made; None without idf.
        must_count: Whether it has yet to be counted.
        fingerprint: Its fingerprint, "" without idf, None before it is counted.
        label: What stands for it in the job's identity.
    """

    path: str | None
    must_count: bool
    fingerprint: str | None
    label: str


def _find_idf(options: ScoreOptions, output: str, settings: Settings, plan: Plan) -> _IdfSource:
    """Settle where the idf table is and whether it must be counted.

    The table is counted over the whole corpus once and kept, never over what a resumed run still
    has to score. Until it is counted the corpus' digest stands for it.
    """
    if options.idf == "none":
        return _IdfSource(path=None, must_count=False, fingerprint="", label="none")
    tokenizer = settings.tokenizer
    if options.idf != "corpus":
        table = load_idf(options.idf)
        table.check_fits(tokenizer.fingerprint, tokenizer.max_length)
        name = table.fingerprint
        return _IdfSource(path=options.idf, must_count=False, fingerprint=name, label=name)
    path = join(output, manifest.IDF_FILE)
    label = f"corpus@{plan.digest}"
    if exists(path):
        table = load_idf(path)
        found = (table.corpus, table.tokenizer, table.max_length)
        if found == (plan.digest, tokenizer.fingerprint, tokenizer.max_length):
            name = table.fingerprint
            return _IdfSource(path=path, must_count=False, fingerprint=name, label=label)
    return _IdfSource(path=path, must_count=True, fingerprint=None, label=label)


if __name__ == "__main__":
    import sys

    from pipelines.cli import main

    sys.exit(main(["score", *sys.argv[1:]]))
