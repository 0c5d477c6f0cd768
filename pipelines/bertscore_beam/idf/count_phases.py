"""The phases that count document frequencies, and save them as idf tables."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from bertscore_beam.dump.splits import RowGroupSplits
from bertscore_beam.files.checked import to_json
from bertscore_beam.idf.counting import ChosenRows, Counting, CountSplits, Found, find_keys
from bertscore_beam.idf.idf_tables import IdfTables, note_path
from bertscore_beam.idf.owners import Owned, choose_owners
from bertscore_beam.idf.table_notes import describe_tables
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.phases import Items, Phase, collected, only
from bertscore_beam.run.pool import Each


def count_phases(chunks: Items, counting: Counting) -> Iterator[Phase]:
    """Yield the phases that count the references of a plan; the last is folded to `IdfTables`.

    With keys, a first pass over the splits finds the one row of each key that counts. Only digests
    of keys and positions of rows cross from phase to phase, never a text.
    """
    items: Any = partial(_all_rows, chunks)
    if counting.fields.key:
        find = Each(partial(find_keys, counting=counting), attrgetter("name"))
        # KeyedRows: 28 bytes a row; 106 where 20,000 rows are cut into 4,096 buckets.
        yield Phase(name="FindKeys", items=chunks, step=find, fold=collected, by_key=True)
        yield Phase(name="ChooseOwners", items=_choose, fold=collected, by_key=True)
        items = _chosen_rows
    yield Phase(name="CountSplits", items=items, step=CountSplits(counting), fold=counting.merge)


def _all_rows(chunks: Items, before: Any) -> Iterator[ChosenRows]:
    return map(ChosenRows, chunks(before))


def _choose(found: tuple[str | int, list[Any]]) -> Iterator[list[Found]]:
    """Give every chunk those rows of a bucket that count; what is of a chunk goes on as it is."""
    key, values = found
    if isinstance(key, str):
        yield [(key, values)]
    else:
        yield [(chunk, [owned]) for chunk, owned in choose_owners(values)]


def _chosen_rows(found: tuple[str, list[Any]]) -> Iterator[ChosenRows]:
    by_part: dict[str, list[Owned]] = defaultdict(list)
    chunks = []
    for value in found[1]:
        if isinstance(value, RowGroupSplits):
            chunks.append(value)
        else:
            part_name, owned = value
            by_part[part_name].append(owned)
    merged = {name: Owned.merge(parts) for name, parts in by_part.items()}
    for chunk in chunks:
        yield ChosenRows(chunk, merged)


def save_phase(folder: OutputFolder, name: str) -> Phase:
    """Return the phase that saves the tables and hands them on.

    A note beside them says how they were counted. Tables that leave out a file would give every
    token a wrong weight, and are not written.
    """
    return Phase(name="SaveIdf", items=partial(_save, folder, name), fold=only)


def _save(folder: OutputFolder, name: str, tables: IdfTables) -> tuple[IdfTables]:
    note = {note_path(name): to_json(describe_tables(tables), indent=2)}
    folder.write_all(note if tables.problem else {**note, name: tables.to_bytes()})
    return (tables,)
