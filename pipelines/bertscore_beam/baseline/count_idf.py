"""Count the idf weights of a language, for tables of idf-weighted scores.

The documents are the sentences of the language's pairs, so that the weights and the pairs are of
the same text. A table is counted once for every model, since models differ in their tokens.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import apache_beam as beam
import pyarrow.parquet as pq

from bertscore_beam.baseline import layout
from bertscore_beam.baseline.plan import BaselineJob, BaselineModel
from bertscore_beam.baseline.records import PairsRecord
from bertscore_beam.files.read import open_source
from bertscore_beam.run import counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.stage import Stage
from bertscore_beam.run.step import RunStep
from bertscore_core import DocumentFrequencies, IdfError, IdfTable, ScorerConfig, TextTokenizer
from bertscore_core.config import settle_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsToCount:
    """A part of a language's pairs, and the table that its sentences are counted for.

    Attributes:
        pairs: Path of the pairs below the output folder.
        table: Path of the idf table below it.
        corpus: Digest of all pairs of the language, kept in the table.
    """

    pairs: str
    table: str
    corpus: str


def count_idf(
    job: BaselineJob, model: BaselineModel, pairs: Mapping[str, PairsRecord]
) -> Generator[Stage, None, dict[str, IdfTable | None]]:
    """Count the sentences of every language with a model's tokens; tables that are there are kept.

    Yields:
        The stage that counts what is left to count, if anything is.

    Returns:
        The table of each language; None for a model that scores without idf.
    """
    if not model.config.idf:
        return dict.fromkeys(pairs)
    pending = [
        PairsToCount(
            pairs=layout.pairs_path(code, part.name),
            table=layout.idf_path(code, model.name),
            corpus=record.digest,
        )
        for code, record in pairs.items()
        if _find(job.folder, model, record) is None
        for part in record.parts
    ]
    if pending:
        yield count_stage(job, model.config, pending, model.name)
    return {code: read_idf(job.folder, model, record) for code, record in pairs.items()}


def count_stage(
    job: BaselineJob,
    config: ScorerConfig,
    parts: list[PairsToCount] | None = None,
    model: str = "",
) -> Stage:
    """Return the stage that counts sentences with the tokens of a model."""
    count = CountSentences(config=config, folder=job.folder)
    return Stage(
        name="count",
        # Where pairs are scored: only there the model's files must be.
        runner=job.plan.scoring,
        build=lambda root: root | beam.Create(parts or []) | beam.Reshuffle() | count,
        words=f"Counting the tokens of {model}",
    )


def read_idf(folder: OutputFolder, model: BaselineModel, record: PairsRecord) -> IdfTable:
    """Read the table of a language.

    Raises:
        RuntimeError: It is not there, or was counted over other pairs.
    """
    found = _find(folder, model, record)
    if found is None:
        path = layout.idf_path(record.language, model.name)
        raise RuntimeError(f"the idf table {path} was not written; run the command again")
    return found


def _find(folder: OutputFolder, model: BaselineModel, record: PairsRecord) -> IdfTable | None:
    """Return the table that is there already, if it is of these pairs and tokens."""
    (data,) = folder.read_if_there(layout.idf_path(record.language, model.name))
    if data is None:
        return None
    tokenizer = model.settings.tokenizer
    try:
        table = IdfTable.from_bytes(data)
        table.check_fits(tokenizer.fingerprint, tokenizer.max_length)
    except IdfError:
        return None
    return table if table.corpus == record.digest else None


@dataclass
class CountSentences(beam.PTransform):
    """Parts of pairs -> paths of the idf tables over their sentences, which are written.

    Attributes:
        config: Names the tokenizer.
        folder: Folder of the run.
    """

    config: ScorerConfig
    folder: OutputFolder

    def expand(self, parts: beam.PCollection[PairsToCount]) -> beam.PCollection[str]:
        """Count each part; only frequencies cross to the combine."""
        return (
            parts
            # (table to write, frequencies)
            | "CountPart" >> beam.ParDo(RunStep(CountParts(self.config, self.folder)))
            | "MergeFrequencies" >> beam.CombinePerKey(DocumentFrequencies.merge)
            | "WriteIdf" >> beam.MapTuple(partial(_write_table, folder=self.folder))
        )


_Table: TypeAlias = tuple[str, str, str, int | None]
"""A table to write: its path, its corpus, the fingerprint of the tokenizer, and where it cuts."""


@dataclass(frozen=True, slots=True)
class CountParts:
    """The step that counts the sentences of parts.

    Attributes:
        config: Names the tokenizer.
        folder: Folder of the run.
    """

    config: ScorerConfig
    folder: OutputFolder

    def open(self) -> Callable[[PairsToCount], Iterator[tuple[_Table, DocumentFrequencies]]]:
        """Load the tokenizer."""
        return partial(_count, tokenizer=settle_tokenizer(self.config), folder=self.folder)


def _count(
    part: PairsToCount, *, tokenizer: TextTokenizer, folder: OutputFolder
) -> Iterator[tuple[_Table, DocumentFrequencies]]:
    with open_source(folder.path(part.pairs)) as source:
        table = pq.read_table(source, columns=["candidate", "reference"])
    texts = [text for column in table.columns for text in column.to_pylist()]
    found = DocumentFrequencies.from_tokens(tokenizer.encode(texts))
    counters.count(counters.DOCUMENTS_COUNTED, found.num_documents)
    yield (part.table, part.corpus, tokenizer.fingerprint, tokenizer.max_length), found


def _write_table(table: _Table, frequencies: DocumentFrequencies, *, folder: OutputFolder) -> str:
    path, corpus, tokenizer, max_length = table
    counted = IdfTable(
        frequencies=frequencies, tokenizer=tokenizer, max_length=max_length, corpus=corpus
    )
    folder.write(path, counted.to_bytes())
    return path
