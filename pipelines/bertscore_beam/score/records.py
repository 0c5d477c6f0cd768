"""The records of parts: from which rows and with which settings each was made.

    OUT/<input name>/part-000000020000.parquet            a part, whole or missing
    OUT/_manifest/parts/<digest>/part-000000020000.json   its record, written after it
    OUT/_manifest/records/...                             records of a finished run, packed
    OUT/_manifest/plan.pq, OUT/_manifest/idf.npz          inputs of the workers
    OUT/_rejects/...                                      rows, splits and files without scores

`score.resume` compares them with the plan of the next run.
"""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import cast

from bertscore_beam.dump.parts import is_signed
from bertscore_beam.dump.plan import Plan
from bertscore_beam.files.folders import HIDDEN_PREFIXES
from bertscore_beam.files.paths import IO_THREADS
from bertscore_beam.run import neighbours
from bertscore_beam.run.folder import PLAN_FILE, OutputFolder
from bertscore_beam.score.part_record import (
    PARTS_FOLDER,
    RECORD_SUFFIX,
    PartRecord,
    record_from_json,
    record_name,
    record_path,
)
from bertscore_beam.score.record_packs import Packs, read_packs, replace_packs

PENDING_FILE = "_manifest/pending.pq"
IDF_FILE = "_manifest/idf.npz"

_READ_AT_ONCE = 1000
"""Single records whose bytes are in memory at a time."""

_LOOKS = 3
"""How often records are read, at most, if files disappear while they are read."""

_RECORD_FILE = re.compile(r"[0-9a-f]{32}/part-\d{12,}\.json")
_PART_FILE = re.compile(r"part-\d{12,}\.parquet")


def foreign_records(folder: OutputFolder) -> list[str]:
    """Return the files in the folder of records that are not named like a record.

    Earlier versions named records otherwise. Nothing reads those, and globs such as **/*.parquet
    match their folders.
    """
    names = folder.files(PARTS_FOLDER)
    return [f"{PARTS_FOLDER}/{name}" for name in names if not _RECORD_FILE.fullmatch(name)]


def delete_plans(folder: OutputFolder) -> None:
    """Delete the plans, which only the workers need; they may contain credentials in paths."""
    folder.delete(PLAN_FILE, PENDING_FILE)


def read_record(folder: OutputFolder, part_name: str) -> PartRecord | None:
    """Read the record of a part; None if it is missing or damaged."""
    (data,) = folder.read_if_there(record_path(part_name))
    record = None if data is None else record_from_json(data)
    return record if record is not None and record.part_name == part_name else None


class Records(Mapping[str, PartRecord]):
    """Records by part name, held as compressed lines: a few hundred bytes each instead of 2 kB.

    A record is read from its line whenever it is asked for.
    """

    def __init__(self) -> None:
        self._lines: dict[str, bytes] = {}
        self._like = b""  # lines are alike: each is compressed as what differs from the first

    def put(self, name: str, line: bytes) -> None:
        """Hold the record of a part, which is on this line, instead of an earlier one."""
        self._like = self._like or line
        packing = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS, zdict=self._like)
        self._lines[name] = packing.compress(line) + packing.flush()

    def drop(self, name: str) -> None:
        """Forget a record, if there is one."""
        self._lines.pop(name, None)

    def line(self, name: str) -> bytes:
        """Return the line of a record."""
        unpacking = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=self._like)
        return unpacking.decompress(self._lines[name])

    def __getitem__(self, name: str) -> PartRecord:
        return cast(PartRecord, record_from_json(self.line(name)))

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRecords:
    """The records of an output folder.

    Attributes:
        records: The records by part name; damaged ones are left out.
        singles: The files of single records, by their path below the folder of records.
        packs: The packs, without what is in them.
        packed: The parts with a record in a pack, whether it counts or not.
        is_compact: Whether all records that count are in the packs of one generation.
    """

    records: Records = field(default_factory=Records)
    singles: tuple[str, ...] = ()
    packs: Packs = field(default_factory=lambda: Packs(names={}, data={}))
    packed: frozenset[str] = frozenset()
    is_compact: bool = True


def find_records(folder: OutputFolder, generation: int | None = None) -> FolderRecords:
    """Read all records of an output folder.

    Args:
        folder: The folder.
        generation: Packs that this run has written from its own records, which need not be read
            again from their single files; None for none.
    """
    for _ in range(_LOOKS):
        found, is_whole = _look(folder, generation)
        if is_whole:
            break
    return found


def _look(folder: OutputFolder, generation: int | None) -> tuple[FolderRecords, bool]:
    """Read all records once, and tell whether all files that were listed could be read.

    If a bundle is tried twice, two processes may conclude a run at the same time. A single record
    is deleted when a pack holds it, and a pack when a later one replaces it. So the singles are
    listed first: a record that moves meanwhile is seen twice, or a file that was listed is gone.
    """
    singles = folder.files(PARTS_FOLDER, suffix=RECORD_SUFFIX)
    packs = read_packs(folder)
    found = Records()
    packed: dict[int, set[str]] = {}
    own = {}
    for at in sorted(packs.data):
        packed[at] = set()
        for line in packs.lines(at):
            if record := record_from_json(line):
                found.put(record.part_name, line)
                packed[at].add(record.part_name)
                if at == generation:
                    # One of another size was written by somebody else, who has lost the folder.
                    own[record_name(record.part_name)] = len(line)
    names = [name for name, size in singles.items() if own.get(name) != size]
    # A single record counts instead of a packed one, also if it is damaged.
    parts = {record_name(part): part for part in found} if names else {}
    read = 0
    for start in range(0, len(names), _READ_AT_ONCE):
        some = names[start : start + _READ_AT_ONCE]
        contents = folder.read_if_there(*(f"{PARTS_FOLDER}/{name}" for name in some))
        for name, data in zip(some, contents, strict=True):
            if data is not None:
                read += 1
                found.drop(parts.get(name, ""))
                record = record_from_json(data)
                if record is not None and record_name(record.part_name) == name:
                    found.put(record.part_name, data)
    records = FolderRecords(
        records=found,
        singles=tuple(singles),
        packs=replace(packs, data={}),
        packed=frozenset[str]().union(*packed.values()),
        is_compact=len(packed) == 1 and not read,
    )
    return records, packs.is_whole and read == len(names)


def read_records(folder: OutputFolder) -> Records:
    """Read all records of an output folder by part name; damaged records are left out."""
    return find_records(folder).records


def pack_records(folder: OutputFolder, found: FolderRecords) -> None:
    """Pack the records of a folder, and delete the single ones.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    packs, records = found.packs, found.records
    if records and not found.is_compact:
        replace_packs(folder, packs, records, records.line)
    mine = {record_name(name) for name in records}
    folder.delete(*(f"{PARTS_FOLDER}/{name}" for name in found.singles if name in mine))
    folder.delete_empty_folders(PARTS_FOLDER)


def pack_written(folder: OutputFolder, records: Iterable[PartRecord]) -> None:
    """Pack records that this process has written or read itself; they are all of the folder.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    all_of_folder = Records()
    for record in records:
        all_of_folder.put(record.part_name, record.to_json())
    found = FolderRecords(
        records=all_of_folder,
        singles=tuple(folder.files(PARTS_FOLDER, suffix=RECORD_SUFFIX)),
        packs=replace(read_packs(folder), data={}),
        is_compact=False,
    )
    pack_records(folder, found)


def unpack_records(
    folder: OutputFolder, found: FolderRecords, *, gone: Collection[str], unsure: Collection[str]
) -> None:
    """Take parts that may be written or deleted out of the packs.

    Args:
        folder: The folder.
        found: Its records.
        gone: Parts that are deleted already.
        unsure: Parts that may turn out to be valid: their records become single ones.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    leaving = found.packed.intersection((*gone, *unsure))
    if not leaving:
        return
    singled = [name for name in unsure if name in leaving and name in found.records]

    def write(name: str) -> None:
        folder.write(record_path(name), found.records.line(name))

    with ThreadPoolExecutor(IO_THREADS) as pool:
        list(pool.map(write, singled))
    staying = [name for name in found.packed - leaving if name in found.records]
    replace_packs(folder, found.packs, staying, found.records.line)


def read_part_sizes(
    folder: OutputFolder, known: Collection[str], listing: Mapping[str, int]
) -> dict[str, int]:
    """Return the size in bytes of each part in the folder, by part name.

    A file is a part if it has a record or is planned. It is also a part if it has the name of one
    and a signature in its metadata: a run may have been killed between a part and its record. Other
    files, and the folders of other runs, are left alone.

    Args:
        folder: Folder of the run.
        known: Names of parts with a record, and of planned parts.
        listing: All files of the folder with their sizes.
    """
    others = neighbours.runs_below(listing)
    found = {
        name: size
        for name, size in listing.items()
        if name.endswith(".parquet")
        and not name.startswith(HIDDEN_PREFIXES)
        and not neighbours.is_below(name, others)
    }
    unsure = [
        name
        for name in found
        if name not in known and _PART_FILE.fullmatch(name.rpartition("/")[2])
    ]
    with ThreadPoolExecutor(IO_THREADS) as pool:
        signed = pool.map(is_signed, [folder.path(name) for name in unsure])
        parts = {name for name, is_part in zip(unsure, signed, strict=True) if is_part}
    return {name: size for name, size in found.items() if name in known or name in parts}


def read_parts(
    folder: OutputFolder, plan: Plan, listing: Mapping[str, int], generation: int | None = None
) -> tuple[FolderRecords, dict[str, int]]:
    """Return the records of an output folder, and the sizes of its parts by part name.

    Args:
        folder: Folder of the run.
        plan: All splits.
        listing: All files of the folder with their sizes.
        generation: As for `find_records`.
    """
    found = find_records(folder, generation)
    known = found.records.keys() | {split.part_name for split in plan.splits}
    return found, read_part_sizes(folder, known, listing)
