"""Records of many parts in few files, so that a finished run is looked over with few requests.

    OUT/_manifest/records/00000003-00000.jsonl.gz    records, a line each, of generation 3

A run begins with one or two generations, of the records that it keeps, and adds one of its own at
its end. The record of a part that is written meanwhile stands beside the packs, in a file of its
own, and counts instead of the one in a pack. So does a later generation. Each step can be cut off:
packs are written before what they replace is deleted, and a part is only written when no pack
vouches for it.

Here a record is a line; `score.records` knows what is in it.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence

from bertscore_beam.run.folder import OutputFolder

PACKS_FOLDER = "_manifest/records"
PACK_RECORDS = 10_000
"""Most records in a file, on average: about a megabyte, compressed."""

_PACK_FILE = re.compile(r"(\d{8})-\d{5}\.jsonl\.gz")


def list_packs(folder: OutputFolder) -> dict[int, tuple[str, ...]]:
    """Return the packs of a folder, by generation."""
    packs: dict[int, tuple[str, ...]] = {}
    for file in folder.files(PACKS_FOLDER):
        if match := _PACK_FILE.fullmatch(file):
            at = int(match[1])
            packs[at] = (*packs.get(at, ()), f"{PACKS_FOLDER}/{file}")
    return packs


def lines_of_pack(data: bytes) -> Sequence[bytes]:
    """Return the records in a pack; none if it is damaged."""
    try:
        return gzip.decompress(data).splitlines()
    except (OSError, EOFError, zlib.error):
        return ()


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


def delete_packs(folder: OutputFolder, packs: Mapping[int, Sequence[str]]) -> None:
    """Delete packs, the oldest first: an old record must not count again while they disappear.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    for at in sorted(packs):
        folder.delete(*packs[at])
