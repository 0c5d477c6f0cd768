"""The end of a run: packs, index, totals, the summary and, last of all, the success marker."""

import gzip
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.plan_file import plan_from_bytes
from bertscore_beam.files.checked import from_json
from bertscore_beam.files.paths import mask_credentials
from bertscore_beam.idf.counts import describe_tables
from bertscore_beam.idf.idf_tables import IdfTables, note_path
from bertscore_beam.metrics.table import described
from bertscore_beam.records.finished import RunParts
from bertscore_beam.records.groups import (
    GroupRow,
    caveats_of_metrics,
    group_part,
    group_row,
    in_order,
    merge_statistics,
    metrics_of,
    no_groups_warning,
    read_groups,
    write_groups,
)
from bertscore_beam.records.index import (
    WORDS,
    Bucket,
    Fragment,
    IndexedParts,
    PieceChunk,
    chunks_to_index,
    declare_index,
    delete_index,
    read_pieces,
    write_bucket,
    write_index,
)
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.records import (
    IDF_FILE,
    FoundRecords,
    delete_plans,
    delete_records,
    files_of_run,
    find_records,
    num_packs,
    pack_of,
    read_sizes,
    write_pack,
)
from bertscore_beam.records.rejects import FILES_FILE, rejected_files
from bertscore_beam.records.resume import FolderDiff, by_bin, compare_with_plan
from bertscore_beam.records.settings import EVERY_LANGUAGE
from bertscore_beam.records.summary import (
    FailedSplit,
    KeptPart,
    SplitResult,
    Totals,
    summarize,
    summary_of_languages,
)
from bertscore_beam.run import pool
from bertscore_beam.run.folder import (
    PLAN_FILE,
    SUCCESS_FILE,
    SUMMARY_FILE,
    OutputFolder,
    declare_success,
    is_marked_by,
)
from bertscore_beam.run.output import event
from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunStep, Spread
from bertscore_beam.score.spec import ScoreSpec
from bertscore_core.stats.scores import ScoreSummary
from bertscore_core.tokens import Work

# The folder of a run when all its splits have been tried: looked over for index and groups
# together, and again at the very end. Only what is seen then is declared a success.


@dataclass(frozen=True, slots=True, kw_only=True)
class _TriedRun:
    """The folder of a run whose splits have all been tried, compared with its plan."""

    plan: Plan
    found: FoundRecords
    diff: FolderDiff

    def records(self) -> Iterator[PartRecord]:
        """Yield the records of the parts that are there and valid."""
        for _, of_bin, in_bin in by_bin(self.diff.done, self.found.records):
            for split in of_bin:
                yield in_bin[split.part_name]


def _look_over(spec: ScoreSpec, idf: IdfTables | None) -> _TriedRun:
    folder = spec.folder
    plan = plan_from_bytes(folder.read(PLAN_FILE), folder.root)
    found = find_records(folder, spec.record_generation, num_packs(len(plan.splits)))
    sizes = read_sizes(folder, files_of_run(folder), plan, found.records)
    fingerprint = "" if idf is None else idf.fingerprint
    given = plan, found.records, sizes, spec.digest, fingerprint, spec.settings.labels
    return _TriedRun(plan=plan, found=found, diff=compare_with_plan(*given, at_end=True))


_PIECES, _PARTS = "pieces", "parts"


def _for_index_and_groups(
    _: Totals, idf: IdfTables | None, packs: Sequence[str], *, spec: ScoreSpec
) -> Iterator[Any]:  # PieceChunk and PartRecord, tagged
    if _has_ended(spec):
        return
    run = _look_over(spec, idf)
    if spec.is_remote and spec.index:
        for chunk in chunks_to_index(spec.folder, _indexed_parts(run.records())):
            yield TaggedOutput(_PIECES, chunk)
    if spec.has_groups:
        small: dict[str, Any] = {"languages": {}, "dropped": {}}
        small |= {"summary": ScoreSummary(), "work": Work()}
        for record in run.records():
            yield TaggedOutput(_PARTS, replace(record, **small))


def _has_ended(spec: ScoreSpec) -> bool:
    """Tell whether a detached run is a success already.

    Beam may repeat a bundle that has done all its work. Then the plan may be deleted already.
    """
    return spec.detached and is_marked_by(spec.folder, spec.run)


def _indexed_parts(of_parts: Iterable[PartRecord]) -> IndexedParts:
    return IndexedParts.of(
        (record.part_name, record.texts_digest, record.num_rows) for record in of_parts
    )


# Pack the records of a run in its pipeline, so that its end need not read a file for each part.

_Accumulator: TypeAlias = tuple[list[bytes], list[bytes]]
_LINES_AT_ONCE = 1000
"""Lines of a pack that wait in memory before they are compressed: about a megabyte of them."""


@dataclass
class PackRecords(beam.PTransform):
    """SplitResults -> names of the packs written of the records.

    The single records stay until the run is finished: they tell what is done if it is not.
    """

    spec: ScoreSpec

    def expand(self, results: beam.PCollection[SplitResult]) -> beam.PCollection[str]:
        """Spread the records over the packs; they cross the stage boundary compressed."""
        spec = self.spec
        write = beam.Map(_write_pack, folder=spec.folder, generation=spec.record_generation)
        return (
            results
            # (number of the pack, record as a line)
            | "ChoosePack" >> beam.FlatMap(_in_pack, num_packs(spec.start.parts))
            | "GroupByPack" >> beam.CombinePerKey(CompressLines())
            | "WritePack" >> write
        )


def _in_pack(result: SplitResult, packs: int) -> Iterator[tuple[int, bytes]]:
    if not isinstance(result, FailedSplit):
        record = result.record if isinstance(result, KeptPart) else result
        yield pack_of(record.part_name, packs), record.to_json()


class CompressLines(beam.CombineFn):
    """Lines of bytes -> gzip members that hold them, in any order.

    A line compressed by itself stays twice as large. An accumulator is (members, lines).
    """

    def create_accumulator(self) -> _Accumulator:
        """Return an accumulator without lines."""
        return [], []

    def add_input(self, accumulator: _Accumulator, line: bytes) -> _Accumulator:
        """Add a line, which contains no line break."""
        accumulator[1].append(line)
        return accumulator if len(accumulator[1]) < _LINES_AT_ONCE else self.compact(accumulator)

    def merge_accumulators(self, accumulators: Iterable[_Accumulator]) -> _Accumulator:
        """Return an accumulator with the lines of all."""
        members, lines = self.create_accumulator()
        for accumulator in accumulators:
            members += accumulator[0]
            lines += accumulator[1]
        return members, lines

    def compact(self, accumulator: _Accumulator) -> _Accumulator:
        """Compress the lines that are not compressed yet."""
        members, lines = accumulator
        if lines:
            members = [*members, gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)]
        return members, []

    def extract_output(self, accumulator: _Accumulator) -> bytes:
        """Return gzip members, one after the other, with a line break after each line."""
        return b"".join(self.compact(accumulator)[0])


def _write_pack(pack: tuple[int, bytes], *, folder: OutputFolder, generation: int) -> str:
    number, members = pack
    with gzip.open(BytesIO(members)) as file:  # `gzip.decompress` copies the rest for each member
        return write_pack(folder, generation, number, file.read().splitlines())


# The statistics of the groups of a run, in its pipeline.
#
#     its parts --> Reshuffle --> statistics of parts --> of all groups --> rows
#
# They are read from the parts, and not taken from the rows while these are scored. So parts of
# earlier tries, parts that were kept and rows that were reused count like all others, and other
# group columns need no scores. The columns that are read are a small share of a part. The groups of
# several parts are held together, so that none are when there are too many.


@dataclass
class _ReadGroups(beam.PTransform):
    """The parts of a run -> a row for each group, and one for all rows together."""

    spec: ScoreSpec

    def expand(self, parts: beam.PCollection[PartRecord]) -> beam.PCollection[GroupRow]:
        spec = self.spec
        group = partial(
            group_part,
            folder=spec.folder,
            by=spec.group_by,
            language=spec.fields.language,
            metrics=spec.metric_names,
        )
        step = Each(group, attrgetter("part_name"))
        return (
            parts
            | "SpreadParts" >> Spread()
            # PartStatistics: of one part, and then of all.
            | "GroupPart" >> beam.ParDo(RunStep(step))
            | "MergeGroups" >> beam.CombineGlobally(merge_statistics).with_fanout(16)
            | "OfEachGroup" >> beam.FlatMap(iter)
            | "SpreadGroups" >> Spread()
            # GroupRow: with its intervals.
            | "RowOfGroup" >> beam.MapTuple(group_row)
        )


# The index of a run, in its pipeline: built from the pieces of its parts by all workers.
#
#     chunks of pieces --> Reshuffle --> rows by bucket --GroupByKey--> files of a bucket
#
# Rows cross as entries of 56 bytes, some dozens of one bucket together: no machine sorts them all.


@dataclass
class _BuildIndex(beam.PTransform):
    """Names of parts whose pieces are read together -> None, when the index is written."""

    folder: OutputFolder

    def expand(self, chunks: beam.PCollection[PieceChunk]) -> beam.PCollection[None]:
        folder = self.folder
        read = Each(partial(read_pieces, folder=folder), attrgetter("name"))
        pieces = (
            chunks
            | "SpreadPieces" >> beam.Reshuffle()
            | "ReadPieces"
            >> beam.ParDo(RunStep(read)).with_output_types(tuple[tuple[str, int, int], Any])
        )
        signatures, reasons = (
            beam.pvalue.AsList(
                pieces
                | f"{name}OfPieces" >> beam.FlatMap(_words, place).with_output_types(str)
                | f"{name}Once" >> beam.Distinct()
            )
            for name, place in (("Signatures", 1), ("Reasons", 2))
        )
        written = (
            pieces
            | "OfBuckets" >> beam.Map(_of_bucket)
            # (bucket, its rows): 56 MB each.
            | "GroupByBucket" >> beam.GroupByKey()
            | "WriteBucket" >> beam.Map(partial(write_bucket, folder), signatures, reasons)
        )
        return (
            written
            | "BucketsWritten" >> beam.combiners.ToList()
            | "DeclareIndex" >> beam.Map(partial(declare_index, folder), signatures, reasons)
        )


def _is_of_bucket(read: tuple[Bucket, Fragment]) -> bool:
    return read[0][2] != WORDS


def _of_bucket(read: tuple[Bucket, Fragment]) -> tuple[Bucket, Fragment]:
    """Leave words alone out: they only tell that there are pieces, also of no scored row."""
    return read if _is_of_bucket(read) else (read[0], (read[1][0], {}, {}, b""))


def _words(read: tuple[Bucket, Fragment], place: Literal[1, 2]) -> Iterable[str]:
    return () if _is_of_bucket(read) else read[1][place].values()


logger = logging.getLogger(__name__)


@dataclass
class ConcludeRun(beam.PTransform):
    """SplitResults -> summary, written with the success marker.

    If the run is detached, no launcher turns the summary into an exit status. So the job fails here
    if the run is not a success, and otherwise cleans up the folder. `idf` is a singleton, or None.
    """

    spec: ScoreSpec
    idf: beam.PCollection[IdfTables] | None = None

    def expand(self, results: beam.PCollection[SplitResult]) -> beam.PCollection[Totals]:
        """Add up, then write; the output is a single element."""
        spec = self.spec
        idf = None if self.idf is None else beam.pvalue.AsSingleton(self.idf)
        # Nobody needs their names, but whoever looks at the folder waits until they are written.
        packs = beam.pvalue.AsList(results | "PackRecords" >> PackRecords(spec))
        each = results | "TotalsOfSplit" >> beam.Map(Totals.of)
        totals = each | "AddUp" >> beam.CombineGlobally(Totals.merge)
        indexed = groups = None
        is_indexed = spec.is_remote and spec.index  # its workers build the index together
        if is_indexed or spec.has_groups:
            look = beam.FlatMap(_for_index_and_groups, idf, packs, spec=spec)
            read = totals | "LookOver" >> look.with_outputs(_PIECES, _PARTS)
            if is_indexed:
                indexed = beam.pvalue.AsList(read[_PIECES] | "IndexRun" >> _BuildIndex(spec.folder))
            if spec.has_groups:
                groups = beam.pvalue.AsList(read[_PARTS] | "GroupRun" >> _ReadGroups(spec))
        return totals | "WriteSummary" >> beam.Map(_finish, idf, packs, indexed, groups, spec=spec)


def finish_run(
    spec: ScoreSpec, new: Totals, idf: IdfTables | None, groups: Sequence[GroupRow] | None = None
) -> bool:
    """Write `_summary.json`, and `_SUCCESS` after it if the run is a success; tell whether it is.

    The totals of the workers are not enough: every part in the folder must have a record with this
    run's settings and idf table, and the recorded size. With an idf table that leaves out a file
    the run is not a success.

    Args:
        spec: The run.
        new: Totals of this run.
        idf: The tables that the tokens were weighted with.
        groups: All rows and the groups of the run, in any order; None to read them from the parts.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    folder = spec.folder
    run = _look_over(spec, idf)
    missing = run.diff.work
    signatures = spec.settings.signatures(idf)
    signature = None if spec.settings.by_column else signatures[EVERY_LANGUAGE]
    summary = summarize(
        replace(spec.start, restarts=pool.restarts()),
        new,
        signature,
        missing=len(missing),
        doubled=len(run.diff.stale),
        untouched_rows=run.diff.rows_at_risk,
        whole_idf=idf is None or not idf.problem,
    )
    if spec.settings.by_column:
        total = spec.start.carried + new
        summary["languages"] = summary_of_languages(total, signatures)
    if spec.has_groups:
        _add_groups(summary, spec, run, groups)
    if idf is not None:
        summary["idf"] = _describe(folder, idf)
    if run.plan.rejected_files or missing:
        rejects = rejected_files(run.plan.rejected_files, missing, dict(new.failures))
        folder.write(FILES_FILE, rejects)
    else:
        folder.delete(FILES_FILE)
    if spec.index:
        index_rows(folder, run.records())
    else:
        delete_index(folder)
    delete_records(folder, run.found.doubles)
    folder.write_json(SUMMARY_FILE, summary)
    if summary["success"]:
        made = {"signatures": signatures} if signature is None else {"signature": signature}
        declare_success(folder, spec.run, **made)
    else:
        folder.delete(SUCCESS_FILE)  # an earlier run's, which an object store wrote late
    return bool(summary["success"])


def _add_groups(
    summary: dict[str, Any], spec: ScoreSpec, run: _TriedRun, groups: Sequence[GroupRow] | None
) -> None:
    """Write the groups, and add them to the summary, with the other metrics over all rows."""
    if groups is None:
        parts = RunParts(
            folder=spec.folder, records=tuple(run.records()), metrics=spec.metric_names
        )
        groups = read_groups(parts, spec.group_by, spec.fields.language)
    rows = in_order(groups)
    if spec.metric_names:
        sole = spec.settings.sole
        languages = sorted(spec.settings.by_language)
        languages = languages if sole is None else [sole.config.language or ""]
        listed = any(record.digests.has_lists for record in run.records())
        made = described(spec.metrics, languages, listed=listed, own=spec.own_metrics)
        metrics = metrics_of(rows[0]).items()
        summary["metrics"] = {name: {**values, **made[name]} for name, values in metrics}
        summary["caveats"] += caveats_of_metrics(rows[0])
    summary |= write_groups(spec.folder, rows, spec.group_by)
    if spec.detached and (words := no_groups_warning(summary, spec.group_by)):
        logger.warning(event("no_groups", reason=words))


def index_rows(folder: OutputFolder, of_parts: Iterable[PartRecord]) -> None:
    """Write the index of a run's rows for later runs, which can also do without it.

    So a local disk without room for it does not keep the run from succeeding.
    """
    try:
        pool.ask(write_index, folder, _indexed_parts(of_parts))
    except OSError as error:
        reason = mask_credentials(f"{type(error).__name__}: {error}")
        logger.warning(event("index_not_written", reason=reason))


def _describe(folder: OutputFolder, idf: IdfTables) -> dict[str, Any]:
    """Return how the tables were counted; an earlier run may know more than their file says."""
    described = describe_tables(idf)
    data = folder.read_if_there(note_path(IDF_FILE))
    with suppress(ValueError):  # a damaged note
        noted: dict[str, Any] = {} if data is None else from_json(data)
        if idf.repeats is None and noted.get("fingerprint") == idf.fingerprint:
            return {**described, **noted}
    return described


def _finish(
    totals: Totals,
    idf: IdfTables | None,
    packs: Sequence[str],
    indexed: Sequence[None] | None,
    groups: Sequence[GroupRow] | None = None,
    *,
    spec: ScoreSpec,
) -> Totals:
    if not spec.detached:
        finish_run(spec, totals, idf, groups)
        return totals
    if not _has_ended(spec) and not finish_run(spec, totals, idf, groups):
        raise RuntimeError(
            f"the run is not a success: see {mask_credentials(spec.folder.path(SUMMARY_FILE))}"
        )
    if spec.folder.holds_lock():
        delete_plans(spec.folder)
        spec.folder.release()
    return totals
