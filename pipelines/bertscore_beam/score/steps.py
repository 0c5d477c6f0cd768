"""The fused scoring stage: read a split, score it on the device, write its part."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints import no_annotations

from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.parts import write_part
from bertscore_beam.dump.read_split import read_rows
from bertscore_beam.dump.row_digests import RowDigests
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.loading import spare_the_collector
from bertscore_beam.run import counters, live
from bertscore_beam.run.device_loss import ending_with_the_device
from bertscore_beam.run.events import event
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.runs.row_scores import rows_file, rows_to_bytes
from bertscore_beam.score.chunks import Chunk, ScoredChunk
from bertscore_beam.score.earlier import finder
from bertscore_beam.score.earlier_records import EarlierRecords
from bertscore_beam.score.part_record import PartRecord, record_name, record_path
from bertscore_beam.score.rejects import rejected_rows, rows_path
from bertscore_beam.score.resume import may_be_valid
from bertscore_beam.score.reuse import reuse_part
from bertscore_beam.score.reused_rows import packed_rows
from bertscore_beam.score.rows import RowProgress, score_table
from bertscore_beam.score.scorers import LoadedScorers
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.summary import FailedSplit, ReusedPart
from bertscore_beam.score.to_score import ToScore

logger = logging.getLogger(__name__)

REUSED = "reused"
"""Tag of the output with the parts of earlier runs whose scores are still valid."""

FAILED = "failed"
"""Tag of the output with the splits that could not be read, or have no complete idf table."""


class ChunkModelHandler(ModelHandler[Chunk, ScoredChunk, LoadedScorers]):
    """Runs BERTScore inside Beam's RunInference, on elements that are whole chunks of pairs.

    It makes batches by token count over all pairs of a chunk, so that the scores depend on the
    chunk alone. RunInference's own batching is off. For single pairs see
    `bertscore_beam.pairs.handler`.
    """

    def __init__(self, spec: ScoreSpec) -> None:
        """Keep the settings of the run; models are loaded on the worker."""
        super().__init__()
        self._settings = spec.settings
        self._fields = spec.fields
        self._memory = spec.model_memory
        self._reuse = spec.reuse

    def load_model(self) -> LoadedScorers:
        """Load the scorer, once a process; those of languages are loaded when they are needed.

        Raises:
            ConfigError: This worker's backend has another version than the signature names.
        """
        spare_the_collector()  # before models are loaded, which may be dropped later
        scorers = LoadedScorers(self._memory)
        if self._settings.sole is not None and self._reuse is None:  # else maybe not needed
            with ending_with_the_device():
                scorers(self._settings.sole)
        return scorers

    def run_inference(
        self, batch: Chunk, model: LoadedScorers, inference_args: dict[str, Any] | None = None
    ) -> Sequence[ScoredChunk]:
        """Score one chunk."""
        started = time.perf_counter()
        progress = RowProgress(len(batch))
        part = batch.split.part_name
        doing = live.doing(record_name(part), lambda: progress.share, part)
        with doing, ending_with_the_device():
            scored = score_table(
                model,
                batch.table,
                self._fields,
                settings=self._settings,
                idf=batch.idf,
                unreadable={} if batch.lines is None else batch.lines.reasons,
                find=finder(self._reuse, batch.split),
                progress=progress,
            )
        seconds = time.perf_counter() - started
        counters.count_pairs(scored.summary)
        counters.count_work(scored.work)
        counters.count(counters.ROWS_REUSED, int(scored.reused.sum()))
        counters.observe(counters.SPLIT_MSEC, seconds * 1000)
        idf = "" if batch.idf is None else batch.idf.fingerprint
        return [
            ScoredChunk(
                split=batch.split,
                scored=scored,
                lines=batch.lines,
                digests=batch.digests,
                idf=idf,
                seconds=seconds,
                replaces=batch.replaces,
            )
        ]

    def get_num_bytes(self, batch: Chunk) -> int:
        """Return the size of the chunk's rows."""
        return batch.nbytes

    def should_skip_batching(self) -> bool:
        """Return True, since chunks are batches already."""
        return True

    def get_metrics_namespace(self) -> str:
        """Return the namespace of RunInference's own metrics."""
        return counters.NAMESPACE


@dataclass
class ScoreSplits(beam.PTransform):
    """Splits -> (records of the parts written, parts reused, splits that failed).

    If an earlier run has made a part of a split, it is compared with the split's rows first.

    No step here has a side input: Beam does not fuse a step that has one with the steps before it,
    and would store the rows between the two. See also `WithIdf`.

    Attributes:
        spec: The run.
    """

    spec: ScoreSpec

    @no_annotations  # Beam has no type hint for several outputs
    def expand(self, splits: beam.PCollection[ToScore]) -> beam.pvalue.DoOutputsTuple:
        """Read, score and write in one stage; only splits and records cross its boundaries."""
        handler = ChunkModelHandler(self.spec)
        # Chunk: the rows of one split.
        reader = beam.ParDo(ReadSplit(self.spec)).with_output_types(Chunk)
        read = splits | "ReadSplit" >> reader.with_outputs(REUSED, FAILED, main="chunks")
        records = (
            read.chunks
            # ScoredChunk: the same rows with score columns.
            | "ScoreChunk" >> RunInference(handler).with_output_types(ScoredChunk)
            # PartRecord: what was written, a few hundred bytes a split.
            | "WritePart" >> beam.ParDo(WritePart(self.spec.folder, self.spec.digest))
        )
        return records, read[REUSED], read[FAILED]


class ReadSplit(beam.DoFn):
    """Read the rows of a split; a split that cannot be read goes to the failed output.

    A split whose part is still valid is not scored again: the part is kept, or written again with
    its scores. With an incomplete idf table no split is scored, and all earlier parts are kept.
    """

    def __init__(self, spec: ScoreSpec) -> None:
        """Keep the settings of the run."""
        self._folder = spec.folder
        self._earlier = EarlierRecords(spec.folder)
        self._digest = spec.digest
        self._fields = spec.fields
        self._labels = spec.settings.labels

    def process(self, chosen: ToScore) -> Iterator[Any]:
        """Yield the chunk, the part reused, or the failure."""
        element, idf = chosen.split, chosen.idf
        problem = "" if idf is None else idf.problem
        earlier = None if problem else self._earlier.find(element.part_name)
        fingerprint = "" if idf is None else idf.fingerprint
        is_reusable = earlier is not None and may_be_valid(
            element, earlier, self._digest, fingerprint, self._labels
        )
        record = earlier if is_reusable else None
        if record is not None and record.is_current(element):
            yield self._reused(ReusedPart(record=record, rewritten=False))
            return
        try:
            name = element.part_name
            with live.doing(record_name(name), lambda: 0.0, name):
                rows = read_rows(element)
        except UNREADABLE as error:
            yield self._failed(element, mask_credentials(f"{type(error).__name__}: {error}"))
            return
        if problem:
            yield self._failed(element, problem)
            return
        fields = self._fields
        digests = RowDigests.of(
            rows.table,
            fields.candidate_column,
            fields.reference_column,
            fields.idf.names,
            utc_times=element.utc_times,
            lines=rows.lines,
        )
        if record is not None:
            part = reuse_part(self._folder, record, element, rows.table, digests)
            if part is not None:
                yield self._reused(part)
                return
        yield Chunk(
            split=element,
            table=rows.table,
            lines=rows.lines,
            digests=digests,
            idf=None if idf is None else idf.load(),
            replaces=earlier is not None,
        )

    def _failed(self, split: Split, reason: str) -> TaggedOutput:
        counters.count(counters.SPLITS_FAILED)
        logger.warning(event("split_failed", part=split.part_name, reason=reason))
        return TaggedOutput(FAILED, FailedSplit(split=split, reason=reason))

    def _reused(self, part: ReusedPart) -> TaggedOutput:
        counters.count(counters.PARTS_WRITTEN if part.rewritten else counters.PARTS_KEPT)
        logger.info(event("part_reused", part=part.record.part_name, rewritten=part.rewritten))
        return TaggedOutput(REUSED, part)


class WritePart(beam.DoFn):
    """Write a part atomically, then its record; a repeated bundle writes the same bytes."""

    def __init__(self, folder: OutputFolder, job_digest: str) -> None:
        """Keep the output folder, and the digest of the run's identity for the records."""
        self._folder = folder
        self._job_digest = job_digest

    def process(self, element: ScoredChunk) -> Iterator[PartRecord]:
        """Write the rejects, the part and, last of all, its record, and yield the record.

        A part that is replaced stays until then. Another worker may have had the same split and
        finished it, and whoever deletes a part before the model has run may delete that one's.
        """
        split = element.split
        data = write_part(element.scored.table, utc_times=split.utc_times)
        record = PartRecord.of(
            split,
            digests=element.digests,
            job_digest=self._job_digest,
            idf=element.idf,
            summary=element.scored.summary,
            seconds=element.seconds,
            work=element.scored.work,
            part_bytes=len(data),
        )
        record = replace(
            record,
            dropped={} if element.lines is None else dict(element.lines.dropped),
            reused=int(element.scored.reused.sum()),
            reused_rows=packed_rows(element.scored.reused),
            languages=element.scored.languages,
            other_scripts=element.scored.other_scripts,
        )
        beside = {rows_file(split.part_name): rows_to_bytes(element.scored.offered)}
        if element.scored.rejected:
            beside[rows_path(split.part_name)] = rejected_rows(
                split, element.scored.rejected, element.lines
            )
        record_file = {record_path(split.part_name): record.to_json()}
        if element.replaces:
            old = (record_path(split.part_name), rows_path(split.part_name))
            self._folder.delete(*(name for name in old if name not in beside))
        # In this order: a part without a record is scored again, a record vouches for its part.
        self._folder.write_all({**beside, split.part_name: data, **record_file})
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
        yield record
