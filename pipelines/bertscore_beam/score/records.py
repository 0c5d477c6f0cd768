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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from bertscore_beam.dump.parts import is_signed
from bertscore_beam.dump.plan import Plan
from bertscore_beam.files.folders import HIDDEN_PREFIXES
from bertscore_beam.files.parallel import in_parallel
from bertscore_beam.files.paths import IO_THREADS
from bertscore_beam.files.read import read_each
from bertscore_beam.run import neighbours
from bertscore_beam.run.folder import PLAN_FILE, OutputFolder
from bertscore_beam.runs.row_scores import ROWS_FOLDER
from bertscore_beam.score.part_record import (
    PARTS_FOLDER,
    RECORD_SUFFIX,
    PartRecord,
    record_from_json,
    record_name,
    record_path,
)
from bertscore_beam.score.record_packs import (
    delete_packs,
    lines_of_pack,
    list_packs,
    num_packs,
    pack_of,
    write_pack,
)
from bertscore_beam.score.rejects import ROWS_FOLDER as REJECTED_ROWS

PENDING_FILE = "_manifest/pending.pq"
IDF_FILE = "_manifest/idf.npz"

_READ_AT_ONCE = 1000
"""Single records that are read, or deleted, at a time."""
_PACKS_AT_ONCE = 4
"""Packs that are read at a time: about a megabyte each."""
_LINES_TOGETHER = 64
"""Records that are compressed together: more are hardly smaller, each."""
_GENERATIONS = 2
"""Most generations of packs with which a run begins. It leaves one more."""

_LOOKS = 3
"""How often records are read, at most, if files disappear while they are read."""

_BESIDE_PARTS = (f"{PARTS_FOLDER}/", f"{ROWS_FOLDER}/", f"{REJECTED_ROWS}/")

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


class Records:
    """The records of a folder as compressed lines: a bin of them at a time is unpacked.

    In which bin one is depends on the name of its part alone, as it does for packs.

    Attributes:
        num_bins: Number of bins.
    """

    def __init__(self, num_bins: int = 1) -> None:
        self.num_bins = num_bins
        self._packed: list[list[bytes]] = [[] for _ in range(num_bins)]
        self._waiting: list[list[bytes]] = [[] for _ in range(num_bins)]
        self._number = 0

    def add(self, record: PartRecord, line: bytes | None = None) -> None:
        """Add the record of a part that has none yet, and the line that it is read from, if any."""
        at = pack_of(record.part_name, self.num_bins)
        waiting = self._waiting[at]
        waiting.append(record.to_json() if line is None else line)
        self._number += 1
        if len(waiting) == _LINES_TOGETHER:
            self._packed[at].append(zlib.compress(b"\n".join(waiting), 1))
            waiting.clear()

    def bin(self, number: int) -> dict[str, PartRecord]:
        """Return the records of a bin by part name."""
        lines = chain.from_iterable(
            zlib.decompress(one).split(b"\n") for one in self._packed[number]
        )
        found = map(record_from_json, chain(lines, self._waiting[number]))
        return {record.part_name: record for record in found if record is not None}

    def __iter__(self) -> Iterator[PartRecord]:
        for number in range(self.num_bins):
            yield from self.bin(number).values()

    def __len__(self) -> int:
        return self._number


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRecords:
    """The records of an output folder.

    Attributes:
        records: Those that count; damaged ones are left out.
        singles: The files of single records that were read, by their path below the folder of
            records.
        doubles: Those that were not, since a pack of the run holds the same.
        packs: The packs by generation.
        num_packed: Number of records in them, whether they count or not.
    """

    records: Records = field(default_factory=Records)
    singles: tuple[str, ...] = ()
    doubles: tuple[str, ...] = ()
    packs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    num_packed: int = 0

    @property
    def latest(self) -> int:
        """The latest generation of packs, 0 without any."""
        return max(self.packs, default=0)

    @property
    def is_packed(self) -> bool:
        """Whether all records that count are in packs, once, and these need not be put together."""
        tidy = len(self.packs) <= _GENERATIONS and not self.singles and not self.doubles
        return tidy and self.num_packed == len(self.records)


def find_records(
    folder: OutputFolder, generation: int | None = None, num_bins: int = 1
) -> FolderRecords:
    """Read all records of an output folder.

    A run may begin meanwhile, or be concluded. A single record is deleted when a pack holds it, and
    a pack when a later one replaces it. So the singles are listed first: a record that moves is
    seen twice, or a file that was listed is gone, and then all is read again.

    Args:
        folder: The folder.
        generation: Packs that this run has written from its own records, which need not be read
            again from their single files; None for none.
        num_bins: As for `Records`.
    """
    for _ in range(_LOOKS):
        look = _Look(folder, num_bins)
        # What counts is taken first. What is found in its place later is passed over.
        if generation in look.packs:
            look.take_own(generation)
        singles = look.take_singles()
        for at in sorted(look.packs, reverse=True):
            if at != generation:
                look.take_packed(at)
        if look.is_whole:
            break
    return FolderRecords(
        records=look.records,
        singles=singles,
        doubles=tuple(look.doubles),
        packs=look.packs,
        num_packed=look.num_packed,
    )


class _Look:
    """Reads the records of a folder once.

    Attributes:
        packs: The packs by generation.
        records: The records that count, as far as they are taken.
        doubles: As in `FolderRecords`.
        num_packed: As in `FolderRecords`, as far as they are read.
        is_whole: Whether all files that were listed could be read.
    """

    def __init__(self, folder: OutputFolder, num_bins: int) -> None:
        self._folder = folder
        self._singles = folder.files(PARTS_FOLDER, suffix=RECORD_SUFFIX)
        self.packs = list_packs(folder)
        self.records = Records(num_bins)
        self.doubles: list[str] = []
        self.num_packed = 0
        self.is_whole = True
        # Hashes, which are small, of the names of single files. If two are equal by chance, a split
        # is scored again.
        self._known: set[int] = set()

    def take_own(self, generation: int) -> None:
        """Take the records of a run, unless a single one counts that somebody else has written."""
        for record, line in self._read_packed(generation):
            name = record_name(record.part_name)
            size = self._singles.get(name)
            # What differs in size was written by somebody else, who has lost the folder.
            if size is None or size == len(line):
                self._take(record, name, line)
                if size is not None:
                    self.doubles.append(name)

    def take_singles(self) -> tuple[str, ...]:
        """Take the single records that are not taken yet; return their files."""
        names = [name for name in self._singles if hash(name) not in self._known]
        self._singles = {}  # they may be many
        for start in range(0, len(names), _READ_AT_ONCE):
            some = names[start : start + _READ_AT_ONCE]
            contents = self._folder.read_if_there(*(f"{PARTS_FOLDER}/{name}" for name in some))
            for name, data in zip(some, contents, strict=True):
                if data is None:
                    self.is_whole = False
                    continue
                self._known.add(hash(name))  # if it is damaged, what is packed does not count
                record = record_from_json(data)
                if record is not None and record_name(record.part_name) == name:
                    self.records.add(record)
        return tuple(names)

    def take_packed(self, generation: int) -> None:
        """Take the records of a generation that are not taken yet."""
        for record, line in self._read_packed(generation):
            name = record_name(record.part_name)
            if hash(name) not in self._known:
                self._take(record, name, line)

    def _take(self, record: PartRecord, name: str, line: bytes) -> None:
        self._known.add(hash(name))
        self.records.add(record, line)

    def _read_packed(self, generation: int) -> Iterator[tuple[PartRecord, bytes]]:
        paths = map(self._folder.path, self.packs[generation])
        for data in read_each(paths, _PACKS_AT_ONCE):
            self.is_whole = self.is_whole and data is not None
            for line in lines_of_pack(data or b""):
                if record := record_from_json(line):
                    self.num_packed += 1
                    yield record, line


def read_records(folder: OutputFolder) -> dict[str, PartRecord]:
    """Read all records of an output folder by part name; damaged records are left out."""
    return find_records(folder).records.bin(0)


def keep_records(
    folder: OutputFolder, found: FolderRecords, *, gone: Collection[str], unsure: Collection[str]
) -> None:
    """Pack the records that a run keeps when it begins; they are read once then, and not again.

    Args:
        folder: The folder.
        found: Its records.
        gone: Parts that are deleted already, with their single records.
        unsure: Parts that may turn out to be valid: their records become single ones.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    if found.is_packed and not gone and not unsure:
        return
    gone, unsure = set(gone), set(unsure)
    singles = set(found.singles)
    kept = Records(num_packs(len(found.records)))
    for number in range(found.records.num_bins):
        alone = []
        for name, record in found.records.bin(number).items():
            if name in unsure:
                alone += [] if record_name(name) in singles else [record]
            elif name not in gone:
                kept.add(record)
        list(
            in_parallel(lambda one: folder.write(record_path(one.part_name), one.to_json()), alone)
        )
    pack_records(folder, kept, found.packs)
    stay = {record_name(name) for name in (*gone, *unsure)}
    _delete_records(folder, [name for name in (*found.singles, *found.doubles) if name not in stay])


def pack_records(
    folder: OutputFolder, records: Records, packs: Mapping[int, tuple[str, ...]]
) -> None:
    """Write records as the only packs of a folder. One pack at a time is unpacked in memory.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    for number in range(records.num_bins):
        if lines := [record.to_json() for record in records.bin(number).values()]:
            write_pack(folder, max(packs, default=0) + 1, number, lines)
    delete_packs(folder, packs)


def delete_packed(folder: OutputFolder, found: FolderRecords) -> None:
    """Delete the single records that the packs of the run hold.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    _delete_records(folder, found.doubles)


def _delete_records(folder: OutputFolder, names: Sequence[str]) -> None:
    for start in range(0, len(names), _READ_AT_ONCE):
        some = names[start : start + _READ_AT_ONCE]
        folder.delete(*(f"{PARTS_FOLDER}/{name}" for name in some))
    folder.delete_empty_folders(PARTS_FOLDER)


def pack_written(folder: OutputFolder, records: Collection[PartRecord]) -> None:
    """Pack records that this process has written or read itself; they are all of the folder.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    names = tuple(folder.files(PARTS_FOLDER, suffix=RECORD_SUFFIX))
    all_of_folder = Records(num_packs(len(records)))
    for record in records:
        all_of_folder.add(record)
    pack_records(folder, all_of_folder, list_packs(folder))
    _delete_records(folder, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFiles:
    """The files of an output folder, without those that stand beside each part.

    Attributes:
        parquet: Sizes of the Parquet files that may be parts.
        others: The other files.
    """

    parquet: dict[str, int] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def files_of_run(folder: OutputFolder) -> FolderFiles:
    """List an output folder."""
    found = FolderFiles()
    for name, size in folder.each_file():
        is_hidden = name.startswith(HIDDEN_PREFIXES)
        if name.endswith(".parquet") and not is_hidden and not neighbours.is_marked(name):
            found.parquet[name] = size
        elif not name.startswith(_BESIDE_PARTS):
            found.others.append(name)
    return found


def read_part_sizes(
    folder: OutputFolder, files: FolderFiles, *known: Iterable[str]
) -> dict[str, int]:
    """Return the size in bytes of each part in the folder, by part name.

    A file is a part if it has a record or is planned. It is also a part if it has the name of one
    and a signature in its metadata: a run may have been killed between a part and its record. Other
    files, and the folders of other runs, are left alone.

    Args:
        folder: Folder of the run.
        files: Its files.
        known: Names of parts with a record, and of planned parts.
    """
    runs = neighbours.runs_below(files.others)
    foreign = {name for name in files.parquet if neighbours.is_below(name, runs)}
    strangers = files.parquet.keys() - foreign
    for names in known:
        if strangers:  # otherwise the names need not be made
            strangers.difference_update(names)
    unsure = [name for name in strangers if _PART_FILE.fullmatch(name.rpartition("/")[2])]
    with ThreadPoolExecutor(IO_THREADS) as pool:
        signed = pool.map(is_signed, [folder.path(name) for name in unsure])
        strangers -= {name for name, is_part in zip(unsure, signed, strict=True) if is_part}
    strangers |= foreign
    if not strangers:
        return files.parquet
    return {name: size for name, size in files.parquet.items() if name not in strangers}


def read_sizes(
    folder: OutputFolder, files: FolderFiles, plan: Plan, records: Records
) -> dict[str, int]:
    """Return the size of each part of a plan, and of the other parts in the folder, by name."""
    planned = (split.part_name for split in plan.splits)
    return read_part_sizes(folder, files, planned, (record.part_name for record in records))
