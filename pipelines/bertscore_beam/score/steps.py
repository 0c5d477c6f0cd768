"""Score a split: read its rows, score them on the device, write its part and, last, its record."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.parts import write_part
from bertscore_beam.dump.read_split import SplitRows, read_rows
from bertscore_beam.dump.row_digests import RowDigests
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.loading import spare_the_collector
from bertscore_beam.run import counters, live
from bertscore_beam.run.device_loss import ending_with_the_device
from bertscore_beam.run.events import event
from bertscore_beam.runs.row_scores import rows_file, rows_to_bytes
from bertscore_beam.score.earlier import finder
from bertscore_beam.score.earlier_records import EarlierRecords
from bertscore_beam.score.part_record import PartRecord, record_name, record_path
from bertscore_beam.score.rejects import rejected_rows, rows_path
from bertscore_beam.score.resume import may_be_valid
from bertscore_beam.score.reuse import reuse_part
from bertscore_beam.score.reused_rows import packed_rows
from bertscore_beam.score.rows import RowProgress, score_table
from bertscore_beam.score.scored_table import ScoredTable
from bertscore_beam.score.scorers import LoadedScorers, Scorers
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.summary import FailedSplit, ReusedPart, SplitResult
from bertscore_beam.score.to_score import ToScore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScoreSplits:
    """The step that scores splits. A batch holds pairs of one split only.

    Attributes:
        spec: The run.
    """

    spec: ScoreSpec

    def open(self) -> Callable[[ToScore], list[SplitResult]]:
        """Load the scorer; those of languages are loaded when they are needed.

        Raises:
            ConfigError: This worker's backend has another version than the signature names.
        """
        spare_the_collector()  # before models are loaded, which may be dropped later
        spec, sole = self.spec, self.spec.settings.sole
        scorers, earlier = LoadedScorers(spec.model_memory), EarlierRecords(spec.folder)
        if sole is not None and spec.reuse is None:  # otherwise it may not be needed
            with ending_with_the_device():
                scorers(sole)
        return lambda chosen: [score_split(chosen, spec, scorers, earlier)]


def score_split(
    chosen: ToScore, spec: ScoreSpec, scorers: Scorers, earlier: EarlierRecords
) -> SplitResult:
    """Score a split and write its part, unless an earlier part is still valid.

    A part whose texts are the same is kept, or written again with its scores. With an incomplete
    idf table no split is scored, and all earlier parts are kept. A repeated call writes the same
    bytes.

    Args:
        chosen: The split, and its idf tables.
        spec: The run.
        scorers: The loaded scorers.
        earlier: Finds the record of an earlier part.
    """
    split, idf = chosen.split, chosen.idf
    problem, fingerprint = ("", "") if idf is None else (idf.problem, idf.fingerprint)
    found = None if problem else earlier.find(split.part_name)
    is_reusable = found is not None and may_be_valid(
        split, found, spec.digest, fingerprint, spec.settings.labels
    )
    record = found if is_reusable else None
    if record is not None and record.is_current(split):
        return _reused(ReusedPart(record=record, rewritten=False))
    try:
        with live.doing(record_name(split.part_name), lambda: 0.0, split.part_name):
            rows = read_rows(split)
    except UNREADABLE as error:
        return _failed(split, mask_credentials(f"{type(error).__name__}: {error}"))
    if problem:
        return _failed(split, problem)
    digests = RowDigests.of(
        rows.table,
        spec.fields.candidate_column,
        spec.fields.reference_column,
        spec.fields.idf.names,
        utc_times=split.utc_times,
        lines=rows.lines,
    )
    if record is not None:
        part = reuse_part(spec.folder, record, split, rows.table, digests)
        if part is not None:
            return _reused(part)
    tables = None if idf is None else idf.load()
    started = time.perf_counter()
    scored = _score(split, rows, tables, spec, scorers)
    seconds = time.perf_counter() - started
    counters.observe(counters.SPLIT_MSEC, seconds * 1000)
    return _write(
        split,
        rows,
        digests,
        scored,
        spec,
        idf=fingerprint,
        seconds=seconds,
        replaces=found is not None,
    )


def _score(
    split: Split, rows: SplitRows, idf: IdfTables | None, spec: ScoreSpec, scorers: Scorers
) -> ScoredTable:
    progress = RowProgress(len(rows.table))
    doing = live.doing(record_name(split.part_name), lambda: progress.share, split.part_name)
    with doing, ending_with_the_device():
        scored = score_table(
            scorers,
            rows.table,
            spec.fields,
            settings=spec.settings,
            idf=idf,
            unreadable={} if rows.lines is None else rows.lines.reasons,
            find=finder(spec.reuse, split),
            progress=progress,
        )
    counters.count_pairs(scored.summary)
    counters.count_work(scored.work)
    counters.count(counters.ROWS_REUSED, int(scored.reused.sum()))
    return scored


def _write(
    split: Split,
    rows: SplitRows,
    digests: RowDigests,
    scored: ScoredTable,
    spec: ScoreSpec,
    *,
    idf: str,
    seconds: float,
    replaces: bool,
) -> PartRecord:
    """Write the rejects, the part and, last of all, its record.

    A part that is replaced stays until then. Another worker may have had the same split and
    finished it, and whoever deletes a part before the model has run may delete that one's.
    """
    data = write_part(scored.table, utc_times=split.utc_times)
    record = PartRecord.of(
        split,
        digests=digests,
        job_digest=spec.digest,
        idf=idf,
        summary=scored.summary,
        seconds=seconds,
        work=scored.work,
        part_bytes=len(data),
    )
    record = replace(
        record,
        dropped={} if rows.lines is None else dict(rows.lines.dropped),
        reused=int(scored.reused.sum()),
        reused_rows=packed_rows(scored.reused),
        languages=scored.languages,
        other_scripts=scored.other_scripts,
    )
    name = split.part_name
    beside = {rows_file(name): rows_to_bytes(scored.offered)}
    if scored.rejected:
        beside[rows_path(name)] = rejected_rows(split, scored.rejected, rows.lines)
    if replaces:
        old = (record_path(name), rows_path(name))
        spec.folder.delete(*(path for path in old if path not in beside))
    # In this order: a part without a record is scored again, but a record says that its part is
    # whole.
    spec.folder.write_all({**beside, name: data, record_path(name): record.to_json()})
    counters.count(counters.PARTS_WRITTEN)
    logger.info(
        event(
            "part_written",
            part=split.part_name,
            rows=record.num_rows,
            rejected=record.num_rows - record.summary.scored,
            reused=record.reused,
            bytes=len(data),
            seconds=round(record.seconds, 3),
            device_busy_seconds=round(record.work.busy_seconds, 3),
        )
    )
    return record


def _failed(split: Split, reason: str) -> FailedSplit:
    counters.count(counters.SPLITS_FAILED)
    logger.warning(event("split_failed", part=split.part_name, reason=reason))
    return FailedSplit(split=split, reason=reason)


def _reused(part: ReusedPart) -> ReusedPart:
    counters.count(counters.PARTS_WRITTEN if part.rewritten else counters.PARTS_KEPT)
    logger.info(event("part_reused", part=part.record.part_name, rewritten=part.rewritten))
    return part
