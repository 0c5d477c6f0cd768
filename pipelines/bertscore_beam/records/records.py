"""The parts of an output folder, each with the record in its footer.

    OUT/<input name>/part-000000020000.parquet   a part, whole or missing
    OUT/_manifest/parts/<digest>.jsonl.gz        records of the parts of a run that has ended
    OUT/_manifest/plan.pq, OUT/_manifest/idf.npz inputs of the workers
    OUT/_rejects/...                             rows, splits and files without scores

A part vouches for itself. The manifest saves requests: it holds the records of many parts in one
file, each with the version that its part had. The footer of one that has another now is read.
"""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bertscore_beam.files.checked import digest_of, unpacked
from bertscore_beam.files.listing import HIDDEN_PREFIXES, Stored
from bertscore_beam.files.read import in_parallel, read_each
from bertscore_beam.records.record import PartRecord, read_record, record_from_json, told_version
from bertscore_beam.records.rejects import REJECTED_ROWS_FOLDER
from bertscore_beam.run.folder import PLAN_FILE, OutputFolder
from bertscore_beam.run.neighbours import is_below, is_marked, runs_below

SHARDS_FOLDER = "_manifest/parts"
SHARD_RECORDS = 10_000
"""Most records in a file: about a megabyte, compressed."""
_SHARDS_AT_ONCE = 4

PENDING_FILE = "_manifest/pending.pq"
IDF_FILE = "_manifest/idf.npz"

_PART_FILE = re.compile(r"part-\d{12,}\.parquet")


def delete_plans(folder: OutputFolder) -> None:
    """Delete the plans, which only the workers need; they may contain credentials in paths."""
    folder.delete(PLAN_FILE, PENDING_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundParts:
    """The parts that a look over an output folder has found.

    Attributes:
        records: Their records, by part name.
        unverified: Those that the manifest does not list as they are: not all of their bytes have
            been seen since they were written, or changed. In a store that tells no versions, all.
        unreadable: Files with the names of planned parts that hold none.
        others: All other files, but lists of rejected rows.
    """

    records: Mapping[str, PartRecord] = field(default_factory=dict)
    unverified: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()


def find_parts(
    folder: OutputFolder, planned: Iterable[str] = (), *, is_read_only: bool = False
) -> FoundParts:
    """Look over an output folder.

    A file is a part if its footer has a record that names it. Other Parquet files, and the folders
    of other runs, are left alone, but for files with the names of parts that are planned.

    Args:
        folder: The folder.
        planned: The names of the parts that a run plans.
        is_read_only: Whether the parts are only read. Then a part counts as listed if it has the
            size: of a copy of a folder all files have other versions, and each is checked when it
            is read.
    """
    files: dict[str, Stored] = {}
    others = []
    for name, stored in folder.each_stored():
        is_hidden = name.startswith(HIDDEN_PREFIXES)
        if name.endswith(".parquet") and not is_hidden and not is_marked(name):
            files[name] = stored
        elif not name.startswith(f"{REJECTED_ROWS_FOLDER}/"):
            others.append(name)
    runs = runs_below(others)
    for name in [name for name in files if is_below(name, runs)]:
        del files[name]
    records = {}
    for record in _listed(folder, others):
        stored = files.get(record.part_name, Stored(-1, "", ""))
        is_same = is_read_only or told_version(stored) == record.part_version != ""
        if is_same and stored.size == record.part_bytes:
            records[record.part_name] = record
    left = files.keys() - records.keys()
    wanted = left.intersection(planned) if left else set()
    named = [name for name in left if _PART_FILE.fullmatch(name.rpartition("/")[2])]
    unsure = sorted(wanted.union(named))
    read = in_parallel(lambda name: read_record(folder, name, files[name]), unsure)
    found = {name: record for name, record in zip(unsure, read, strict=True) if record is not None}
    return FoundParts(
        records=records | found,
        unverified=frozenset(found),
        unreadable=frozenset(wanted - found.keys()),
        others=tuple(others),
    )


def has_parts(folder: OutputFolder) -> bool:
    """Tell whether a folder has a file with the name of a part."""
    return any(_PART_FILE.fullmatch(name.rpartition("/")[2]) for name, _ in folder.each_stored())


def _listed(folder: OutputFolder, names: Iterable[str]) -> Iterator[PartRecord]:
    """Yield the records of the manifest; what is damaged is left out."""
    shards = (folder.path(name) for name in names if name.startswith(f"{SHARDS_FOLDER}/"))
    for data in read_each(shards, _SHARDS_AT_ONCE):
        try:
            lines = [] if data is None else unpacked(data).splitlines()
        except ValueError:
            continue
        yield from filter(None, map(record_from_json, lines))


def write_manifest(folder: OutputFolder, records: Mapping[str, PartRecord]) -> None:
    """Write the records of all parts of a run that ends, in the place of those before.

    Equal parts give equal files. If it is cut off there is more than needed, and nothing wrong.
    """
    earlier = {f"{SHARDS_FOLDER}/{name}" for name in folder.files(SHARDS_FOLDER)}
    written = set()
    for shard, data in shards_of(records):
        if shard not in earlier:
            folder.write(shard, data)
        written.add(shard)
    folder.delete(*(earlier - written))


def shards_of(records: Mapping[str, PartRecord]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a manifest: their names, which follow from what is in them, and bytes."""
    names = sorted(records)
    for start in range(0, len(names), SHARD_RECORDS):
        some = names[start : start + SHARD_RECORDS]
        lines = b"\n".join(records[name].to_json(is_found=True) for name in some)
        yield f"{SHARDS_FOLDER}/{digest_of(lines)}.jsonl.gz", gzip.compress(lines, mtime=0)
