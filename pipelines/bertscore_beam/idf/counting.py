"""Count the document frequencies of a split, and make idf tables of the sums over all splits."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.splits import RowGroupSplits, Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf import counts
from bertscore_beam.idf.idf_tables import MOST_TABLES, WHOLE, IdfTables
from bertscore_beam.idf.owners import KeyedRows, Owned, keyed_rows
from bertscore_beam.run import activity, counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import IdfError
from bertscore_core.idf import CountedRows, DocumentFrequencies, IdfTable
from bertscore_core.scorer_config import ScorerConfig, model_part

if TYPE_CHECKING:
    from bertscore_core.tokenizer.tokenization import TextTokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """A chunk of splits, and which of its rows are counted.

    Attributes:
        owned: The rows of each split by the name of its part, without splits that could not be
            read; None if all rows count.
    """

    chunk: RowGroupSplits
    owned: Mapping[str, Owned] | None = None


COUNTS_FOLDER = "counts"

_UNREADABLE = "the idf table leaves out a file that could not be read"
_TOO_MANY = (
    f"the columns of --idf-group have more than {MOST_TABLES:,} different values; expected one for "
    "each test set. Name columns with fewer values"
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What is counted, and how.

    Attributes:
        vocabularies: The tokens of each language; those of "" where all rows have one setting.
        fields: The columns of references, and those that say how they are counted.
        corpus: Fingerprint of the corpus, kept in the table.
        buckets: Number of buckets of keys. It changes no result.
        kept: Folder where the count of each split is kept, so that a run that was killed does not
            count it again; None to keep none.
    """

    vocabularies: Mapping[str, Vocabulary]
    fields: TableFields
    corpus: str
    buckets: int = 1
    kept: OutputFolder | None = None

    def rows_of(self, split: Split, reader: SplitReader) -> Rows | None:
        """Read the columns of a split that are needed to count it; None if that cannot be done."""
        try:
            return Rows(reader.read(split).table, self.fields)
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            return None

    def tables_of(self, count: counts.SplitCount) -> IdfTables:
        """Return a count as tables."""
        by_key = dict(count.by_key)
        if not self.fields.group and self.vocabularies.keys() == {WHOLE.language}:
            # There is one table for all rows, also of a corpus without a reference.
            nothing = CountedRows(key_columns=self.fields.key)
            by_key.setdefault(
                WHOLE, counts.KeyCount(frequencies=DocumentFrequencies.zero(), rows=nothing)
            )
        return IdfTables(
            tables={
                key: IdfTable(
                    frequencies=counted.frequencies,
                    tokenizer=vocabulary.tokenizer,
                    max_length=vocabulary.max_length,
                    corpus=self.corpus,
                    counted=counted.rows if self.fields.deciding else None,
                )
                for key, counted in by_key.items()
                for vocabulary in [self.vocabularies[key.language]]
            },
            corpus=self.corpus,
            group_columns=self.fields.group,
            without_table=count.without_table,
            repeats=(count.repeats.rows, count.repeats.distinct),
            problem=_UNREADABLE if count.unreadable else _TOO_MANY if count.too_many else "",
        )

    def count_path(self, split: Split) -> str:
        """Return where the count of a split is kept."""
        return f"{COUNTS_FOLDER}/{self.count_name(split)}"

    def count_name(self, split: Split) -> str:
        """Return the name of a split's count: equal only for equal rows, counted alike.

        It is a digest of the split, with the version of its file, the column and the tokenizer.
        """
        settings: list[Any] = [
            (language, vocabulary.tokenizer, vocabulary.max_length)
            for language, vocabulary in sorted(self.vocabularies.items())
        ]
        settings += [self.fields.reference_column, self.fields.key, self.fields.group]
        text = json.dumps([*settings, asdict(split)], sort_keys=True)
        return f"{digest_of(text)}.npz"


# Find the keys of rows: of the whole corpus, one row of each key is counted.

Found: TypeAlias = tuple[int, KeyedRows] | tuple[str, tuple[str, Owned]]
"""A bucket of keys, and rows of it; or the name of a chunk, that of a split's part, and its rows
without a key."""


def find_keys(chunk: RowGroupSplits, *, counting: Counting) -> Iterator[list[Found]]:
    """Find the keys of the rows of splits; yield what is found of each, if it can be read."""
    reader = SplitReader(chunk.splits, counting.fields.counted)
    for split in chunk.splits:
        rows = counting.rows_of(split, reader)
        if rows is None:
            yield []
            continue
        keyed, alone = keyed_rows(split, chunk.name, rows)
        yield [(chunk.name, (split.part_name, alone)), *keyed.buckets(counting.buckets)]


@dataclass(frozen=True, slots=True)
class CountSplits:
    """The step that counts splits."""

    counting: Counting

    def open(self) -> Callable[[ChosenRows], Iterator[counts.SplitCount]]:
        """Load the tokenizers."""
        from bertscore_core.config import settle_tokenizer  # here, since it takes seconds

        settled = cache(settle_tokenizer)  # languages may share a model
        vocabularies = self.counting.vocabularies
        tokenizers = {
            language: settled(model_part(vocabulary.config))
            for language, vocabulary in vocabularies.items()
        }
        return partial(self._run, tokenizers)

    def name(self, chosen: ChosenRows) -> str:
        """Return the name of the chunk."""
        return chosen.chunk.name

    def _run(
        self, tokenizers: Mapping[str, "TextTokenizer"], chosen: ChosenRows
    ) -> Iterator[counts.SplitCount]:
        """Count splits one after the other, unless an earlier run has kept their counts."""
        reader = SplitReader(chosen.chunk.splits, self.counting.fields.counted)
        for split in chosen.chunk.splits:
            owned = None if chosen.owned is None else chosen.owned.get(split.part_name)
            if owned is None and chosen.owned is not None:  # its keys could not be read
                counted = counts.SplitCount(unreadable=1)
            else:
                digest = "" if owned is None else owned.digest
                counted = self._kept(split, digest) or self._counted(
                    tokenizers, split, owned, digest, reader
                )
            counters.count(counters.DOCUMENTS_COUNTED, counted.num_documents)
            activity.count_rows(split.about_rows)
            yield counted

    def _counted(
        self,
        tokenizers: Mapping[str, "TextTokenizer"],
        split: Split,
        owned: Owned | None,
        digest: str,
        reader: SplitReader,
    ) -> counts.SplitCount:
        counting = self.counting
        rows = counting.rows_of(split, reader)
        if rows is None:
            return counts.SplitCount(unreadable=1)
        counted = counts.count_rows(tokenizers, rows, owned)
        if counting.kept is not None and not counted.too_many:
            kept = counts.count_to_bytes(counting.tables_of(counted), counted.repeats, digest)
            counting.kept.write(counting.count_path(split), kept)
        return counted

    def _kept(self, split: Split, digest: str) -> counts.SplitCount | None:
        """Return the count of the same rows that an earlier run kept; None without one."""
        if self.counting.kept is None:
            return None
        data = self.counting.kept.read_if_there(self.counting.count_path(split))
        if data is None:
            return None
        with suppress(IdfError):  # a damaged one is counted again
            counted, of_rows = counts.count_from_bytes(data)
            # With keys, a change of another file can change which rows of this one count.
            if of_rows == digest:
                return counted
        return None
