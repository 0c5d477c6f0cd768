"""What is done with each chunk of splits and each part of a scoring run; knows no Beam.

The splits of a chunk are scored one after the other: the rows of a split are read and scored on the
device, its part is written and, last, its record.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bertscore_beam.dump.candidates import explode_candidates
from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.parquet import UNREADABLE, write_part
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.splits import RowGroupSplits, Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.idf_tables import IdfTables, SavedIdf
from bertscore_beam.metrics.processes import MetricProcesses
from bertscore_beam.records.lookup import open_earlier
from bertscore_beam.records.record import (
    PartRecord,
    facts_of_part,
    packed_rows,
    record_name,
    record_path,
)
from bertscore_beam.records.records import find_record
from bertscore_beam.records.rejects import rejected_rows, rows_path
from bertscore_beam.records.resume import UnreadablePartError, keep_part, may_be_valid
from bertscore_beam.records.row_scores import rows_file, rows_to_bytes
from bertscore_beam.records.summary import Totals
from bertscore_beam.run import activity, counters
from bertscore_beam.run.loading import freeze_gc
from bertscore_beam.run.output import event
from bertscore_beam.score.loaded_scorers import LoadedScorers
from bertscore_beam.score.rows import RowProgress, score_table
from bertscore_beam.score.scored_table import ScoredTable
from bertscore_beam.score.spec import ScoreSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SplitsWithIdf:
    """A chunk of splits, which are its items, and its idf tables by name; None without any."""

    chunk: RowGroupSplits
    idf: SavedIdf | None = None

    def __len__(self) -> int:
        return len(self.chunk.splits)

    def __getitem__(self, places: slice) -> "SplitsWithIdf":
        return replace(self, chunk=RowGroupSplits(self.chunk.splits[places]))


@dataclass(frozen=True, slots=True)
class ScoreSplits:
    """The step that scores splits. A batch holds pairs of one split only."""

    spec: ScoreSpec

    def open(self) -> Callable[[SplitsWithIdf], Iterator[Totals]]:
        """Load the scorer; those of languages are loaded when they are needed.

        Raises:
            ConfigError: This worker's backend has another version than the signature names.
        """
        freeze_gc()  # before models are loaded, which may be dropped later
        spec, sole = self.spec, self.spec.settings.sole
        scorers, metrics = LoadedScorers(spec.model_memory), None
        if sole is not None and spec.reuse is None:  # otherwise it may not be needed
            scorers(sole)
        if spec.metric_names:
            metrics = MetricProcesses(spec.metrics, spec.model_memory.processes, spec.own_metrics)
        return SplitScorer(spec, scorers, metrics).run

    def name(self, chosen: SplitsWithIdf) -> str:
        """Return the name of the chunk."""
        return chosen.chunk.name


@dataclass(frozen=True, slots=True)
class SplitScorer:
    """Scores splits with what a process has loaded."""

    spec: ScoreSpec
    scorers: LoadedScorers
    metrics: MetricProcesses | None = None

    def run(self, chosen: SplitsWithIdf) -> Iterator[Totals]:
        """Score splits one after the other, unless their parts are valid; yield their totals.

        A split is begun when its totals are asked for. A part whose texts are the same is kept, or
        written again with its scores. With an incomplete idf table no split is scored, and all
        earlier parts are kept. A repeated call writes the same bytes, and does not score again what
        has a record.
        """
        splits, idf = chosen.chunk.splits, chosen.idf
        reader = SplitReader(splits)
        for split in splits:
            record = None
            if idf is None or not idf.problem:
                # Also of an earlier try: no part is replaced beside a record that vouches for it.
                record = find_record(self.spec.folder, split.part_name)
            yield self._totals(split, idf, record, reader)

    def _totals(
        self, split: Split, idf: SavedIdf | None, earlier: PartRecord | None, reader: SplitReader
    ) -> Totals:
        spec, record = self.spec, None
        problem, fingerprint = ("", "") if idf is None else (idf.problem, idf.fingerprint)
        wanted = spec.digest, fingerprint, spec.settings.labels
        if earlier is not None and may_be_valid(split, earlier, *wanted):
            record = earlier
            if record.is_current(split):
                return _kept(split, Totals.of_kept(record, rewritten=False))
        try:
            with activity.report_fraction(record_name(split.part_name), lambda: 0.0):
                read = reader.read(split)
                whole = Rows(read.table, spec.fields, read.lines)
                rows = explode_candidates(whole)
        except UNREADABLE as error:
            return _failed(split, mask_credentials(f"{type(error).__name__}: {error}"))
        if problem:
            return _failed(split, problem)
        digests = RowDigests.of(whole, utc_times=split.utc_times)
        is_damaged = False
        if record is not None:
            try:
                part = keep_part(spec.folder, record, split, rows, digests, spec.metric_names)
            except UnreadablePartError as error:
                part, is_damaged = None, True
                counters.count(counters.PARTS_UNREADABLE)
                logger.warning(event("part_unreadable", part=split.part_name, reason=str(error)))
            if part is not None:
                return _kept(split, part)
        tables = None if idf is None else idf.load()
        started = time.perf_counter()
        scored = self.score(split, rows, tables)
        seconds = time.perf_counter() - started
        counters.observe(counters.SPLIT_MSEC, seconds * 1000)
        facts = {"idf": fingerprint, "seconds": seconds, "replaced_damaged": is_damaged}
        written = self._write(split, rows, digests, scored, facts, is_new=earlier is None)
        return Totals.of_record(written)

    def score(self, split: Split, rows: Rows, idf: IdfTables | None) -> ScoredTable:
        """Score the rows of a split, or take their scores from an earlier run."""
        progress, find, reuse = RowProgress(len(rows)), None, self.spec.reuse
        if reuse is not None:
            earlier = open_earlier(reuse.root, reuse.run)
            find = partial(earlier.find, split.input_name, split.row_offset + rows.input_rows)
        with activity.report_fraction(record_name(split.part_name), lambda: progress.share):
            scored = score_table(
                self.scorers,
                rows,
                settings=self.spec.settings,
                idf=idf,
                find=find,
                progress=progress,
                metrics=self.metrics,
            )
        counters.count_pairs(scored.summary)
        counters.count_work(scored.work)
        counters.count(counters.ROWS_REUSED, int(scored.reused.sum()))
        counters.count(counters.REUSE_FAILURES, scored.reuse_failures)
        return scored

    def _write(
        self,
        split: Split,
        rows: Rows,
        digests: RowDigests,
        scored: ScoredTable,
        facts: Mapping[str, Any],
        *,
        is_new: bool,
    ) -> PartRecord:
        """Write the rejects, the part and, last of all, its record.

        A part that is replaced stays until then. Another worker may have had the same split and
        finished it, and whoever deletes a part before the model has run may delete that one's.
        """
        data = write_part(scored.table, utc_times=split.utc_times)
        record = PartRecord.of(
            split,
            digests=digests,
            job_digest=self.spec.digest,
            summary=scored.summary,
            work=scored.work,
            **facts,
            **facts_of_part(data),
            dropped={} if rows.lines is None else dict(rows.lines.dropped),
            reused=int(scored.reused.sum()),
            reused_rows=packed_rows(scored.reused),
            reuse_failures=scored.reuse_failures,
            languages=scored.languages,
            other_scripts=scored.other_scripts,
            tokenized=scored.tokenized,
            input_rows=None if rows.numbers is None else split.num_rows,
        )
        name = split.part_name
        beside = {rows_file(name): rows_to_bytes(scored.offered)}
        if scored.rejected:
            beside[rows_path(name)] = rejected_rows(split, scored.rejected, rows, scored.messages)
        if not is_new:
            old = (record_path(name), rows_path(name))
            self.spec.folder.delete(*(path for path in old if path not in beside))
        # In this order: a part without a record is scored again, but a record says that its part is
        # whole.
        self.spec.folder.write_all({**beside, name: data, record_path(name): record.to_json()})
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


def _failed(split: Split, reason: str) -> Totals:
    counters.count(counters.SPLITS_FAILED)
    logger.warning(event("split_failed", part=split.part_name, reason=reason))
    return Totals.of_failed(split, reason)


def _kept(split: Split, part: Totals) -> Totals:
    rewritten = bool(part.parts_rewritten)
    counters.count(counters.PARTS_WRITTEN if rewritten else counters.PARTS_KEPT)
    logger.info(event("part_kept", part=split.part_name, rewritten=rewritten))
    return part
