"""What is done with each chunk of splits and each part of a scoring run; knows no Beam.

The splits of a chunk are scored one after the other: the rows of a split are read and scored on the
device, and its part is written last.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from bertscore_beam.dump.candidates import explode_candidates
from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.splits import RowGroupSplits, Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import Stored
from bertscore_beam.idf.idf_tables import IdfTables, SavedIdf
from bertscore_beam.metrics.processes import MetricProcesses
from bertscore_beam.records.lookup import LookUp, PartsOfInput, find_rows, look_up_in_tables
from bertscore_beam.records.record import PartRecord, is_whole, part_to_bytes, read_record
from bertscore_beam.records.rejects import rejected_rows, rows_path
from bertscore_beam.records.resume import input_of, may_be_valid
from bertscore_beam.records.score_tables import open_tables
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

        A split is begun when its totals are asked for. With an incomplete idf table no split is
        scored, and all earlier parts are kept. A repeated call writes the same bytes, and does not
        score again what has a part.
        """
        splits, idf = chosen.chunk.splits, chosen.idf
        reader, there = SplitReader(splits), dict[str, Stored]()
        if idf is None or not idf.problem:
            # Also parts of an earlier try.
            there = dict(self.spec.folder.each_stored(input_of(splits[0].part_name)))
        for split in splits:
            yield self._totals(split, idf, there, reader)

    def _totals(
        self, split: Split, idf: SavedIdf | None, there: Mapping[str, Stored], reader: SplitReader
    ) -> Totals:
        stored = there.get(split.part_name.rpartition("/")[2])
        spec = self.spec
        problem, fingerprint = ("", "") if idf is None else (idf.problem, idf.fingerprint)
        record = None if stored is None else read_record(spec.folder, split.part_name, stored)
        if record is not None and not is_whole(spec.folder, record):
            record = None
        is_damaged = stored is not None and record is None
        if is_damaged:
            counters.count(counters.PARTS_UNREADABLE)
            logger.warning(event("part_unreadable", part=split.part_name))
        if record is not None and not may_be_valid(
            split, record, spec.digest, fingerprint, spec.settings.labels
        ):
            record = None
        if record is not None and record.is_current(split):
            return _kept(split, Totals.of_kept(record))
        try:
            with activity.report_fraction(split.part_name, lambda: 0.0):
                read = reader.read(split)
                whole = Rows(read.table, spec.fields, read.lines)
                rows = explode_candidates(whole)
        except UNREADABLE as error:
            return _failed(split, mask_credentials(f"{type(error).__name__}: {error}"))
        if problem:
            return _failed(split, problem)
        digests = RowDigests.of(whole, utc_times=split.utc_times)
        tables = None if idf is None else idf.load()
        started = time.perf_counter()
        scored = self.score(split, rows, tables, there)
        seconds = time.perf_counter() - started
        counters.observe(counters.SPLIT_MSEC, seconds * 1000)
        made = self._write(split, rows, digests, scored, fingerprint, is_new=stored is None)
        reused = int(scored.reused.sum())
        logger.info(
            event(
                "part_written",
                part=split.part_name,
                rows=made.num_rows,
                rejected=made.summary.rejected,
                reused=reused,
                seconds=round(seconds, 3),
                device_busy_seconds=round(scored.work.busy_seconds, 3),
            )
        )
        fresh = made.summary.scored - reused
        return replace(
            Totals.of_record(made),
            kept_rows=0 if stored is None else made.num_rows - fresh,
            fresh_rows=made.num_rows - reused,
            reused=reused,
            reuse_failures=scored.reuse_failures,
            parts_unreadable=int(is_damaged),
            seconds=seconds,
            work=scored.work,
        )

    def score(
        self, split: Split, rows: Rows, idf: IdfTables | None, there: Mapping[str, Stored]
    ) -> ScoredTable:
        """Score the rows of a split, or take their scores from earlier parts.

        `there`: the parts of its input that are in the folder of the run.
        """
        progress, find = RowProgress(len(rows)), None
        if places := [*self._places(split, there)]:
            find = partial(find_rows, places, split.row_offset + rows.input_rows)
        with activity.report_fraction(split.part_name, lambda: progress.share):
            scored = score_table(
                self.scorers,
                rows,
                settings=self.spec.settings,
                idf=idf,
                find=find,
                progress=progress,
                metrics=self.metrics,
            )
        sums = scored.summary
        counters.count_pairs(scored=sums.scored, rejected=sums.rejected, reasons=sums.reasons)
        counters.count_work(scored.work)
        counters.count(counters.ROWS_REUSED, int(scored.reused.sum()))
        counters.count(counters.REUSE_FAILURES, scored.reuse_failures)
        return scored

    def _places(self, split: Split, there: Mapping[str, Stored]) -> Iterator[LookUp]:
        """Yield where the rows of a split may have scores, the likeliest first."""
        spec, name = self.spec, split.input_name
        if there:
            yield PartsOfInput(spec.folder, name, there.items()).look_up
        if spec.reuse is not None:
            yield PartsOfInput.of(spec.reuse.root, spec.reuse.run, name).look_up
            tables = open_tables(spec.folder, spec.reuse.root, spec.reuse.listed)
            yield partial(look_up_in_tables, tables, split.part_name)

    def _write(
        self,
        split: Split,
        rows: Rows,
        digests: RowDigests,
        scored: ScoredTable,
        idf: str,
        *,
        is_new: bool,
    ) -> PartRecord:
        """Write the rejects and, last of all, the part with its record.

        A part that is replaced stays until then. Another worker may have had the same split and
        finished it, and whoever deletes a part before the model has run may delete that one's.
        """
        record = PartRecord.of(
            split,
            digests=digests,
            job_digest=self.spec.digest,
            idf=idf,
            summary=scored.summary,
            dropped={} if rows.lines is None else dict(rows.lines.dropped),
            languages=scored.languages,
            other_scripts=scored.other_scripts,
            tokenized=scored.tokenized,
            input_rows=None if rows.numbers is None else split.num_rows,
        )
        name = split.part_name
        beside = {}
        if scored.rejected:
            beside[rows_path(name)] = rejected_rows(split, scored.rejected, rows, scored.messages)
        elif not is_new:
            self.spec.folder.delete(rows_path(name))
        data = part_to_bytes(scored.table, record, utc_times=split.utc_times)
        self.spec.folder.write_all({**beside, name: data})
        counters.count(counters.PARTS_WRITTEN)
        return record


def _failed(split: Split, reason: str) -> Totals:
    counters.count(counters.SPLITS_FAILED)
    logger.warning(event("split_failed", part=split.part_name, reason=reason))
    return Totals.of_failed(split, reason)


def _kept(split: Split, part: Totals) -> Totals:
    counters.count(counters.PARTS_KEPT)
    logger.info(event("part_kept", part=split.part_name))
    return part
