"""The parts of an output folder, each with the record in its footer.

    OUT/<input name>/part-000000020000.parquet    a part that is published, whole or missing
    OUT/_manifest/parts-...                       what is published, with the records of parts
    OUT/_work/<input>/<first row>.<made of>-<digest>-<token>.pq        a part that is staged
    OUT/_work/rejects/<input>/<first row>.<made of>-<digest>-<token>.pq  its rows without scores

A part vouches for itself. The manifest saves requests: it has the records of many parts in one
file. The footer of a part that is not as the manifest lists it is read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.splits import Split, note_name
from bertscore_beam.files.checked import digest_of, to_line
from bertscore_beam.files.listing import HIDDEN_PREFIXES, Stored
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records.record import PartRecord, is_whole, read_record, record_of, rows_in
from bertscore_beam.records.rejects import REJECTED_ROWS_FOLDER, REJECTS_FOLDER, rows_path
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.neighbours import is_below, is_marked, runs_below
from bertscore_beam.run.publication import (
    WORK_FOLDER,
    Entry,
    Head,
    read_shards,
    staged_name,
    staged_parts,
)

IDF_FILE = "_manifest/idf.npz"
GROUPS_FILE = "_groups.pq"
"""Parquet, but not by that name: globs such as **/*.parquet must find parts alone."""

# What a run publishes beside its parts, if it has it, and lists of rejects; tables have a note.
_BESIDE = frozenset({GROUPS_FILE, IDF_FILE, f"{IDF_FILE.removesuffix('npz')}json"})

_PART_FILE = re.compile(r"part-\d{12,}\.parquet")
_STAGED_FILE = re.compile(rf"{WORK_FOLDER}/(over-\d+/)?\w+/\d{{12,}}\.\w+-\w+-\w+\.pq")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundParts:
    """What a look over an output folder has found.

    Attributes:
        records: The records of parts under their names, by part name.
        unverified: Those that are not as the manifest lists them: not all of their bytes have been
            seen since they were written, or changed. Where a store tells of no contents, all.
        damaged: Files with the names of parts that hold none.
        others: All other files, but lists of rejected rows.
        files: All files, as they are listed.
        published: Names of the files that the manifest lists.
        is_whole: Whether all parts among these are there, with their sizes.
    """

    records: Mapping[str, PartRecord] = field(default_factory=dict)
    unverified: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()
    files: Mapping[str, Stored] = field(default_factory=dict)
    published: frozenset[str] = frozenset()
    is_whole: bool = True

    def entries(self, part_name: str) -> Iterator[Entry]:
        """Yield the entries of a part under its name, which stays, as its files are now."""
        record = None if part_name in self.unverified else self.records.get(part_name)
        note = {} if record is None else record.to_note()
        for name in (part_name, rows_path(part_name)):
            if (stored := self.files.get(name)) is not None:
                yield Entry(name, "", stored.size, stored.content, note)
                note = {}

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The files of earlier runs that no manifest lists, as when it was lost."""
        others = (
            name for name in self.files if name in _BESIDE or name.startswith(f"{REJECTS_FOLDER}/")
        )
        return tuple(sorted({*self.unverified, *others} - self.published))


def find_parts(
    folder: OutputFolder, head: Head | None, made: Iterable[PartRecord] = (), *, alone: bool = False
) -> FoundParts:
    """Look over an output folder.

    A file is a part if its footer has a record that names it. Other Parquet files, and the folders
    of other runs, are left alone.

    Args:
        folder: The folder.
        head: Its head.
        made: The records of parts that a run has made, or read and kept: of these nothing is read.
        alone: Whether no other parts count, as if they were not there.
    """
    known = {record.part_name: record for record in made}
    files = dict(folder.each_stored())
    parts, others = set(), []
    for name in files:
        is_hidden = name.startswith(HIDDEN_PREFIXES)
        if name.endswith(".parquet") and not is_hidden and not is_marked(name):
            parts.add(name)
        elif not name.startswith(f"{REJECTED_ROWS_FOLDER}/"):
            others.append(name)
    if runs := runs_below(others):
        parts = {name for name in parts if not is_below(name, runs)}
    records, published, changed, is_whole = {}, set(), set(), True
    for entry, record in published_files(folder, head):
        name, stored = entry.name, files.get(entry.name)
        published.add(name)
        if not entry.is_there(stored):
            changed.add(name)
        elif entry.content and record is not None and record.part_name == name and name in parts:
            records[name] = record
        is_part = bool(entry.note)
        is_whole = is_whole and not (is_part and (stored is None or stored.size != entry.size))
    for name in [name for name in records if changed and rows_path(name) in changed]:
        del records[name]
    left = sorted(filter(is_part_name, parts - records.keys() - known.keys()))
    read = in_parallel(lambda name: read_record(folder, name, files[name]), left)
    found = {name: record for name, record in zip(left, read, strict=True) if record is not None}
    return FoundParts(
        records=known if alone else {**records, **found, **known},
        unverified=frozenset(found),
        damaged=frozenset({*left} - found.keys()),
        others=tuple(others),
        files=files,
        published=frozenset(published),
        is_whole=is_whole,
    )


def published_files(
    folder: OutputFolder, head: Head | None
) -> Iterator[tuple[Entry, PartRecord | None]]:
    """Yield what a head lists, each part with its record; damaged or lost shards are left out.

    A note is five times as large as its record: whoever holds all must not hold the entries.
    """
    for shard in read_shards(folder, [] if head is None else head.shards):
        for entry in [] if shard is None else shard.entries:
            yield entry, record_of(entry.note) if entry.note else None


def has_parts(folder: OutputFolder) -> bool:
    """Tell whether a folder has a file with the name of a part, published or staged."""
    return any(is_part_name(name) or _is_staged(name) for name, _ in folder.each_stored())


def is_part_name(name: str) -> bool:
    """Tell whether a file has the name of a part."""
    return _PART_FILE.fullmatch(name.rpartition("/")[2]) is not None


# Parts that are staged, under what they are made of.


def _is_staged(name: str) -> bool:
    return _STAGED_FILE.fullmatch(name) is not None and not name.startswith(
        f"{WORK_FOLDER}/rejects/"
    )


def all_records(folder: OutputFolder, head: Head | None) -> list[PartRecord]:
    """Return the records of all parts of a folder: first those under their names, then staged ones.

    Of whichever run, and with whichever settings they were made.
    """
    found = find_parts(folder, head)
    staged = sorted(filter(_is_staged, found.files))
    read = in_parallel(lambda name: read_record(folder, None, found.files[name], name), staged)
    return [*(found.records[name] for name in sorted(found.records)), *filter(None, read)]


@dataclass(frozen=True, slots=True)
class StagedParts:
    """The parts that are staged in a folder, and what lies beside them.

    Attributes:
        below: Where a run stages.
        names: The part that counts, by what it is made of.
        files: All files, as they are listed.
    """

    below: str
    names: Mapping[str, str]
    files: Mapping[str, Stored]

    @classmethod
    def listed(cls, folder: OutputFolder, below: str, inside: str = "") -> "StagedParts":
        """List what is staged in a folder, of all inputs or of one."""
        at = f"{below}/{inside}".rstrip("/")
        files = {f"{at}/{name}": stored for name, stored in folder.each_stored(at)}
        return cls(below, staged_parts(files, below), files)

    def read(self, folder: OutputFolder, part_name: str, made_of: str) -> PartRecord | None:
        """Read the record of a part that is staged; None without a whole one."""
        if (name := self.names.get(made_of)) is None:
            return None
        record = read_record(folder, part_name, self.files[name], name)
        is_good = record is not None and is_whole_with(folder, record, self.below)
        return record if is_good else None


def is_whole_with(folder: OutputFolder, record: PartRecord, below: str = "") -> bool:
    """Read a part to its end, and the list of its rows without scores; tell whether both are whole.

    Args:
        folder: Its folder.
        record: Its record.
        below: Where its run stages, if it is staged.

    Raises:
        OSError: They cannot be reached.
    """
    if not is_whole(folder, record):
        return False
    if record.summary.scored == record.summary.rows:
        return True
    name = rejects_beside(record.staged, below) if record.staged else rows_path(record.part_name)
    return rows_in(folder.path(name)) > 0


def place_of(part_name: str) -> str:
    """Return where parts of a split are staged: the folder, and how their names begin."""
    return note_name(part_name).replace("/part-", "/")


def made_of(
    split: Split | PartRecord,
    job: str,
    idf: str,
    labels: Mapping[str, str],
    digests: RowDigests | None,
) -> str:
    """Return what names the part of a split, below where its run stages.

    Args:
        split: The split, or the record of its part in another run.
        job: Digest of the run's identity.
        idf: Fingerprint of its idf table; "" without one.
        labels: Label of the setting of each language; empty if all rows are scored alike.
        digests: Those of its rows; None if the version of the file says enough.
    """
    made: dict[str, object] = {
        "rows": split.num_rows,
        "file_rows": split.file_rows,
        "size": split.file_size,
    }
    made |= {"version": split.file_version, "reading": split.reading, "job": job, "idf": idf}
    made |= {"labels": dict(labels), "digests": None if digests is None else asdict(digests)}
    return f"{place_of(split.part_name)}.{digest_of(to_line(made), 16)}"


def entries_of(record: PartRecord, below: str) -> Iterator[Entry]:
    """Yield what is to be published of a staged part."""
    note = replace(record, staged="").to_note()
    yield Entry(record.part_name, record.staged, record.part_bytes, note=note)
    if record.summary.scored < record.summary.rows:
        yield Entry(rows_path(record.part_name), rejects_beside(record.staged, below))


def rejects_beside(staged: str, below: str) -> str:
    """Return where the rows without scores of a staged part are listed."""
    return f"{below}/rejects/{staged.removeprefix(f'{below}/')}"


def part_staged(
    below: str,
    made: str,
    record: PartRecord,
    token: str,
    groups: Mapping[bytes, bytes] | None = None,
) -> str:
    """Return where a part with a note of these groups is staged.

    Parts of one digest are the same bytes, but for the token and the seal: which one counts does
    not depend on the token.
    """
    told = record.to_json() + b"".join((groups or {}).values())
    return staged_name(below, made, digest_of(told, 16), token)


def longest(part_name: str) -> str:
    """Return a path that is as long as any under which a part, or what is beside it, is staged."""
    below = f"{WORK_FOLDER}/over-0000000000"
    made = f"{place_of(part_name)}.{'0' * 16}"
    return rejects_beside(staged_name(below, made, "0" * 16, "0" * 16), below)


def own_file(token: str, name: str) -> str:
    """Return where a run stages a file that there is once in a folder."""
    return f"{WORK_FOLDER}/{token}-{name.replace('/', '-')}"
