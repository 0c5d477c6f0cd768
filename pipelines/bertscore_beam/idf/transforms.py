"""The steps of the pipeline that count document frequencies and save them as idf tables."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam

from bertscore_beam.dump.splits import RowGroupSplits
from bertscore_beam.files.checked import to_json
from bertscore_beam.idf.counting import ChosenRows, Counting, CountSplits, Found, find_keys
from bertscore_beam.idf.idf_tables import IdfTables, note_path
from bertscore_beam.idf.owners import KeyedRows, Owned, choose_owners
from bertscore_beam.idf.table_notes import describe_tables
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.pool import Each
from bertscore_beam.run.run_step import RunStep


@dataclass
class CountDocumentFrequencies(beam.PTransform):
    """Chunks of splits -> the IdfTables over all their references, one element.

    With keys, a first pass over the splits finds the one row of each key that counts. Only digests
    of keys and positions of rows cross a stage boundary, never a text.

    Attributes:
        counting: What is counted, and how.
    """

    counting: Counting

    def expand(self, chunks: beam.PCollection[RowGroupSplits]) -> beam.PCollection[IdfTables]:
        """Count in the stage that reads the splits; only frequencies cross to the combine."""
        counting = self.counting
        choose: beam.PTransform = beam.Map(ChosenRows)
        if counting.fields.key:
            choose = ChooseRows(counting)
        return (
            chunks
            # ChosenRows: a chunk of splits, and positions of rows if there are keys.
            | "ChooseRows" >> choose
            # IdfTables: a sparse table of frequencies for each key of a split.
            | "CountSplit" >> beam.ParDo(RunStep(CountSplits(counting)))
            # A global combine has a single key. The fan-out merges tables on many workers first.
            | "MergeFrequencies" >> beam.CombineGlobally(counting.merge).with_fanout(16)
        )


@dataclass
class ChooseRows(beam.PTransform):
    """Chunks of splits -> ChosenRows, with one row for each key of the whole corpus."""

    counting: Counting

    def expand(self, chunks: beam.PCollection[RowGroupSplits]) -> beam.PCollection[ChosenRows]:
        """Compare the keys of each bucket, and give every chunk its rows back."""
        step = Each(partial(find_keys, counting=self.counting), attrgetter("name"))
        # A step gives each split one result; see `Task.received`.
        of_splits = chunks | "FindKeys" >> beam.ParDo(RunStep(step))
        found = of_splits | "OfSplits" >> beam.FlatMap(iter)
        owned = (
            found
            # KeyedRows: 28 bytes a row; 106 where 20,000 rows are cut into 4,096 buckets.
            | "OfBuckets" >> beam.Filter(_is_of_bucket)
            | "ByBucket" >> beam.GroupByKey()
            | "ChooseOwners" >> beam.FlatMapTuple(lambda _, rows: choose_owners(rows))
        )
        of_chunks = found | "OfChunks" >> beam.Filter(lambda part: not _is_of_bucket(part))
        parts = {
            "chunk": chunks | "ByName" >> beam.Map(lambda chunk: (chunk.name, chunk)),
            "owned": (owned, of_chunks) | "AllOwned" >> beam.Flatten(),
        }
        return (
            parts | "JoinParts" >> beam.CoGroupByKey() | "ChosenRows" >> beam.FlatMap(_chosen_rows)
        )


def _is_of_bucket(found: Found) -> bool:
    return isinstance(found[1], KeyedRows)


def _chosen_rows(joined: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[ChosenRows]:
    _, found = joined
    by_part: dict[str, list[Owned]] = defaultdict(list)
    for part_name, owned in found["owned"]:
        by_part[part_name].append(owned)
    merged = {name: Owned.merge(parts) for name, parts in by_part.items()}
    for chunk in found["chunk"]:
        yield ChosenRows(chunk, merged)


def save_idf(tables: IdfTables, folder: OutputFolder, name: str) -> IdfTables:
    """Write the tables and return them, so that they are saved before they are used.

    A note beside them says how they were counted. Tables that leave out a file would give every
    token a wrong weight, and are not written.
    """
    note = {note_path(name): to_json(describe_tables(tables), indent=2)}
    folder.write_all(note if tables.problem else {**note, name: tables.to_bytes()})
    return tables
