"""The fused scoring stage: read a split, score it on the device, write its part."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.typehints import no_annotations

from bertscore_core import (
    BertScorer,
    ConfigError,
    IdfTable,
    ScorerConfig,
    Signature,
)
from pipelines import metrics
from pipelines.events import event
from pipelines.io.files import join, mask_credentials, write_atomically
from pipelines.io.parquet import UNREADABLE, read_split, write_part
from pipelines.lock import RunLock, check_held
from pipelines.manifest import PartRecord, write_record
from pipelines.rejects import rejected_rows, rows_path
from pipelines.row_digests import RowDigests
from pipelines.scoring import TableFields, score_table
from pipelines.splits import Split
from pipelines.totals import FailedSplit, ReusedPart
from pipelines.transforms.chunks import Chunk, ScoredChunk
from pipelines.transforms.idf import is_incomplete
from pipelines.transforms.reuse import EarlierParts

logger = logging.getLogger(__name__)

REUSED = "reused"
"""Tag of the output with the parts of earlier runs whose scores are still valid."""

FAILED = "failed"
"""Tag of the output with the splits that could not be read, or weighed."""

_IDF_REASON = "the idf table left out what could not be read"


def load_scorer(config: ScorerConfig, backend: str) -> BertScorer:
    """Load a scorer on a worker.

    Args:
        config: How to score.
        backend: What runs the encoder on the launcher, with its version.

    Raises:
        ConfigError: this worker's backend is another version than the job is signed with.
    """
    started = time.monotonic()
    scorer = BertScorer(config)
    found = scorer.settings.backend_version
    if found != backend:
        raise ConfigError(
            f"this worker runs the encoder on {found}, and the job's scores are signed {backend}; "
            "expected the same. Install the same version on launcher and workers, or choose "
            "--backend torch."
        )
    logger.info(
        event(
            "model_loaded",
            model=scorer.settings.files.name,
            device=scorer.encoder.device,
            backend=found,
            seconds=round(time.monotonic() - started, 3),
        )
    )
    return scorer


class ChunkModelHandler(ModelHandler[Chunk, ScoredChunk, BertScorer]):
    """Runs BERTScore inside Beam's RunInference, on elements that are whole chunks of pairs.

    This one is the job's own; `pipelines.transforms.pair_handler` has the one for single pairs.

    Batching is done inside, by token count and over all pairs of a chunk, so that what is computed
    depends on the chunk alone; RunInference's own batching is switched off.
    """

    def __init__(self, config: ScorerConfig, fields: TableFields, signature: Signature) -> None:
        """Keep the settings; the model is loaded on the worker.

        Args:
            config: How to score.
            fields: Where the texts are.
            signature: How the scores are made, up to the idf table, which comes with each chunk.
        """
        super().__init__()
        self._config = config
        self._fields = fields
        self._signature = signature

    def load_model(self) -> BertScorer:
        """Load the scorer, once a process.

        Raises:
            ConfigError: this worker's backend is another version than the job is signed with.
        """
        return load_scorer(self._config, self._signature.backend)

    def run_inference(
        self, batch: Chunk, model: BertScorer, inference_args: dict[str, Any] | None = None
    ) -> Sequence[ScoredChunk]:
        """Score one chunk."""
        started = time.perf_counter()
        scored = score_table(
            model,
            batch.table,
            self._fields,
            idf=batch.idf,
            signature=self._signature,
        )
        seconds = time.perf_counter() - started
        metrics.count_pairs(scored.summary)
        metrics.count_work(scored.work)
        metrics.observe(metrics.SPLIT_MSEC, seconds * 1000)
        idf = "" if batch.idf is None else batch.idf.fingerprint
        return [
            ScoredChunk(
                split=batch.split, scored=scored, digests=batch.digests, idf=idf, seconds=seconds
            )
        ]

    def get_num_bytes(self, batch: Chunk) -> int:
        """Size of the chunk's rows."""
        return batch.nbytes

    def should_skip_batching(self) -> bool:
        """Chunks are batches already."""
        return True

    def get_metrics_namespace(self) -> str:
        """Namespace of RunInference's own metrics."""
        return metrics.NAMESPACE


@dataclass
class ScoreSplits(beam.PTransform):
    """Splits -> (records of the parts written, parts reused, splits that failed).

    The part that an earlier run made of a split is compared with the split's rows first.

    The side input goes to the reader and not to the scoring step: a step with a side input cannot
    be fused with what comes before it, and the rows would be stored between the two.

    Attributes:
        config: How to score.
        fields: Where the texts are.
        output: Folder of the parts.
        job_digest: Identity of the run's settings, kept in every record.
        signature: How the scores are made.
        idf: Singleton with the idf table, or None.
        lock: What must be held to write; None leaves that unchecked.
    """

    config: ScorerConfig
    fields: TableFields
    output: str
    job_digest: str
    signature: Signature
    idf: beam.PCollection[IdfTable] | None = None
    lock: RunLock | None = None

    @no_annotations  # Beam has no type hint for several outputs
    def expand(self, splits: beam.PCollection[Split]) -> beam.pvalue.DoOutputsTuple:
        """Read, score and write in one stage; only splits and records cross its boundaries."""
        idf = None if self.idf is None else AsSingleton(self.idf)
        handler = ChunkModelHandler(self.config, self.fields, self.signature)
        # Chunk: the rows of one split.
        earlier = EarlierParts(output=self.output, job_digest=self.job_digest, lock=self.lock)
        reader = beam.ParDo(ReadSplit(earlier, self.fields), idf).with_output_types(Chunk)
        read = splits | "ReadSplit" >> reader.with_outputs(REUSED, FAILED, main="chunks")
        records = (
            read.chunks
            # ScoredChunk: the same rows with score columns.
            | "ScoreChunk" >> RunInference(handler).with_output_types(ScoredChunk)
            # PartRecord: what was written, a few hundred bytes a split.
            | "WritePart" >> beam.ParDo(WritePart(self.output, self.job_digest, self.lock))
        )
        return records, read[REUSED], read[FAILED]


class ReadSplit(beam.DoFn):
    """Read a split's rows; one that cannot be read goes to the failed output, with the reason.

    Rows whose part is still valid go no further: the part is kept, or written again. With an idf
    table that leaves something out no split goes further, and every earlier part stays as it is.
    """

    def __init__(self, earlier: EarlierParts, fields: TableFields) -> None:
        """Keep where earlier parts are, and which columns are scored."""
        self._earlier = earlier
        self._fields = fields

    def process(self, element: Split, idf: IdfTable | None = None) -> Iterator[Any]:
        """Yield the chunk, the part reused, or the failure."""
        lying = None if is_incomplete(idf) else self._earlier.record_of(element)
        weighed = "" if idf is None else idf.fingerprint
        holds = lying is not None and self._earlier.may_hold(lying, element, weighed)
        record = lying if holds else None
        if record is not None and record.is_current(element):
            yield self._reused(ReusedPart(record=record, rewritten=False))
            return
        try:
            table = read_split(element)
        except UNREADABLE as error:
            yield self._failed(element, mask_credentials(f"{type(error).__name__}: {error}"))
            return
        if is_incomplete(idf):
            yield self._failed(element, _IDF_REASON)
            return
        fields = self._fields
        digests = RowDigests.of(
            table, fields.candidate_column, fields.reference_column, utc_times=element.utc_times
        )
        if record is not None:
            part = self._earlier.reuse(record, element, table, digests)
            if part is not None:
                yield self._reused(part)
                return
        if lying is not None:
            self._earlier.discard(element)
        yield Chunk(split=element, table=table, digests=digests, idf=idf)

    def _failed(self, split: Split, reason: str) -> TaggedOutput:
        metrics.count(metrics.SPLITS_FAILED)
        logger.warning(event("split_failed", part=split.part_name, reason=reason))
        return TaggedOutput(FAILED, FailedSplit(split=split, reason=reason))

    def _reused(self, part: ReusedPart) -> TaggedOutput:
        metrics.count(metrics.PARTS_WRITTEN if part.rewritten else metrics.PARTS_KEPT)
        logger.info(event("part_reused", part=part.record.part_name, rewritten=part.rewritten))
        return TaggedOutput(REUSED, part)


class WritePart(beam.DoFn):
    """Write a part whole, then its record; doing it again writes the same bytes."""

    def __init__(self, output: str, job_digest: str, lock: RunLock | None) -> None:
        """Keep where to write, and what must be held to do so."""
        self._output = output
        self._job_digest = job_digest
        self._lock = lock

    def process(self, element: ScoredChunk) -> Iterator[PartRecord]:
        """Write the part and what it rejects, and yield its record, written last."""
        split = element.split
        data = write_part(element.scored.table, utc_times=split.utc_times)
        check_held(self._lock)
        if element.scored.rejected:
            rejects = rejected_rows(split, element.scored.rejected)
            write_atomically(rows_path(self._output, split.part_name), rejects)
        write_atomically(join(self._output, split.part_name), data)
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
        write_record(self._output, record)
        metrics.count(metrics.PARTS_WRITTEN)
        logger.info(
            event(
                "part_written",
                part=split.part_name,
                rows=record.num_rows,
                rejected=record.num_rows - record.summary.scored,
                bytes=len(data),
                seconds=round(record.seconds, 3),
                device_busy_seconds=round(record.work.busy_seconds, 3),
            )
        )
        yield record
