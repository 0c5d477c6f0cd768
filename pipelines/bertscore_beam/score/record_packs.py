"""Records of many parts in few files, so that a finished run is looked over with few requests.

    OUT/_manifest/records/00000003-00000.jsonl.gz    records, a line each, of generation 3

The conclusion of a run packs all records, and deletes the files of the single ones. A record of a
part that is written later stands beside the packs, in a file of its own, and counts instead of the
one in a pack. So does a later generation. Each step can be cut off: packs are written before what
they replace is deleted, and a part is only written or deleted when no pack vouches for it.

Here a record is a line; `score.records` knows what is in it.
"""

import gzip
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bertscore_beam.run.folder import OutputFolder

PACKS_FOLDER = "_manifest/records"
PACK_RECORDS = 10_000
"""Most records in a file, on average: about a megabyte, compressed."""

_PACK_FILE = re.compile(r"(\d{8})-\d{5}\.jsonl\.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packs:
    """The packs of a folder.

    Attributes:
        names: Their files, by generation.
        data: What is in them, by generation, as it was read; None for one that was gone.
    """

    names: Mapping[int, tuple[str, ...]]
    data: Mapping[int, tuple[bytes | None, ...]]

    @property
    def is_whole(self) -> bool:
        """Whether all of them were still there when they were read."""
        return all(one is not None for read in self.data.values() for one in read)

    def lines(self, generation: int) -> Iterator[bytes]:
        """Yield the records of a generation; those of damaged packs are left out."""
        for data in self.data[generation]:
            yield from _lines_of(data)

    @property
    def latest(self) -> int:
        """The latest generation, 0 without any."""
        return max(self.names, default=0)


def read_packs(folder: OutputFolder) -> Packs:
    """Read the packs of a folder."""
    names: dict[int, list[str]] = {}
    for file in folder.files(PACKS_FOLDER):
        if found := _PACK_FILE.fullmatch(file):
            names.setdefault(int(found[1]), []).append(f"{PACKS_FOLDER}/{file}")
    in_order = sorted(names)
    return Packs(
        names={at: tuple(names[at]) for at in in_order},
        data={at: tuple(folder.read_if_there(*names[at])) for at in in_order},
    )


def num_packs(records: int) -> int:
    """Return how many packs so many records take."""
    return max(1, math.ceil(records / PACK_RECORDS))


def pack_of(part_name: str, packs: int) -> int:
    """Return in which pack the record of a part belongs."""
    return zlib.crc32(part_name.encode("utf-8", "surrogateescape")) % packs


def write_pack(folder: OutputFolder, generation: int, number: int, lines: Iterable[bytes]) -> str:
    """Write a pack; return its name. Equal lines in any order give equal bytes.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    name = f"{PACKS_FOLDER}/{generation:08d}-{number:05d}.jsonl.gz"
    folder.write(name, gzip.compress(b"\n".join(sorted(lines)), mtime=0))
    return name


def replace_packs(
    folder: OutputFolder, packs: Packs, names: Collection[str], line: Callable[[str], bytes]
) -> None:
    """Write records as the only packs of a folder. One pack at a time is in memory.

    Args:
        folder: The folder.
        packs: The packs that it has.
        names: Names of the parts.
        line: Returns the record of a part.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    sorted_in: dict[int, list[str]] = {}
    for name in names:
        sorted_in.setdefault(pack_of(name, num_packs(len(names))), []).append(name)
    for number, parts in sorted_in.items():
        write_pack(folder, packs.latest + 1, number, map(line, parts))
    delete_packs(folder, packs, packs.names)


def delete_packs(folder: OutputFolder, packs: Packs, generations: Collection[int]) -> None:
    """Delete packs, the oldest first: an old record must not count again while they disappear.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    for generation in sorted(generations):
        folder.delete(*packs.names[generation])


def _lines_of(data: bytes | None) -> Sequence[bytes]:
    """Return the lines of a pack; none if it is damaged."""
    try:
        return gzip.decompress(data or b"").splitlines()
    except (OSError, EOFError, zlib.error):
        return ()
