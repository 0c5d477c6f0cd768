"""Corpus document frequencies as a combine: counted split by split, added up, saved."""

import hashlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import apache_beam as beam
import pyarrow as pa

from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig, TextTokenizer
from bertscore_core.config import settle_tokenizer
from pipelines import metrics
from pipelines.io.files import mask_credentials, read_bytes, write_atomically
from pipelines.io.parquet import UNREADABLE, read_split
from pipelines.manifest import read_record
from pipelines.row_digests import digest_references
from pipelines.scoring import readable_references
from pipelines.splits import Split
from pipelines.standing import may_hold

logger = logging.getLogger(__name__)

_CONTENT_RANGE = 1 << 128

INCOMPLETE = "incomplete:"
"""Stands before the corpus of a table for which a split could not be read. A run that counted such
a table scores nothing and does not succeed, and the next one counts again."""


def is_incomplete(table: IdfTable | None) -> bool:
    """Tell whether a table leaves out what could not be read, so that its weights are wrong."""
    return table is not None and table.corpus.startswith(INCOMPLETE)


@dataclass
class CountDocumentFrequencies(beam.PTransform):
    """Splits -> one IdfTable over all their references.

    Attributes:
        config: Names the tokenizer and its truncation.
        reference_column: Column of references.
        corpus: Fingerprint of the corpus, kept in the table.
    """

    config: ScorerConfig
    reference_column: str
    corpus: str

    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[IdfTable]:
        """Count in the splits' own stage; only frequencies cross to the combine."""
        return (
            splits
            # SplitCount: one sparse table of frequencies a split.
            | "CountSplit" >> beam.ParDo(_CountSplit(self.config, self.reference_column))
            # The fan-out keeps a single key from taking every split's table one by one.
            | "MergeFrequencies" >> beam.CombineGlobally(MergeCounts()).with_fanout(16)
            | "LabelTable" >> beam.ParDo(_LabelTable(self.config, self.corpus))
        )


@dataclass
class CountUnlessSame(beam.PTransform):
    """Splits -> one IdfTable over all their references: a saved one where that is of the same.

    The digests of references are compared; those of splits that did not change are in the records
    of their parts.

    Attributes:
        count: Counts, where that is needed.
        path: The saved table.
        output: Folder of the run.
        job_digest: Identity of the run's settings, as the records have it.
    """

    count: CountDocumentFrequencies
    path: str
    output: str
    job_digest: str

    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[IdfTable]:
        """Compare first; where nothing changed no split passes on to be counted."""
        same = beam.pvalue.AsSingleton(
            splits
            | "DigestSplit"
            >> beam.ParDo(_DigestSplit(self.count.reference_column, self.output, self.job_digest))
            | "MergeDigests" >> beam.CombineGlobally(MergeCounts())
            | "CompareTable" >> beam.Map(_is_of, self.path)
        )
        return (
            splits
            | "KeepIfChanged" >> beam.Filter(lambda _, same: not same, same)
            | "CountChanged" >> self.count
            | "ChooseTable" >> beam.Map(_choose, same, path=self.path, corpus=self.count.corpus)
        )


def _is_of(count: "SplitCount", path: str) -> bool:
    """Tell whether a saved table was counted over the references that were digested."""
    return not count.unreadable and split_corpus(load_idf(path).corpus)[1] == count.content


def _choose(counted: IdfTable, same: bool, path: str, corpus: str) -> IdfTable:
    """Return the table counted, or the saved one, which is of these versions of the files, too."""
    if not same:
        return counted
    saved = load_idf(path)
    return replace(saved, corpus=_join_corpus(corpus, split_corpus(saved.corpus)[1]))


def split_corpus(corpus: str) -> tuple[str, int]:
    """Return what identifies a table's corpus: by versions of files, and by texts."""
    versions, _, content = corpus.partition("/")
    try:
        return versions, int(content, 16)
    except ValueError:
        return versions, -1


def _join_corpus(versions: str, content: int) -> str:
    return f"{versions}/{content:032x}"


@dataclass
class SaveIdf(beam.PTransform):
    """Write the table to a path and pass it on, so that it is saved before it is used.

    One that leaves out a file would give every token a wrong weight, and is not written.
    """

    path: str

    def expand(self, tables: beam.PCollection[IdfTable]) -> beam.PCollection[IdfTable]:
        """Write each table; there is one."""
        return tables | "WriteTable" >> beam.Map(_save, self.path)


def load_idf(path: str) -> IdfTable:
    """Read a saved table.

    Raises:
        IdfError: it is not there, or is no such table.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise IdfError(
            f"idf table {mask_credentials(path)!r} cannot be read ({type(error).__name__}); "
            "expected a file written by `bertscore-beam idf`. Make it, or give --idf corpus."
        ) from error
    return IdfTable.from_bytes(data, source=mask_credentials(path))


def _save(table: IdfTable, path: str) -> IdfTable:
    if not is_incomplete(table):
        write_atomically(path, table.to_bytes())
    return table


def count_references(tokenizer: TextTokenizer, column: pa.ChunkedArray) -> DocumentFrequencies:
    """Count the references of some rows, each a document."""
    return DocumentFrequencies.from_tokens(tokenizer.encode(readable_references(column)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """Document frequencies of some splits, and what identifies their references.

    Attributes:
        frequencies: The frequencies.
        unreadable: Splits that could not be read.
        content: Sum over digests of the references and their positions; free of order.
    """

    frequencies: DocumentFrequencies
    unreadable: int = 0
    content: int = 0

    @classmethod
    def merge(cls, counts: Iterable["SplitCount"]) -> "SplitCount":
        """Add up any number of counts; exact in any order."""
        kept = list(counts)
        return cls(
            frequencies=DocumentFrequencies.merge(count.frequencies for count in kept),
            unreadable=sum(count.unreadable for count in kept),
            content=sum(count.content for count in kept) % _CONTENT_RANGE,
        )


class MergeCounts(beam.CombineFn):
    """Add up the counts of splits."""

    def create_accumulator(self) -> SplitCount:
        """Start from no documents."""
        return SplitCount.merge([])

    def add_input(self, accumulator: SplitCount, element: SplitCount) -> SplitCount:
        """Add one split's."""
        return SplitCount.merge((accumulator, element))

    def merge_accumulators(self, accumulators: Iterable[SplitCount]) -> SplitCount:
        """Add up several."""
        return SplitCount.merge(accumulators)

    def extract_output(self, accumulator: SplitCount) -> SplitCount:
        """Return the sum."""
        return accumulator


class _CountSplit(beam.DoFn):
    def __init__(self, config: ScorerConfig, reference_column: str) -> None:
        self._config = config
        self._column = reference_column

    def setup(self) -> None:
        self._tokenizer = settle_tokenizer(self._config)

    def process(self, split: Split) -> Iterator[SplitCount]:
        try:
            column = read_split(split, [self._column])[self._column]
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            count = SplitCount(frequencies=DocumentFrequencies.zero(), unreadable=1)
        else:
            count = SplitCount(
                frequencies=count_references(self._tokenizer, column),
                content=_content_of(split, digest_references(column)),
            )
        metrics.count(metrics.DOCUMENTS_COUNTED, count.frequencies.num_documents)
        yield count


class _DigestSplit(beam.DoFn):
    def __init__(self, reference_column: str, output: str, job_digest: str) -> None:
        self._column = reference_column
        self._output = output
        self._job_digest = job_digest

    def process(self, split: Split) -> Iterator[SplitCount]:
        record = read_record(self._output, split.part_name)
        known = record is not None and may_hold(split, record, self._job_digest, None)
        try:
            if record is not None and known and record.is_current(split):
                digest = record.digests.references
            else:
                digest = digest_references(read_split(split, [self._column])[self._column])
        except UNREADABLE as error:
            logger.warning("not compared: %s", mask_credentials(str(error)))
            yield SplitCount(frequencies=DocumentFrequencies.zero(), unreadable=1)
        else:
            content = _content_of(split, digest)
            yield SplitCount(frequencies=DocumentFrequencies.zero(), content=content)


def _content_of(split: Split, digest: str) -> int:
    """Return what a split adds to the content of its corpus."""
    text = f"{split.part_name} {split.num_rows} {digest}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16])


class _LabelTable(beam.DoFn):
    def __init__(self, config: ScorerConfig, corpus: str) -> None:
        self._config = config
        self._corpus = corpus

    def setup(self) -> None:
        self._tokenizer = settle_tokenizer(self._config)

    def process(self, count: SplitCount) -> Iterator[IdfTable]:
        corpus = _join_corpus(self._corpus, count.content)
        yield IdfTable(
            frequencies=count.frequencies,
            tokenizer=self._tokenizer.fingerprint,
            max_length=self._tokenizer.max_length,
            corpus=f"{INCOMPLETE}{corpus}" if count.unreadable else corpus,
        )
