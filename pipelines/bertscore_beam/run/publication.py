"""Put what a run has staged where readers look: all of it, or, after any stop, the rest of it.

    OUT/_work/...                 what is staged, under names that never come back
    OUT/_manifest.json            the head: which publication counts, and how far it is
    OUT/_manifest/parts-TOKEN-N   its shards: which files lie under which names
    OUT/_SUCCESS                  names epoch and token of the head; there only while all is whole

A publication writes its shards and replaces the head, in the version that was read before the run
was planned: "moving". Then `_SUCCESS` and files of before are deleted, each in the version that was
listed; staged files get their names; a listing shows whether each is there; `_SUCCESS` gets its
name; what is still staged is deleted; the head says "published", or "incomplete". Whoever finds a
head that is moving does the same again. A publisher that was overtaken changes nothing: its head is
refused, what it would copy is gone, and what it would delete has another version by now.

On a local disk one process at a time does this; see `run.alone`. In stores without conditions a
write of an overtaken publisher may come between a look and a change: see `files.versions`.
"""

import gzip
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from bertscore_beam.files.checked import digest_of, from_json, to_json, typed, unpacked
from bertscore_beam.files.listing import Stored
from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.read import in_parallel
from bertscore_beam.files.versions import NOT_THERE
from bertscore_beam.run.alone import LOCK_FILE, PUBLISHING_FILE, publishing
from bertscore_beam.run.folder import SUCCESS_FILE, OutputFolder
from bertscore_beam.run.lease import LEASE_FILE
from bertscore_beam.run.output import JobFailedError

HEAD_FILE = "_manifest.json"
WORK_FOLDER = "_work"
_SHARDS = "_manifest/parts-"
_SHARD_FILES = 1000
"""Most files that a shard lists: what a worker moves at a time."""

MOVING, PUBLISHED, INCOMPLETE = "moving", "published", "incomplete"


class OvertakenError(JobFailedError):
    """Another run has published since this one began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Which publication of a folder counts.

    Attributes:
        epoch: The number of the publication, from 1.
        token: Names the run; no two heads have one token.
        state: How far it is.
        shards: Names of its shards.
        before: Version of the `_SUCCESS` that it deletes.
        succeeds: Whether it brings a `_SUCCESS`.
        version: The head's own, as it was read.
    """

    epoch: int
    token: str
    state: str
    shards: list[str]
    before: str = NOT_THERE
    succeeds: bool = False
    version: str = NOT_THERE

    def to_json(self) -> bytes:
        """Return the content of the file."""
        content = asdict(self)
        del content["version"]
        return to_json(content, indent=2)

    @property
    def marker(self) -> str:
        """Where its `_SUCCESS` is staged."""
        return f"{WORK_FOLDER}/success-{self.token}.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that a publication lists.

    Attributes:
        name: The name that readers know.
        staged: Where it is staged; "" if it has that name already, and stays.
        size: Its size in bytes.
        content: As in `Stored`.
        note: What is known of it.
    """

    name: str
    staged: str = ""
    size: int = 0
    content: str = ""
    note: dict[str, Any] = field(default_factory=dict)

    def is_there(self, stored: Stored | None) -> bool:
        """Tell whether this file is what is listed under its name."""
        return stored is not None and (self.size, self.content) == (stored.size, stored.content)


@dataclass(frozen=True, slots=True)
class Shard:
    """Some files of a publication, and versions of files that it deletes, by name."""

    entries: list[Entry]
    gone: dict[str, str]

    def to_bytes(self) -> bytes:
        """Return the content of its file."""
        entries = [[getattr(entry, name) for name in Entry.__slots__] for entry in self.entries]
        return gzip.compress(to_json({"entries": entries, "gone": self.gone}), mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Shard":
        """Return what was written.

        Raises:
            ValueError: It is damaged.
        """
        content = from_json(unpacked(data))
        return cls([Entry(*values) for values in content["entries"]], content["gone"])


# What is staged. A name ends in what is new at each write, so that none ever comes back.


def staging(head: Head | None, *, overwrite: bool) -> str:
    """Return the folder of staged parts. To overwrite, only those of this epoch count."""
    epoch = 0 if head is None else head.epoch
    return f"{WORK_FOLDER}/over-{epoch}" if overwrite else WORK_FOLDER


def staged_name(below: str, made_of: str, digest: str, token: str) -> str:
    """Return where a part is staged. Not as .parquet: globs such as **/*.parquet would find it."""
    return f"{below}/{made_of}-{digest}-{token}.pq"


def staged_parts(names: Iterable[str], below: str) -> dict[str, str]:
    """Return the part that counts of those that are staged, by what each is made of.

    Workers whose last bits differ stage several for one split: the smallest digest counts.
    """
    found: dict[str, str] = {}
    for name in names:
        made_of, *rest = name.removeprefix(f"{below}/").split("-")
        if name.startswith(f"{below}/") and name.endswith(".pq") and len(rest) == 2:
            found[made_of] = min(found.get(made_of, name), name)
    return found


# Look.


def read_head(folder: OutputFolder) -> Head | None:
    """Read the head, however far it is; None without one. Of a damaged one nothing is known."""
    found = folder.read_version(HEAD_FILE)
    if found is None:
        return None
    try:
        return replace(typed(Head, from_json(found[0])), version=found[1])
    except ValueError:
        return Head(epoch=0, token="", state=INCOMPLETE, shards=[], version=found[1])


def settled_head(folder: OutputFolder) -> Head | None:
    """Read the head before a run is planned, when a publication that did not end is finished."""
    head = read_head(folder)
    if head is None or head.state != MOVING:
        return head
    with publishing(folder.root):
        return _settled_head(folder)


def _settled_head(folder: OutputFolder) -> Head | None:
    while (head := read_head(folder)) is not None and head.state == MOVING:
        finish(folder, head)
    return head


def readable_head(folder: OutputFolder) -> Head | None:
    """Read the head for a command that changes nothing.

    Raises:
        JobFailedError: A publication has not ended.
    """
    head = read_head(folder)
    if head is not None and head.state == MOVING:
        raise JobFailedError(
            f"{folder.shown!r} cannot be read now: got scores that are being replaced; expected "
            "them whole. Wait for the run that does it, or give its command again."
        )
    return head


def successful_run(folder: OutputFolder) -> str | None:
    """Return the successful run of a folder; None without one.

    Raises:
        JobFailedError: A publication has not ended.
    """
    head = readable_head(folder)
    return head.token if head is not None and is_success(folder, head) else None


def is_success(folder: OutputFolder, head: Head | None) -> bool:
    """Tell whether the folder holds the success of its head."""
    return head is not None and head.state == PUBLISHED and _is_marked(folder, head)


def _is_marked(folder: OutputFolder, head: Head) -> bool:
    marker = folder.read_json(SUCCESS_FILE)
    return (marker.get("epoch"), marker.get("token")) == (head.epoch, head.token)


def read_shards(folder: OutputFolder, names: Sequence[str]) -> Iterator[Shard | None]:
    """Read shards in order; None for one that is damaged or not there."""
    return map(_shard_of, folder.read_each(names))


def _shard_of(data: bytes | None) -> Shard | None:
    with suppress(ValueError):
        return None if data is None else Shard.from_bytes(data)
    return None


# Publish.


def publish(
    folder: OutputFolder,
    before: Head | None,
    token: str,
    entries: Iterable[Entry],
    earlier: Iterable[str],
    success: Mapping[str, object] | None,
    *,
    moves: bool = True,
) -> Head:
    """Publish files in the place of what is published; return the head, as it is then.

    The steps are `begin`, `move_shard` for each shard, and `finish`, which does what is left.

    Args:
        folder: The folder.
        before: Its head before the run was planned, which is not moving.
        token: Names the run, and never another one.
        entries: What the run has judged: staged files, and those that stay.
        earlier: Names of published files: those that `entries` does not have are deleted.
        success: What `_SUCCESS` says beside epoch and token; None if the run is no success.
        moves: Whether shards are moved here in a store, too, and not by workers: those that
            `shards_to_move` returns. Then `end_moves` ends the publication. On a disk, where one
            process at a time publishes, it is done at once.

    Raises:
        OvertakenError: Another run has published since; nothing of this one was published, or it
            has been replaced.
        JobFailedError: A file is no longer there.
    """
    with publishing(folder.root):
        head: Head | None = begin(folder, before, token, entries, earlier, success)
        if head is not None and head.state == MOVING and (moves or not is_remote(folder.root)):
            head = finish(folder, head)
    return _own(folder, head, token)


def _own(folder: OutputFolder, head: Head | None, token: str) -> Head:
    """Return the head of a run; raise OvertakenError if it is another's."""
    if head is None or head.token != token:
        raise _overtaken(folder)
    return head


def shards_to_move(folder: OutputFolder, token: str) -> list[str]:
    """Return the shards of the run's publication, for `move_shard`; none if it does not move.

    On a disk one process moves all: a publication that stopped there is finished at once.
    """
    head = read_head(folder) if is_remote(folder.root) else settled_head(folder)
    if head is None or head.token != token or head.state != MOVING:
        return []
    hide_success(folder, head)
    return head.shards


def end_moves(folder: OutputFolder, token: str, moved: Sequence[str]) -> Head:
    """End the publication of a run when its shards have been moved; return the head, as it is then.

    Args:
        folder: The folder.
        token: Names the run.
        moved: What `move_shard` has returned for each shard.

    Raises:
        OvertakenError: Another run has published since.
    """
    head = _own(folder, read_head(folder), token)
    if head.state == MOVING:  # else another command has ended it
        return _own(folder, finish(folder, head, sorted(moved)), token)
    return head


def stage_files(folder: OutputFolder, token: str, files: Mapping[str, bytes]) -> list[Entry]:
    """Stage the files of a run, by name, each under a name of its content.

    Beam may do this twice at once, and a summary has clocks: nothing that is staged changes.
    """
    staged = {
        name: f"{WORK_FOLDER}/{token}-{digest_of(data, 16)}-{name.replace('/', '-')}"
        for name, data in files.items()
    }
    folder.write_all({staged[name]: data for name, data in files.items()})
    return [Entry(name, at) for name, at in staged.items()]


def publish_files(
    folder: OutputFolder,
    before: Head | None,
    token: str,
    files: Mapping[str, bytes],
    *,
    kept: Collection[str] = (),
    earlier: Iterable[str] = (),
    is_success: bool = True,
) -> None:
    """Stage files, and publish them: all that a small job does at its end.

    Args:
        folder: The folder.
        before: Its head before the run was planned.
        token: Names the run.
        files: The files, by name.
        kept: Names of published files that stay.
        earlier: Names of published files; those that are neither kept nor new are deleted.
        is_success: Whether the run is a success.

    Raises:
        OvertakenError, JobFailedError: As `publish`; also if the success is not whole.
    """
    entries, listed = stage_files(folder, token, files), dict(folder.each_stored())
    stay = {name: listed[name] for name in kept if name in listed}
    entries += [Entry(name, "", one.size, one.content) for name, one in stay.items()]
    head = publish(folder, before, token, entries, earlier, {} if is_success else None)
    sweep(folder)
    if is_success and head.state != PUBLISHED:
        raise JobFailedError(
            f"what {folder.shown!r} holds is not whole: got other files than were published; "
            "expected these. Give the command again: it makes what is missing."
        )


def begin(
    folder: OutputFolder,
    before: Head | None,
    token: str,
    entries: Iterable[Entry],
    earlier: Iterable[str],
    success: Mapping[str, object] | None,
) -> Head:
    """Replace the head, so that the publication will be finished whatever happens; see `publish`.

    Done again by the same run, it changes nothing and returns its head.
    """
    listed = dict(folder.each_stored())
    # Read after the listing: if it is still that of before, no other run has moved what is missing.
    now = read_head(folder)
    if now is not None and now.token == token:
        return now
    if _version(now) != _version(before):
        raise _refused(folder)
    head = Head(
        epoch=1 + (0 if before is None else before.epoch),
        token=token,
        state=MOVING,
        shards=[],
        before=listed[SUCCESS_FILE].version if SUCCESS_FILE in listed else NOT_THERE,
        succeeds=success is not None,
    )
    if success is not None:
        marker = {"epoch": head.epoch, "token": token, **success}
        folder.replace_version(head.marker, to_json(marker, indent=2), NOT_THERE)
    # The first to write a shard fixes it: Beam may do an element twice.
    for number, shard in enumerate(_shards(folder, listed, entries, earlier)):
        name = f"{_SHARDS}{token}-{number:05d}.json.gz"
        folder.replace_version(name, shard.to_bytes(), NOT_THERE)
        head.shards.append(name)
    folder.replace_version(HEAD_FILE, head.to_json(), _version(before))
    now = read_head(folder)
    if now is not None and now.token == token:
        return now
    folder.delete(*head.shards, head.marker)
    raise _refused(folder)


def _version(head: Head | None) -> str:
    return NOT_THERE if head is None else head.version


def _refused(folder: OutputFolder) -> OvertakenError:
    """Finish what another run has begun; return what to raise."""
    _settled_head(folder)
    return _overtaken(folder)


def check_not_overtaken(folder: OutputFolder, before: Head | None, token: str) -> None:
    """Check that nobody else has published since a run was planned: see `publish`.

    Raises:
        OvertakenError: Another run has.
    """
    now = read_head(folder)
    if _version(now) != _version(before) and (now is None or now.token != token):
        raise _overtaken(folder)


def _overtaken(folder: OutputFolder) -> OvertakenError:
    return OvertakenError(
        f"another run has published in {folder.shown!r} since this one began: got its scores; "
        "expected those of before. They stay. Give the command again if these shall replace them."
    )


def _shards(
    folder: OutputFolder,
    listed: dict[str, Stored],
    entries: Iterable[Entry],
    earlier: Iterable[str],
) -> Iterator[Shard]:
    """Yield the shards of a publication; every file must be listed."""
    found = (_found(folder, listed, entry) for entry in entries)
    while some := [*islice(found, _SHARD_FILES)]:
        yield Shard(some, {})
    gone = ((name, listed[name].version) for name in earlier if name in listed)
    while deleted := dict(islice(gone, _SHARD_FILES)):
        yield Shard([], deleted)


def _found(folder: OutputFolder, listed: dict[str, Stored], entry: Entry) -> Entry:
    """Return an entry as it is listed; its name is no longer listed then."""
    there = listed.pop(entry.name, None)
    stored = listed.get(entry.staged) if entry.staged else there
    if stored is None or not (
        entry.size in (0, stored.size) if entry.staged else entry.is_there(stored)
    ):
        raise JobFailedError(
            f"nothing can be published in {folder.shown!r}: got no {entry.staged or entry.name!r} "
            "as it was; expected it to stay. Give the command again: it makes what is missing."
        )
    return replace(entry, size=stored.size, content=stored.content)


def move_shard(folder: OutputFolder, name: str) -> str:
    """Delete and move what a shard lists; return the name of the shard that says what is there now.

    It is another one if the store has given copies other ETags. Workers may do this for shards of
    one head at the same time, once `hide_success` is done.
    """
    (shard,) = read_shards(folder, [name])
    if shard is None:
        return name
    for _ in in_parallel(lambda item: folder.delete_version(*item), shard.gone.items()):
        pass
    staged = [entry for entry in shard.entries if entry.staged]
    copies = in_parallel(partial(_move, folder), staged)
    moved = [next(copies) if entry.staged else entry for entry in shard.entries]
    folder.sync([*shard.gone, *(entry.name for entry in staged)])
    if moved == shard.entries:
        return name
    data = Shard(moved, shard.gone).to_bytes()
    corrected = name.replace(".json.gz", f"-{digest_of(data, 16)}.json.gz")
    folder.write(corrected, data)
    return corrected


def _move(folder: OutputFolder, entry: Entry) -> Entry:
    with suppress(FileNotFoundError):  # it has been moved, or is lost: a listing shows which
        return replace(entry, content=folder.rename_or_copy(entry.staged, entry.name))
    return entry


def hide_success(folder: OutputFolder, head: Head) -> None:
    """Delete the `_SUCCESS` of before, in the version that was listed."""
    if head.before != NOT_THERE:
        folder.delete_version(SUCCESS_FILE, head.before)
        folder.sync([SUCCESS_FILE])


def finish(folder: OutputFolder, head: Head, moved: Sequence[str] | None = None) -> Head | None:
    """Do what is left of a publication; return the head, as it is then.

    Args:
        folder: The folder.
        head: A head that is moving.
        moved: What `move_shard` has returned for each shard; None to do that first.
    """
    if moved is None:
        hide_success(folder, head)
        moved = [move_shard(folder, name) for name in head.shards]
    listed = dict(folder.each_stored())
    if read_head(folder) == head:  # so nobody has changed what is listed
        if _check(folder, listed, moved) and head.succeeds:
            with suppress(FileNotFoundError):
                folder.rename_or_copy(head.marker, SUCCESS_FILE)
                folder.sync([SUCCESS_FILE])
        folder.delete(head.marker)  # from now on nobody else can give it its name
        for shard in read_shards(folder, moved):
            entries = [] if shard is None else shard.entries
            folder.delete(*(entry.staged for entry in entries if entry.staged in listed))
        shards = (name for name in listed if name.startswith(_SHARDS))
        folder.delete(*(name for name in shards if head.token not in name))
        state = PUBLISHED if _is_marked(folder, head) else INCOMPLETE
        ended = replace(head, state=state, shards=[*moved])
        folder.replace_version(HEAD_FILE, ended.to_json(), head.version)
    return read_head(folder)


def _check(folder: OutputFolder, listed: Mapping[str, Stored], shards: Sequence[str]) -> bool:
    """Tell whether a listing shows each file, and none of before; delete what is left of these."""
    is_whole = True
    for shard in read_shards(folder, shards):
        if shard is None:
            is_whole = False
            continue
        left = listed.keys() & shard.gone.keys()
        for name in left:
            folder.delete_version(name, listed[name].version)
        there = all(entry.is_there(listed.get(entry.name)) for entry in shard.entries)
        is_whole = is_whole and there and not left
    return is_whole


def sweep(folder: OutputFolder, keep: Collection[str] = ()) -> None:
    """Delete what is staged on a disk, but for some names, when a publication has ended.

    In a store other runs may be at work with it: a rule of the bucket deletes it.
    """
    if not is_remote(folder.root):
        keep = (LOCK_FILE, PUBLISHING_FILE, LEASE_FILE, *keep)
        with publishing(folder.root):
            staged = (f"{WORK_FOLDER}/{name}" for name, _ in folder.each_stored(WORK_FOLDER))
            folder.delete(*(name for name in staged if name not in keep))
        folder.delete_empty_folders()
