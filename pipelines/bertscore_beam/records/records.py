"""The records of parts: single files while a run works, packs of many when it ends.

    OUT/<input name>/part-000000020000.parquet            a part, whole or missing
    OUT/_manifest/parts/<digest>/part-000000020000.json   its record, written after it
    OUT/_manifest/records/...                             records of a finished run, packed
    OUT/_manifest/plan.pq, OUT/_manifest/idf.npz          inputs of the workers
    OUT/_rejects/...                                      rows, splits and files without scores

`records.resume` compares them with the plan of the next run.
"""

import gzip
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence

from bertscore_beam.dump.parquet import is_signed
from bertscore_beam.files.listing import HIDDEN_PREFIXES
from bertscore_beam.files.read import in_parallel, read_each
from bertscore_beam.records.record import (
    PARTS_FOLDER,
    PartRecord,
    record_from_json,
    record_name,
    record_path,
)
from bertscore_beam.records.rejects import REJECTED_ROWS_FOLDER as REJECTED_ROWS
from bertscore_beam.records.row_scores import ROWS_FOLDER
from bertscore_beam.run.folder import PLAN_FILE, OutputFolder
from bertscore_beam.run.neighbours import is_below, is_marked, runs_below

# Records of many parts in few files, so that a finished run is looked over with few requests.
#
#     OUT/_manifest/records/00000003-00000.jsonl.gz    records, a line each, of generation 3
#
# All records are packed when a run begins, and again when it ends, into a new generation. The
# record of a part that is written meanwhile stands beside the packs, in a file of its own, and
# counts instead of the one in a pack. So does a later generation. Each step can be cut off: packs
# are written before what they replace is deleted, and a part is only written when no pack vouches
# for it.

PACKS_FOLDER = "_manifest/records"
PACK_RECORDS = 10_000
"""Most records in a file: about a megabyte, compressed."""

_PACK_FILE = re.compile(r"(\d{8})-\d{5}\.jsonl\.gz")


def _list_packs(folder: OutputFolder) -> dict[int, tuple[str, ...]]:
    packs: dict[int, tuple[str, ...]] = {}
    for file in folder.files(PACKS_FOLDER):
        if match := _PACK_FILE.fullmatch(file):
            at = int(match[1])
            packs[at] = (*packs.get(at, ()), f"{PACKS_FOLDER}/{file}")
    return packs


def _lines_of_pack(data: bytes) -> Sequence[bytes] | None:
    try:
        return gzip.decompress(data).splitlines()
    except (OSError, EOFError, zlib.error):
        return None


def write_pack(folder: OutputFolder, generation: int, number: int, lines: Iterable[bytes]) -> None:
    """Write a pack. Equal lines in any order give equal bytes."""
    name = f"{PACKS_FOLDER}/{generation:08d}-{number:05d}.jsonl.gz"
    folder.write(name, gzip.compress(b"\n".join(sorted(lines)), mtime=0))


PENDING_FILE = "_manifest/pending.pq"
IDF_FILE = "_manifest/idf.npz"

_DELETED_AT_ONCE = 1000
"""Single records that are deleted at a time."""
_PACKS_AT_ONCE = 4
"""Packs that are read at a time: about a megabyte each."""

_LOOKS = 3
"""How often records are read, at most, if files disappear while they are read."""

_BESIDE_PARTS = (f"{PARTS_FOLDER}/", f"{ROWS_FOLDER}/", f"{REJECTED_ROWS}/")

_PART_FILE = re.compile(r"part-\d{12,}\.parquet")


def delete_plans(folder: OutputFolder) -> None:
    """Delete the plans, which only the workers need; they may contain credentials in paths."""
    folder.delete(PLAN_FILE, PENDING_FILE)


class FoundRecords:
    """The records that one look over an output folder has found.

    Attributes:
        records: Those that count, by part name; damaged ones are left out.
        singles: The files of single records, by their path below the folder of records.
        packs: The packs by generation.
        num_packed: Number of records in them, whether they count or not.
        num_damaged: Number of records, and of whole packs, that cannot be read.
        is_whole: Whether all files that were listed could be read.
    """

    def __init__(self, folder: OutputFolder) -> None:
        self._folder = folder
        self.singles = [*folder.files(PARTS_FOLDER)]
        self.packs = _list_packs(folder)
        self.num_packed = 0
        self.num_damaged = 0
        self.is_whole = True
        # What counts comes first. What is found in its place later is passed over: of a single
        # record that is damaged, what is packed does not count either.
        found = self._singles()
        for at in sorted(self.packs, reverse=True):
            for record in self._packed(self.packs[at]):
                found.setdefault(record_name(record.part_name), record)
        self.records = {record.part_name: record for record in found.values() if record is not None}

    def _singles(self) -> dict[str, PartRecord | None]:
        found: dict[str, PartRecord | None] = {}
        contents = self._folder.read_each(f"{PARTS_FOLDER}/{name}" for name in self.singles)
        for name, data in zip(self.singles, contents, strict=True):
            if data is None:
                self.is_whole = False
                continue
            record = record_from_json(data)
            found[name] = record if record and record_name(record.part_name) == name else None
            self.num_damaged += found[name] is None
        return found

    def _packed(self, packs: Sequence[str]) -> Iterator[PartRecord]:
        for data in read_each(map(self._folder.path, packs), _PACKS_AT_ONCE):
            self.is_whole = self.is_whole and data is not None
            lines = () if data is None else _lines_of_pack(data)
            self.num_damaged += lines is None
            for line in lines or ():
                if (record := record_from_json(line)) is None:
                    self.num_damaged += 1
                else:
                    self.num_packed += 1
                    yield record

    @property
    def is_packed(self) -> bool:
        """Whether all records that count, and no others, are in packs of one generation."""
        is_tidy = len(self.packs) <= 1 and not self.singles
        return is_tidy and self.num_packed == len(self.records)


def find_records(folder: OutputFolder) -> FoundRecords:
    """Read all records of an output folder.

    A run may begin meanwhile, or be concluded. A single record is deleted when a pack holds it, and
    a pack when a later one replaces it. So the singles are listed first: a record that moves is
    seen twice, or a file that was listed is gone, and then all is read again.
    """
    for _ in range(_LOOKS):
        found = FoundRecords(folder)
        if found.is_whole:
            break
    return found


def read_records(folder: OutputFolder) -> dict[str, PartRecord]:
    """Read all records of an output folder by part name; damaged records are left out."""
    return find_records(folder).records


def pack_records(
    folder: OutputFolder,
    found: FoundRecords,
    *,
    gone: Collection[str] = (),
    unsure: Collection[str] = (),
) -> None:
    """Pack the records of a folder; they are read once then, and not again.

    Args:
        folder: The folder.
        found: Its records.
        gone: Parts that are deleted already, with their single records.
        unsure: Parts that may turn out to be valid: their records become single ones.
    """
    if found.is_packed and not gone and not unsure:
        return

    def write(record: PartRecord) -> None:
        folder.write(record_path(record.part_name), record.to_json())

    singles, unsure = set(found.singles), set(unsure)
    alone = (record for name, record in found.records.items() if name in unsure)
    list(in_parallel(write, (one for one in alone if record_name(one.part_name) not in singles)))
    packed = sorted(found.records.keys() - {*gone, *unsure})
    generation = max(found.packs, default=0) + 1
    for number, start in enumerate(range(0, len(packed), PACK_RECORDS)):
        names = packed[start : start + PACK_RECORDS]
        lines = [found.records[name].to_json() for name in names]
        write_pack(folder, generation, number, lines)
    for at in sorted(found.packs):  # an old record must not count again while they disappear
        folder.delete(*found.packs[at])
    stay = {record_name(name) for name in (*gone, *unsure)}
    _delete_singles(folder, [name for name in found.singles if name not in stay])


def _delete_singles(folder: OutputFolder, names: Sequence[str]) -> None:
    for start in range(0, len(names), _DELETED_AT_ONCE):
        together = names[start : start + _DELETED_AT_ONCE]
        folder.delete(*(f"{PARTS_FOLDER}/{name}" for name in together))
    folder.delete_empty_folders(PARTS_FOLDER)


def list_parts(folder: OutputFolder, *known: Iterable[str]) -> tuple[dict[str, int], list[str]]:
    """Return the size in bytes of each part in a folder, by its name, and the files beside no part.

    A file is a part if its name is `known`: it has a record, or is planned. It is also a part if it
    has the name of one and a signature in its metadata: a run may have been killed between a part
    and its record. Other Parquet files, and the folders of other runs, are left alone.
    """
    sizes: dict[str, int] = {}
    others = []
    for name, size in folder.each_file():
        is_hidden = name.startswith(HIDDEN_PREFIXES)
        if name.endswith(".parquet") and not is_hidden and not is_marked(name):
            sizes[name] = size
        elif not name.startswith(_BESIDE_PARTS):
            others.append(name)
    runs = runs_below(others)
    foreign = {name for name in sizes if is_below(name, runs)}
    strangers = sizes.keys() - foreign
    for names in known:
        if strangers:  # otherwise the names need not be made
            strangers.difference_update(names)
    unsure = [name for name in strangers if _PART_FILE.fullmatch(name.rpartition("/")[2])]
    signed = in_parallel(is_signed, map(folder.path, unsure))
    strangers -= {name for name, is_part in zip(unsure, signed, strict=True) if is_part}
    for name in strangers | foreign:
        del sizes[name]
    return sizes, others


def find_record(folder: OutputFolder, part_name: str) -> PartRecord | None:
    """Return the single record of a part; None if there is none, or it is damaged."""
    data = folder.read_if_there(record_path(part_name))
    record = None if data is None else record_from_json(data)
    return record if record is not None and record.part_name == part_name else None
