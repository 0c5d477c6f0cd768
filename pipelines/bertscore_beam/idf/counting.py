"""Count the document frequencies of a split, and make idf tables of the sums over all splits."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bertscore_beam.dump import UNREADABLE, Rows, Split, SplitReader, SplitRun, TableFields
from bertscore_beam.files import mask_credentials
from bertscore_beam.idf.counts import (
    KeyCount,
    Repeats,
    SplitCount,
    count_from_bytes,
    count_rows,
    count_to_bytes,
)
from bertscore_beam.idf.idf_tables import MOST_TABLES, WHOLE, IdfTables
from bertscore_beam.idf.owners import KeyedRows, Owned, keyed_rows
from bertscore_beam.run import OutputFolder, at_work, counters
from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig
from bertscore_core.idf import CountedRows
from bertscore_core.scorer_config import model_part

if TYPE_CHECKING:
    from bertscore_core import TextTokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToCount:
    """A run of splits, and which of its rows are counted.

    Attributes:
        owned: The rows of each split, by the name of its part, and None for a split that could not
            be read; all rows count if it is None itself.
    """

    run: SplitRun
    owned: Mapping[str, Owned | None] | None = None


COUNTS_FOLDER = "counts"

_UNREADABLE = "the idf table leaves out a file that could not be read"
_TOO_MANY = (
    f"the columns of --idf-group have more than {MOST_TABLES:,} different values; expected one for "
    "each test set. Name columns with fewer values"
)


def is_incomplete(tables: IdfTables | None) -> bool:
    """Tell whether tables must not be used, since their weights would be wrong.

    A run with such tables scores nothing and does not succeed, and the next run counts again.
    """
    return tables is not None and tables.problem != ""


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

    def rows_of(self, split: Split, reader: SplitReader) -> Rows:
        """Read the columns of a split that are needed to count it."""
        return Rows(reader.read(split).table, self.fields)

    def tables_of(self, count: SplitCount) -> IdfTables:
        """Return a count as tables."""
        by_key = dict(count.by_key)
        if not self.fields.group and self.vocabularies.keys() == {WHOLE.language}:
            # There is one table for all rows, also of a corpus without a reference.
            nothing = CountedRows(key_columns=self.fields.key)
            by_key.setdefault(WHOLE, KeyCount(frequencies=DocumentFrequencies.zero(), rows=nothing))
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
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".npz"


# Find the keys of rows: of the whole corpus, one row of each key is counted.

OfPart: TypeAlias = tuple[str, Owned | None]
"""The name of a split's part, and some of its rows; None if the split could not be read."""

Found: TypeAlias = tuple[int, KeyedRows] | tuple[str, OfPart]
"""A bucket of keys, and rows of it; or the name of a run, and rows of a split without a key."""


def find_keys(run: SplitRun, *, counting: Counting) -> Iterator[list[Found]]:
    """Find the keys of the rows of splits; yield what is found of each split."""
    reader = SplitReader(run.splits, counting.fields.counted)
    for split in run.splits:
        try:
            rows = counting.rows_of(split, reader)
        except UNREADABLE as error:
            logger.warning("not counted: %s", mask_credentials(str(error)))
            yield [(run.name, (split.part_name, None))]
            continue
        keyed, alone = keyed_rows(split, run.name, rows)
        yield [(run.name, (split.part_name, alone)), *keyed.buckets(counting.buckets)]


@dataclass(frozen=True, slots=True)
class CountSplits:
    """The step that counts splits."""

    counting: Counting

    def open(self) -> Callable[[ToCount], Iterator[SplitCount]]:
        """Load the tokenizers."""
        from bertscore_core.config import settle_tokenizer  # here, since it takes seconds

        settled = cache(settle_tokenizer)  # languages may share a model
        vocabularies = self.counting.vocabularies
        tokenizers = {
            language: settled(model_part(vocabulary.config))
            for language, vocabulary in vocabularies.items()
        }
        return partial(_count_run, counting=self.counting, tokenizers=tokenizers)

    def name(self, chosen: ToCount) -> str:
        """Return the name of the run."""
        return chosen.run.name


def _count_run(
    chosen: ToCount, *, counting: Counting, tokenizers: Mapping[str, "TextTokenizer"]
) -> Iterator[SplitCount]:
    reader = SplitReader(chosen.run.splits, counting.fields.counted)
    for split in chosen.run.splits:
        owned = None if chosen.owned is None else chosen.owned[split.part_name]
        if owned is None and chosen.owned is not None:  # its keys could not be read
            counted = SplitCount(unreadable=1)
        else:
            counted = _kept(split, owned, counting) or _counted(
                split, owned, reader, counting, tokenizers
            )
        counters.count(counters.DOCUMENTS_COUNTED, counted.num_documents)
        at_work.counted(split.about_rows)
        yield counted


def _counted(
    split: Split,
    owned: Owned | None,
    reader: SplitReader,
    counting: Counting,
    tokenizers: Mapping[str, "TextTokenizer"],
) -> SplitCount:
    try:
        rows = counting.rows_of(split, reader)
    except UNREADABLE as error:
        logger.warning("not counted: %s", mask_credentials(str(error)))
        return SplitCount(unreadable=1)
    counted = count_rows(tokenizers, rows, owned)
    if counting.kept is not None and not counted.too_many:
        kept = count_to_bytes(counting.tables_of(counted), counted.repeats, _digest(owned))
        counting.kept.write(counting.count_path(split), kept)
    return counted


def _kept(split: Split, owned: Owned | None, counting: Counting) -> SplitCount | None:
    """Return the count of the same rows that an earlier run kept; None without one."""
    if counting.kept is None:
        return None
    (data,) = counting.kept.read_if_there(counting.count_path(split))
    if data is None:
        return None
    with suppress(IdfError):  # a damaged one is counted again
        tables, repeats, digest = count_from_bytes(data)
        # With keys, a change of another file can change which rows of this one count.
        if digest == _digest(owned):
            return _count_of(tables, repeats)
    return None


def _digest(owned: Owned | None) -> str:
    return "" if owned is None else owned.digest


def _count_of(tables: IdfTables, repeats: Repeats) -> SplitCount:
    return SplitCount(
        by_key={
            key: KeyCount(frequencies=table.frequencies, rows=table.counted or CountedRows())
            for key, table in tables.tables.items()
        },
        repeats=repeats,
        without_table=tables.without_table,
    )
