"""What is done with each chunk of splits and each part of a scoring run; knows no Beam.

The splits of a chunk are scored one after the other: the rows of a split are read and scored on the
device, and its part is written last.
"""

import gzip
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain

import pyarrow as pa

from bertscore_beam.dump.candidates import explode_candidates
from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.parquet import UNREADABLE, seal_in
from bertscore_beam.dump.plan import read_rejection
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.splits import RowGroupSplits, Split
from bertscore_beam.dump.text.text_source import footer_of, rejection_of
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.checked import from_json, to_json, typed, unpacked
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import Stored
from bertscore_beam.files.write import delete_many
from bertscore_beam.idf.idf_tables import IdfTables, SavedIdf
from bertscore_beam.metrics.processes import MetricProcesses
from bertscore_beam.records.groups import groups_note
from bertscore_beam.records.lookup import LookUp, PartsOfInput, find_rows, look_up_in_tables
from bertscore_beam.records.record import PartRecord, part_to_bytes, read_record, record_of
from bertscore_beam.records.records import (
    StagedParts,
    is_whole_with,
    made_of,
    part_staged,
    place_of,
    rejects_beside,
)
from bertscore_beam.records.rejects import rejected_rows
from bertscore_beam.records.resume import input_of, may_be_valid
from bertscore_beam.records.score_tables import open_tables
from bertscore_beam.records.summary import Totals
from bertscore_beam.run import activity, counters
from bertscore_beam.run.loading import freeze_gc
from bertscore_beam.run.output import event
from bertscore_beam.score.loaded_scorers import LoadedScorers
from bertscore_beam.score.rows import RowProgress, score_table
from bertscore_beam.score.scored_table import ScoredTable
from bertscore_beam.score.spec import RunSpec, ScoreSpec
from bertscore_core.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SplitsWithIdf:
    """A chunk of splits, which are its items, and its idf tables by name."""

    chunk: RowGroupSplits
    idf: SavedIdf = field(default_factory=SavedIdf)

    def __len__(self) -> int:
        return len(self.chunk.splits)

    def __getitem__(self, places: slice) -> "SplitsWithIdf":
        return replace(self, chunk=RowGroupSplits(self.chunk.splits[places]))


@dataclass(frozen=True, slots=True)
class TriedSplits:
    """What has become of splits: their totals, and the records of their parts."""

    totals: Totals = field(default_factory=Totals)
    records: tuple[PartRecord, ...] = ()

    @classmethod
    def merge(cls, tried: Iterable["TriedSplits"]) -> "TriedSplits":
        """Return what has become of several sets of splits."""
        tried = list(tried)
        records = chain.from_iterable(one.records for one in tried)
        return cls(Totals.merge(one.totals for one in tried), tuple(records))

    def to_bytes(self) -> bytes:
        """Return the content of a file."""
        return gzip.compress(to_json(asdict(self)), mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TriedSplits":
        """Return what was written.

        Raises:
            ValueError: It is damaged.
        """
        content = from_json(unpacked(data))
        found = [*map(record_of, content["records"])]
        records = tuple(record for record in found if record is not None)
        if len(records) < len(found):
            raise ValueError("a damaged record")
        return cls(typed(Totals, content["totals"]), records)


@dataclass(frozen=True, slots=True)
class ScoreSplits:
    """The step that scores splits. A batch holds pairs of one split only.

    The key of what has become of a split is the number of its share of the run: see `ScoreSpec`.
    """

    spec: ScoreSpec

    def open(self) -> Callable[[SplitsWithIdf], Iterator[list[tuple[int, TriedSplits]]]]:
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
        return partial(_by_share, SplitScorer(spec, scorers, metrics))

    def name(self, chosen: SplitsWithIdf) -> str:
        """Return the name of the chunk."""
        return chosen.chunk.name


def _by_share(
    scorer: "SplitScorer", chosen: SplitsWithIdf
) -> Iterator[list[tuple[int, TriedSplits]]]:
    for split, tried in zip(chosen.chunk.splits, scorer.run(chosen), strict=True):
        yield [(scorer.spec.share_of(split.part_name), tried)]


@dataclass(frozen=True, slots=True)
class SplitScorer:
    """Scores splits with what a process has loaded."""

    spec: ScoreSpec
    scorers: LoadedScorers
    metrics: MetricProcesses | None = None

    def run(self, chosen: SplitsWithIdf) -> Iterator[TriedSplits]:
        """Score splits one after the other, unless their parts are there; yield what becomes of it.

        A split is begun when its result is asked for. What is staged of it is taken, also what an
        earlier try has staged. Rows take the scores that parts under their names have of them. With
        an incomplete idf table no split is scored.
        """
        splits, idf = chosen.chunk.splits, chosen.idf
        reader, spec = SplitReader(splits), self.spec
        there: dict[str, Stored] = {}
        staged = StagedParts(spec.below, {}, {})
        if not idf.problem:
            inside = place_of(splits[0].part_name).partition("/")[0]
            staged = StagedParts.listed(spec.folder, spec.below, inside)
            if spec.looks:
                there = dict(spec.folder.each_stored(input_of(splits[0].part_name)))
        for split in splits:
            yield self._tried(split, idf, there, staged, reader)

    def _tried(
        self,
        split: Split,
        idf: SavedIdf,
        there: Mapping[str, Stored],
        staged: StagedParts,
        reader: SplitReader,
    ) -> TriedSplits:
        spec = self.spec
        given = split, spec.digest, idf.fingerprint, spec.settings.labels
        record, is_damaged = None, False
        if split.file_version:
            record = staged.read(spec.folder, split.part_name, made_of(*given, None))
        if record is None:
            stored = there.get(split.part_name.rpartition("/")[2])
            record, is_damaged = self._earlier(split, stored, idf.fingerprint)
        if record is not None and (record.staged or record.is_current(split)):
            return _kept(split, record)
        try:
            with activity.report_fraction(place_of(split.part_name), lambda: 0.0):
                read = reader.read(split)
                whole = Rows(read.table, spec.fields, read.lines)
                rows = explode_candidates(whole)
        except UNREADABLE as error:
            return _failed(split, _why_unread(split, error))
        if idf.problem:
            return _failed(split, idf.problem)
        digests = RowDigests.of(whole, utc_times=split.utc_times)
        made = made_of(*given, None if split.file_version else digests)
        if not split.file_version:  # nothing but its rows tells whether it is the same
            record = staged.read(spec.folder, split.part_name, made) or record
            if record is not None and record.digests == digests and record.covers(split):
                return _kept(split, record)
        return self._scored(split, idf, made, rows, digests, there, is_damaged=is_damaged)

    def _earlier(
        self, split: Split, stored: Stored | None, fingerprint: str
    ) -> tuple[PartRecord | None, bool]:
        """Return the record of a split's part under its name, and whether that is damaged.

        It is of the same settings, and perhaps of other rows; None without one.
        """
        spec = self.spec
        record = None if stored is None else read_record(spec.folder, split.part_name, stored)
        if record is not None and not is_whole_with(spec.folder, record):
            record = None
        is_damaged = stored is not None and record is None
        if is_damaged:
            counters.count(counters.PARTS_UNREADABLE)
            logger.warning(event("part_unreadable", part=split.part_name))
        if record is not None and not may_be_valid(
            split, record, spec.digest, fingerprint, spec.settings.labels
        ):
            record = None
        return record, is_damaged

    def _scored(
        self,
        split: Split,
        idf: SavedIdf,
        made: str,
        rows: Rows,
        digests: RowDigests,
        there: Mapping[str, Stored],
        *,
        is_damaged: bool,
    ) -> TriedSplits:
        tables = idf.load()
        started = time.perf_counter()
        scored = self.score(split, rows, tables, there)
        seconds = time.perf_counter() - started
        counters.observe(counters.SPLIT_MSEC, seconds * 1000)
        record = self._write(split, made, rows, digests, scored, idf.fingerprint)
        reused = int(scored.reused.sum())
        logger.info(
            event(
                "part_written",
                part=split.part_name,
                rows=record.num_rows,
                rejected=record.summary.rejected,
                reused=reused,
                seconds=round(seconds, 3),
                device_busy_seconds=round(scored.work.busy_seconds, 3),
            )
        )
        fresh = record.summary.scored - reused
        totals = replace(
            Totals.of_record(record),
            kept_rows=record.num_rows - fresh if there else 0,
            fresh_rows=record.num_rows - reused,
            reused=reused,
            reuse_failures=scored.reuse_failures,
            parts_unreadable=int(is_damaged),
            seconds=seconds,
            work=scored.work,
        )
        return TriedSplits(totals, (record,))

    def score(
        self, split: Split, rows: Rows, idf: IdfTables | None, there: Mapping[str, Stored]
    ) -> ScoredTable:
        """Score the rows of a split, or take their scores from earlier parts.

        `there`: the parts of its input that are in the folder of the run.
        """
        progress, find = RowProgress(len(rows)), None
        if places := [*self._places(split, there)]:
            find = partial(find_rows, places, split.row_offset + rows.input_rows)
        with activity.report_fraction(place_of(split.part_name), lambda: progress.share):
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
        made: str,
        rows: Rows,
        digests: RowDigests,
        scored: ScoredTable,
        idf: str,
    ) -> PartRecord:
        """Stage a part, and its rows without scores before it."""
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
        rejects = b""
        if scored.rejected:
            rejects = rejected_rows(split, scored.rejected, rows, scored.messages)
        counters.count(counters.PARTS_WRITTEN)
        utc_times = split.utc_times
        return stage_part(self.spec, made, scored.table, record, rejects, utc_times=utc_times)


def stage_part(
    spec: RunSpec,
    made: str,
    table: pa.Table,
    record: PartRecord,
    rejects: bytes,
    *,
    utc_times: bool,
) -> PartRecord:
    """Stage a part, and before it the list of its rows without scores, if there are any.

    Args:
        spec: The run.
        made: What names the part: see `made_of`.
        table: Its rows.
        record: Its record.
        rejects: The list; b"" for none.
        utc_times: Whether its times of day are in UTC.

    Returns:
        The record, which knows where the part is.
    """
    below, token = spec.below, uuid.uuid4().hex[:16]
    groups = groups_note(table, spec.grouped_by) if spec.has_groups else None
    name = part_staged(below, made, record, token, groups)
    data = part_to_bytes(table, record, token=token, utc_times=utc_times, groups=groups)
    beside = {rejects_beside(name, below): rejects} if rejects else {}
    spec.folder.write_all({**beside, name: data})
    return replace(record, part_bytes=len(data), seal=seal_in(data), staged=name)


def _why_unread(split: Split, error: Exception) -> str:
    """Return why a split cannot be read; a damaged import is made again by the next run."""
    reason = f"{type(error).__name__}: {error}"
    if split.data and isinstance(error, InputError):
        delete_many([footer_of(split.data)])
    elif split.data and isinstance(error, FileNotFoundError):
        reason = str(read_rejection(rejection_of(split.data)) or reason)
    return mask_credentials(reason)


def _failed(split: Split, reason: str) -> TriedSplits:
    counters.count(counters.SPLITS_FAILED)
    logger.warning(event("split_failed", part=split.part_name, reason=reason))
    return TriedSplits(Totals.of_failed(split, reason))


def _kept(split: Split, record: PartRecord) -> TriedSplits:
    counters.count(counters.PARTS_KEPT)
    logger.info(event("part_kept", part=split.part_name))
    return TriedSplits(Totals.of_kept(record), (record,))
