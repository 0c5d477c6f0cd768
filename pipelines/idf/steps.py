"""Count document frequencies split by split, add them up, and save them as an idf table."""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

import apache_beam as beam
import pyarrow as pa

from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig, TextTokenizer
from bertscore_core.config import settle_tokenizer
from pipelines.dump.columns import column_of
from pipelines.dump.parquet import UNREADABLE
from pipelines.dump.read_split import read_split
from pipelines.dump.row_digests import digest_references
from pipelines.dump.splits import Split
from pipelines.dump.texts import readable_references
from pipelines.files.credentials import mask_credentials
from pipelines.files.read import read_bytes
from pipelines.run import counters
from pipelines.run.folder import OutputFolder

logger = logging.getLogger(__name__)

_CONTENT_RANGE = 1 << 128

COUNTS_FOLDER = "counts"

INCOMPLETE = "incomplete:"
"""Prefix of the corpus of a table without the splits that could not be read. A run with such a
table scores nothing and does not succeed, and the next run counts again."""


def is_incomplete(table: IdfTable | None) -> bool:
    """Tell whether a table leaves out a split that could not be read, so its weights are wrong."""
    return table is not None and table.corpus.startswith(INCOMPLETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What is counted, and how.

    Attributes:
        config: Names the tokenizer and its truncation.
        tokenizer: The tokenizer's fingerprint, kept in the table.
        max_length: Tokens at which it cuts, kept in the table.
        reference_column: Column of references.
        corpus: Fingerprint of the corpus, kept in the table.
        kept: Folder where the count of each split is kept, so that a run that was killed does not
            count it again; None to keep none.
    """

    config: ScorerConfig
    tokenizer: str
    max_length: int | None
    reference_column: str
    corpus: str
    kept: OutputFolder | None = None

    def table_of(self, count: "SplitCount") -> IdfTable:
        """Return a count as a table."""
        corpus = join_corpus(self.corpus, count.content)
        return IdfTable(
            frequencies=count.frequencies,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            corpus=f"{INCOMPLETE}{corpus}" if count.unreadable else corpus,
        )

    def count_path(self, split: Split) -> str:
        """Return where the count of a split is kept."""
        return f"{COUNTS_FOLDER}/{self.count_name(split)}"

    def count_name(self, split: Split) -> str:
        """Return the name of a split's count: equal only for equal rows, counted alike.

        It is a digest of the split, with the version of its file, the column and the tokenizer.
        """
        settings = [self.tokenizer, self.max_length, self.reference_column]
        text = json.dumps([*settings, asdict(split)], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".npz"


@dataclass
class CountDocumentFrequencies(beam.PTransform):
    """Splits -> one IdfTable over all their references.

    Attributes:
        counting: What is counted, and how.
    """

    counting: Counting

    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[IdfTable]:
        """Count in the stage that reads the splits; only frequencies cross to the combine."""
        return (
            splits
            # SplitCount: one sparse table of frequencies a split.
            | "CountSplit" >> beam.ParDo(_CountSplit(self.counting))
            # A global combine has a single key. The fan-out merges tables on many workers first.
            | "MergeFrequencies" >> beam.CombineGlobally(SplitCount.merge).with_fanout(16)
            | "LabelTable" >> beam.Map(self.counting.table_of)
        )


def split_corpus(corpus: str) -> tuple[str, int]:
    """Return the two digests of a table's corpus: of the versions of files, and of the texts."""
    versions, _, content = corpus.partition("/")
    try:
        return versions, int(content, 16)
    except ValueError:
        return versions, -1


def join_corpus(versions: str, content: int) -> str:
    """Join the two digests of a corpus; see `split_corpus`."""
    return f"{versions}/{content:032x}"


@dataclass
class SaveIdf(beam.PTransform):
    """Write the table and pass it on, so that it is saved before it is used.

    A table that leaves out a file would give every token a wrong weight, and is not written.

    Attributes:
        folder: Output folder of the run.
        name: Where to write the table, below that folder.
    """

    folder: OutputFolder
    name: str

    def expand(self, tables: beam.PCollection[IdfTable]) -> beam.PCollection[IdfTable]:
        """Write the table; the input is a single element."""
        return tables | "WriteTable" >> beam.Map(_save, self.folder, self.name)


def load_idf(path: str) -> IdfTable:
    """Read a saved table.

    Raises:
        IdfError: The file is missing, or is not an idf table.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise IdfError(
            f"idf table {mask_credentials(path)!r} cannot be read ({type(error).__name__}); "
            "expected a file written by `bertscore-beam idf`. Make it, or give --idf corpus."
        ) from error
    return IdfTable.from_bytes(data, source=mask_credentials(path))


def _save(table: IdfTable, folder: OutputFolder, name: str) -> IdfTable:
    if not is_incomplete(table):
        folder.write(name, table.to_bytes())
    return table


def count_references(tokenizer: TextTokenizer, column: pa.ChunkedArray) -> DocumentFrequencies:
    """Count the references of some rows, each a document."""
    return DocumentFrequencies.from_tokens(tokenizer.encode(readable_references(column)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """Document frequencies of some splits, and a digest of their references.

    Attributes:
        frequencies: The frequencies.
        unreadable: Number of splits that could not be read.
        content: Sum of the digests of the references and their positions; any order gives the same.
    """

    frequencies: DocumentFrequencies
    unreadable: int = 0
    content: int = 0

    @classmethod
    def merge(cls, counts: Iterable["SplitCount"]) -> "SplitCount":
        """Add up counts; any order gives the same."""
        kept = list(counts)
        return cls(
            frequencies=DocumentFrequencies.merge(count.frequencies for count in kept),
            unreadable=sum(count.unreadable for count in kept),
            content=sum(count.content for count in kept) % _CONTENT_RANGE,
        )


class _CountSplit(beam.DoFn):
    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    def setup(self) -> None:
        self._tokenizer = settle_tokenizer(self._counting.config)

    def process(self, split: Split) -> Iterator[SplitCount]:
        counted = self._kept(split)
        if counted is None:
            counted = self._counted(split)
        counters.count(counters.DOCUMENTS_COUNTED, counted.frequencies.num_documents)
        yield counted

    def _counted(self, split: Split) -> SplitCount:
        name = self._counting.reference_column
        try:
            column = column_of(read_split(split, [name]), name)
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            return SplitCount(frequencies=DocumentFrequencies.zero(), unreadable=1)
        counted = SplitCount(
            frequencies=count_references(self._tokenizer, column),
            content=content_of(split, len(column), digest_references(column)),
        )
        if self._counting.kept is not None:
            table = self._counting.table_of(counted)
            self._counting.kept.write(self._counting.count_path(split), table.to_bytes())
        return counted

    def _kept(self, split: Split) -> SplitCount | None:
        """Return the count of the same rows that an earlier run kept; None without one."""
        if self._counting.kept is None:
            return None
        (data,) = self._counting.kept.read_if_there(self._counting.count_path(split))
        with suppress(IdfError):  # a damaged one is counted again
            if data is not None:
                table = IdfTable.from_bytes(data)
                _, content = split_corpus(table.corpus)
                return SplitCount(frequencies=table.frequencies, content=content)
        return None


def content_of(split: Split, rows: int, digest: str) -> int:
    """Return the digest of a split for `SplitCount.content`.

    Args:
        split: The split.
        rows: Its rows.
        digest: Digest of its references.
    """
    text = f"{split.part_name} {rows} {digest}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16])
