"""Count the document frequencies of a split, and make idf tables of the sums over all splits."""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.parquet import UNREADABLE
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.splits import RowGroupSplits, Split
from bertscore_beam.dump.texts import Rows
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.idf_tables import MOST_TABLES, WHOLE, IdfKey, IdfTables, read_set
from bertscore_beam.idf.owners import NO_KEY, Owned, keyed_rows, row_keys
from bertscore_beam.idf.repeats import Repeats
from bertscore_beam.run import activity, counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_core.errors import IdfError
from bertscore_core.idf import CountedRows, DocumentFrequencies, IdfTable
from bertscore_core.scorer_config import Vocabulary, model_part

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
_VERSION = 2
"""Of the counts that are kept. The second has other digests of references."""

_UNREADABLE = "the idf table leaves out a file that could not be read"
_TOO_MANY = (
    f"the columns of --idf-group have more than {MOST_TABLES:,} different values; expected one for "
    "each test set. Name columns with fewer values"
)
_UNREAD = IdfTables(tables={}, problem=_UNREADABLE)
"""The count of a split that could not be read."""


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

    def merge(self, counts: Iterable[IdfTables]) -> IdfTables:
        """Add up counts, and label them as those of the corpus; any order gives the same.

        More tables than a worker has memory for are left out.
        """
        parts: dict[IdfKey, list[IdfTable]] = defaultdict(list)
        if not self.fields.group and self.vocabularies.keys() == {WHOLE.language}:
            parts[WHOLE] = []  # there is one table, also of a corpus without a reference
        counts = list(counts)
        for count in counts:
            for key, table in count.tables.items():
                parts[key].append(table)
        problems = {count.problem for count in counts}
        if len(parts) > MOST_TABLES or _TOO_MANY in problems:
            parts, problems = {}, {*problems, _TOO_MANY}
        return IdfTables(
            tables={key: self._sum(key, tables) for key, tables in parts.items()},
            corpus=self.corpus,
            group_columns=self.fields.group,
            without_table=sum(count.without_table for count in counts),
            repeats=Repeats.merge(count.repeats for count in counts if count.repeats is not None),
            problem=_UNREADABLE if _UNREADABLE in problems else max(problems, default=""),
        )

    def _sum(self, key: IdfKey, tables: Sequence[IdfTable]) -> IdfTable:
        frequencies = DocumentFrequencies.merge(table.frequencies for table in tables)
        counted = (table.counted for table in tables)
        rows = sum(filter(None, counted), CountedRows(key_columns=self.fields.key))
        return self.table(key, frequencies, rows)

    def table(self, key: IdfKey, frequencies: DocumentFrequencies, rows: CountedRows) -> IdfTable:
        """Return the table of a key."""
        vocabulary = self.vocabularies[key.language]
        return IdfTable(
            frequencies=frequencies,
            tokenizer=vocabulary.tokenizer,
            max_length=vocabulary.max_length,
            corpus=self.corpus,
            counted=rows if self.fields.deciding else None,
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
        text = json.dumps([_VERSION, *settings, asdict(split)], sort_keys=True)
        return f"{digest_of(text)}.npz"


# Find the keys of rows: of the whole corpus, one row of each key is counted.

Found: TypeAlias = tuple[str | int, list[Any]]
"""A bucket of keys, and rows of it (`KeyedRows`); or the name of a chunk, and the chunk itself or
the name of a split's part with rows of it (`Owned`), here those without a key."""


def find_keys(chunk: RowGroupSplits, *, counting: Counting) -> Iterator[list[Found]]:
    """Find the keys of the rows of splits; yield what is found of each, if it can be read.

    A split that cannot be read yields an empty list: the number of results must not depend on that,
    see `Task.received`.
    """
    yield [(chunk.name, [chunk])]
    reader = SplitReader(chunk.splits, counting.fields.counted)
    for split in chunk.splits:
        rows = counting.rows_of(split, reader)
        if rows is None:
            yield []
            continue
        keyed, alone = keyed_rows(split, chunk.name, rows)
        in_buckets = [(bucket, [rows]) for bucket, rows in keyed.buckets(counting.buckets)]
        yield [(chunk.name, [(split.part_name, alone)]), *in_buckets]


def count_rows(
    counting: Counting,
    tokenizers: Mapping[str, "TextTokenizer"],
    rows: Rows,
    owned: Owned | None = None,
) -> IdfTables:
    """Count the references of rows, or of those `owned`, each for the table of its row."""
    keys, references = row_keys(rows), rows.countable
    countable = np.array([group is not None for group in references], dtype=np.bool_)
    seen = countable & (keys.codes != NO_KEY)
    chosen, conflicts, without_key = seen, np.zeros_like(seen), np.zeros_like(seen)
    if owned is not None:
        places = (owned.rows, owned.conflicts, owned.without_key)
        chosen, conflicts, without_key = (_mark(place, len(rows)) & seen for place in places)
    texts: dict[int, list[str]] = {}
    counted_rows: list[Sequence[str]] = []
    for row in np.flatnonzero(chosen).tolist():
        group = references[row] or ()
        texts.setdefault(int(keys.codes[row]), []).extend(group)
        counted_rows.append(group)
    numbers = (
        np.bincount(keys.codes[marked], minlength=len(keys.keys)).tolist()
        for marked in (seen, seen & ~chosen, conflicts, without_key)
    )
    tables = {}
    for code, (key, number, left_out, different, alone) in enumerate(
        zip(keys.keys, *numbers, strict=True)
    ):
        if number and key.language in tokenizers:
            tokens = tokenizers[key.language].encode(texts.get(code, []))
            facts = CountedRows(
                key_columns=rows.fields.key,
                rows=number,
                duplicates=left_out,
                conflicts=different,
                without_key=alone,
            )
            tables[key] = counting.table(key, DocumentFrequencies.from_tokens(tokens), facts)
    counted = IdfTables(
        tables=tables,
        repeats=Repeats.of(counted_rows),
        without_table=int((countable & (keys.codes == NO_KEY)).sum()),
    )
    return counting.merge([counted])


def _mark(positions: np.ndarray, number: int) -> np.ndarray:
    marks = np.zeros(number, dtype=np.bool_)
    marks[positions] = True
    return marks


def count_to_bytes(tables: IdfTables, owned: str) -> bytes:
    """Return the file of a count; `owned` is the digest of its choice of rows, "" for all."""
    repeats = tables.repeats or Repeats.of([])
    seen = {"rows": repeats.rows, "smallest": repeats.smallest.tolist()}
    return tables.set_to_bytes(owned=owned, repeats=seen)


def count_from_bytes(data: bytes) -> tuple[IdfTables, str]:
    """Read what `count_to_bytes` wrote: the count, and the digest of its choice of rows.

    Raises:
        IdfError: It is damaged, or of another version.
    """
    try:
        tables, notes = read_set(data)
        rows, smallest = int(notes["repeats"]["rows"]), notes["repeats"]["smallest"]
        repeats = Repeats(rows=rows, smallest=np.array(smallest, dtype=np.uint64))
        return replace(tables, repeats=repeats), str(notes["owned"])
    except Exception as error:
        raise IdfError(f"a count is damaged ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class CountSplits:
    """The step that counts splits."""

    counting: Counting

    def open(self) -> Callable[[ChosenRows], Iterator[IdfTables]]:
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
    ) -> Iterator[IdfTables]:
        """Count splits one after the other, unless an earlier run has kept their counts."""
        reader = SplitReader(chosen.chunk.splits, self.counting.fields.counted)
        for split in chosen.chunk.splits:
            owned = None if chosen.owned is None else chosen.owned.get(split.part_name)
            if owned is None and chosen.owned is not None:  # its keys could not be read
                counted = _UNREAD
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
    ) -> IdfTables:
        counting = self.counting
        rows = counting.rows_of(split, reader)
        if rows is None:
            return _UNREAD
        counted = count_rows(counting, tokenizers, rows, owned)
        if counting.kept is not None and not counted.problem:
            counting.kept.write(counting.count_path(split), count_to_bytes(counted, digest))
        return counted

    def _kept(self, split: Split, digest: str) -> IdfTables | None:
        """Return the count of the same rows that an earlier run kept; None without one."""
        if self.counting.kept is None:
            return None
        data = self.counting.kept.read_if_there(self.counting.count_path(split))
        if data is None:
            return None
        with suppress(IdfError):  # a damaged one is counted again
            counted, of_rows = count_from_bytes(data)
            # With keys, a change of another file can change which rows of this one count.
            if of_rows == digest:
                return counted
        return None
