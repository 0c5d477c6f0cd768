"""Count document frequencies split by split, add them up, and save them as an idf table."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig
from bertscore_core.config import settle_tokenizer
from pipelines.dump.columns import COUNT_ALL, IdfColumns, column_of
from pipelines.dump.parquet import UNREADABLE
from pipelines.dump.read_split import read_split
from pipelines.dump.row_digests import digest_references
from pipelines.dump.splits import Split
from pipelines.files.credentials import mask_credentials
from pipelines.files.read import read_bytes
from pipelines.idf.counts import SplitCount, count_references
from pipelines.idf.row_keys import row_keys
from pipelines.idf.tables import WHOLE, IdfKey, IdfTables
from pipelines.run import counters
from pipelines.run.folder import OutputFolder

logger = logging.getLogger(__name__)

COUNTS_FOLDER = "counts"

INCOMPLETE = "incomplete:"
"""Prefix of the corpus of a table without the splits that could not be read. A run with such a
table scores nothing and does not succeed, and the next run counts again."""


def is_incomplete(tables: IdfTables | None) -> bool:
    """Tell whether tables leave out a split that could not be read, so their weights are wrong."""
    return tables is not None and tables.corpus.startswith(INCOMPLETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens that are counted.

    Attributes:
        config: Names the tokenizer and its truncation.
        tokenizer: The tokenizer's fingerprint, kept in the table.
        max_length: Tokens at which it cuts, kept in the table.
    """

    config: ScorerConfig
    tokenizer: str
    max_length: int | None

    def table_of(self, frequencies: DocumentFrequencies, corpus: str) -> IdfTable:
        """Return frequencies as a table."""
        return IdfTable(
            frequencies=frequencies,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            corpus=corpus,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What is counted, and how.

    Attributes:
        vocabularies: The tokens of each language; those of "" where all rows have one setting.
        reference_column: Column of references.
        corpus: Fingerprint of the corpus, kept in the table.
        columns: Columns that say how references are counted.
        kept: Folder where the count of each split is kept, so that a run that was killed does not
            count it again; None to keep none.
    """

    vocabularies: Mapping[str, Vocabulary]
    reference_column: str
    corpus: str
    columns: IdfColumns = COUNT_ALL
    kept: OutputFolder | None = None

    @property
    def read_columns(self) -> list[str]:
        """The columns to read, each once."""
        return list(dict.fromkeys((self.reference_column, *self.columns.names)))

    def digest_of(self, table: pa.Table) -> str:
        """Digest the references of some rows, and the columns that say how they are counted."""
        return digest_references(table, self.reference_column, self.columns.names)

    def tables_of(self, count: SplitCount) -> IdfTables:
        """Return a count as tables."""
        corpus = join_corpus(self.corpus, count.content)
        corpus = f"{INCOMPLETE}{corpus}" if count.unreadable else corpus
        frequencies = dict(count.frequencies)
        if self.has_one_table:  # also of a corpus without a reference
            frequencies.setdefault(WHOLE, DocumentFrequencies.zero())
        return IdfTables(
            tables={
                key: self.vocabularies[key.language].table_of(counted, corpus)
                for key, counted in frequencies.items()
            },
            corpus=corpus,
            group_columns=self.columns.group,
        )

    @property
    def has_one_table(self) -> bool:
        """Whether all rows have one table."""
        return not self.columns.group and self.vocabularies.keys() == {WHOLE.language}

    def count_path(self, split: Split) -> str:
        """Return where the count of a split is kept."""
        return f"{COUNTS_FOLDER}/{self.count_name(split)}"

    def count_name(self, split: Split) -> str:
        """Return the name of a split's count: equal only for equal rows, counted alike.

        It is a digest of the split, with the version of its file, the column and the tokenizer.
        """
        settings: list[Any] = [
            (language, one.tokenizer, one.max_length)
            for language, one in sorted(self.vocabularies.items())
        ]
        settings += [self.reference_column, self.columns.key, self.columns.group]
        text = json.dumps([*settings, asdict(split)], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".npz"


@dataclass
class CountDocumentFrequencies(beam.PTransform):
    """Splits -> the IdfTables over all their references, one element.

    Attributes:
        counting: What is counted, and how.
    """

    counting: Counting

    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[IdfTables]:
        """Count in the stage that reads the splits; only frequencies cross to the combine."""
        return (
            splits
            # SplitCount: a sparse table of frequencies for each key of a split.
            | "CountSplit" >> beam.ParDo(_CountSplit(self.counting))
            # A global combine has a single key. The fan-out merges tables on many workers first.
            | "MergeFrequencies" >> beam.CombineGlobally(SplitCount.merge).with_fanout(16)
            | "LabelTable" >> beam.Map(self.counting.tables_of)
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
    """Write the tables and pass them on, so that they are saved before they are used.

    Tables that leave out a file would give every token a wrong weight, and are not written.

    Attributes:
        folder: Output folder of the run.
        name: Where to write the tables, below that folder.
    """

    folder: OutputFolder
    name: str

    def expand(self, tables: beam.PCollection[IdfTables]) -> beam.PCollection[IdfTables]:
        """Write the tables; the input is a single element."""
        return tables | "WriteTable" >> beam.Map(_save, self.folder, self.name)


def load_idf(path: str) -> IdfTables:
    """Read the saved tables: one or several.

    Raises:
        IdfError: The file is missing, or holds no idf table.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise IdfError(
            f"idf table {mask_credentials(path)!r} cannot be read ({type(error).__name__}); "
            "expected a file written by `bertscore-beam idf`. Make it, or give --idf corpus."
        ) from error
    return IdfTables.from_bytes(data, source=mask_credentials(path))


def _save(tables: IdfTables, folder: OutputFolder, name: str) -> IdfTables:
    if not is_incomplete(tables):
        folder.write(name, tables.to_bytes())
    return tables


class _CountSplit(beam.DoFn):
    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    def setup(self) -> None:
        vocabularies = self._counting.vocabularies
        self._tokenizers = {
            language: settle_tokenizer(one.config) for language, one in vocabularies.items()
        }

    def process(self, split: Split) -> Iterator[SplitCount]:
        counted = self._kept(split)
        if counted is None:
            counted = self._counted(split)
        counters.count(counters.DOCUMENTS_COUNTED, counted.num_documents)
        yield counted

    def _counted(self, split: Split) -> SplitCount:
        counting = self._counting
        try:
            table = read_split(split, counting.read_columns)
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            return SplitCount(unreadable=1)
        column = column_of(table, counting.reference_column)
        counted = SplitCount(
            frequencies=count_references(
                self._tokenizers, column, row_keys(table, counting.columns)
            ),
            content=content_of(split, table.num_rows, counting.digest_of(table), counting.columns),
        )
        if counting.kept is not None:
            counting.kept.write(counting.count_path(split), counting.tables_of(counted).to_bytes())
        return counted

    def _kept(self, split: Split) -> SplitCount | None:
        """Return the count of the same rows that an earlier run kept; None without one."""
        if self._counting.kept is None:
            return None
        (data,) = self._counting.kept.read_if_there(self._counting.count_path(split))
        with suppress(IdfError):  # a damaged one is counted again
            if data is not None:
                tables = IdfTables.from_bytes(data)
                _, content = split_corpus(tables.corpus)
                return SplitCount(frequencies=_frequencies(tables), content=content)
        return None


def _frequencies(tables: IdfTables) -> dict[IdfKey, DocumentFrequencies]:
    return {key: table.frequencies for key, table in tables.tables.items()}


def content_of(split: Split, rows: int, digest: str, columns: IdfColumns) -> int:
    """Return the digest of a split for `SplitCount.content`.

    Args:
        split: The split.
        rows: Its rows.
        digest: Digest of its references and of the columns.
        columns: Columns that say how references are counted.
    """
    roles = f" {json.dumps([columns.key, columns.group])}" if columns.names else ""
    text = f"{split.part_name} {rows} {digest}{roles}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16])
