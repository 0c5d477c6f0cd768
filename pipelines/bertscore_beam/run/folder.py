"""The output folder of a run: bookkeeping files, identity, neighbours, the success marker.

OUT/_run.json             settings and identity of the run
OUT/_summary.json         its result
OUT/_SUCCESS              written last, names the run
OUT/_manifest/lock.json   which run works on the folder; see `run.lock`
OUT/_manifest/beat-RUN    its last heartbeat
OUT/_manifest/...         files of the job for itself and for the next run
"""

import hashlib
import json
import math
import os
import posixpath
import shutil
import signal
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.files.listing import HIDDEN_PREFIXES, each_file, list_files
from bertscore_beam.files.paths import join, mask_credentials
from bertscore_beam.files.read import NoFileError, exists, read_bytes, read_many
from bertscore_beam.files.write import (
    copy_atomically,
    delete,
    delete_empty_folders,
    delete_many,
    delete_temporary,
    write_atomically,
)
from bertscore_beam.options.run_options import DumpOptions
from bertscore_beam.run.lock import JOB_FILE, FolderLostError, RunLock, is_of_lock
from bertscore_beam.run.output import ending_signals, ending_with, interrupted
from bertscore_core.errors import ConfigError, SignatureError

# Values as JSON knows them.


def nan_to_null(value: Any) -> Any:
    """Return values with those that JSON does not know, NaN and infinities, as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): nan_to_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [nan_to_null(item) for item in value]
    return value


RUN_FILE = "_run.json"
SUMMARY_FILE = "_summary.json"
SUCCESS_FILE = "_SUCCESS"
MANIFEST_FOLDER = "_manifest"
# Parquet, but not by that name: globs such as **/*.parquet must find parts alone.
PLAN_FILE = f"{MANIFEST_FOLDER}/plan.pq"


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder of a run. Files are named by their path below it.

    Each call that changes the folder first checks that the run still holds the lock: another run
    may have taken the folder over while this process was suspended. On an object store a check is
    good for some seconds, see `run.lock`.

    Attributes:
        root: Its path, as `absolute` returns it.
        lock: The lock held on it; None for a folder that is only read.
    """

    root: str
    lock: RunLock | None = None

    @property
    def shown(self) -> str:
        """The folder's path without credentials, for messages."""
        return mask_credentials(self.root)

    def path(self, name: str = "") -> str:
        """Return the full path of a file, or of the folder itself without a name."""
        return join(self.root, name) if name else self.root

    def check(self) -> None:
        """Check before a write that the run still holds the folder."""
        self._held().check()

    def look(self) -> None:
        """Look whether the run still holds the folder, however short ago a check was."""
        self._held().look()

    def _held(self) -> RunLock:
        if self.lock is None:
            raise RuntimeError(f"{self.shown!r} is open for reading only: no lock is held on it.")
        return self.lock

    def holds_lock(self) -> bool:
        """Tell whether the run still holds the folder."""
        try:
            self.look()
        except FolderLostError:
            return False
        return True

    def exists(self, name: str) -> bool:
        """Tell whether a file is there."""
        return exists(self.path(name))

    def files(self, below: str = "", *, suffix: str = "") -> dict[str, int]:
        """Return the size of each file below a folder, by its path below that folder."""
        return list_files(self.path(below), suffix=suffix)

    def each_file(self) -> Iterator[tuple[str, int]]:
        """Yield all files and their sizes as they are listed."""
        return each_file(self.root)

    def read(self, name: str) -> bytes:
        """Read a file."""
        return read_bytes(self.path(name))

    def read_if_there(self, *names: str) -> list[bytes | None]:
        """Read several files at once; None for each that is not there."""
        return read_many([self.path(name) for name in names])

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; an empty one if the file is missing, damaged, or a FIFO."""
        try:
            return from_json(self.read(name))
        except (FileNotFoundError, NotADirectoryError, NoFileError, ValueError):
            return {}

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        self.write_all({name: data})

    def write_all(self, contents: Mapping[str, bytes]) -> None:
        """Write files one after the other, in the order given."""
        for name, data in contents.items():
            self.check()  # each time: the write before may have taken long
            write_atomically(self.path(name), data)

    def store(self, name: str, source: str | os.PathLike[str]) -> None:
        """Copy a local file into the folder atomically."""
        self.check()
        copy_atomically(self.path(name), source)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write an object as indented JSON with its digest. NaN and infinities are null."""
        self.write(name, to_json(nan_to_null(content), indent=2))

    def delete(self, *names: str) -> None:
        """Delete files at the same time, in no particular order; a missing file is not an error."""
        if names:
            self.check()
            delete_many([self.path(name) for name in names])

    def delete_empty_folders(self, below: str = "") -> None:
        """Delete the empty folders below a folder, and the folder itself if it is empty then."""
        self.check()
        delete_empty_folders(self.path(below))

    def delete_temporary(self) -> None:
        """Delete the temporary files of killed workers."""
        self.check()
        delete_temporary(self.root)

    def release(self) -> None:
        """Release the lock at the end of a detached job, so that another run may start at once."""
        if self.lock is not None:
            self.delete(JOB_FILE)
            self.lock.release()


def read_run(folder: OutputFolder) -> dict[str, Any] | None:
    """Read `_run.json` of an earlier run; None if there is none.

    Raises:
        SignatureError: The file is damaged.
    """
    try:
        return from_json(folder.read(RUN_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise SignatureError(
            f"{RUN_FILE} of {folder.shown!r} is damaged: got {error}; expected what an earlier run "
            "wrote. Choose another --output, or use --overwrite to start again."
        ) from error


# The identity of a run: the settings that two runs of one output folder must share.


def identity_digest(identity: dict[str, str]) -> str:
    """Return the digest of a job's identity: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def read_same_command(
    folder: OutputFolder, identity: Mapping[str, str], *, may_be_damaged: bool
) -> dict[str, Any] | None:
    """Read `_run.json`, and check that it is of the same command, even with --overwrite.

    Returns:
        None if there is none, or if it is damaged and may be.

    Raises:
        SignatureError: It is of another command, or damaged.
    """
    try:
        run = read_run(folder)
    except SignatureError:
        if may_be_damaged:
            return None
        raise
    before = (run or {}).get("identity")
    if isinstance(before, dict):
        earlier, command = (settings.get("command", "score") for settings in (before, identity))
        if earlier != command:
            raise SignatureError(
                f"{folder.shown!r} holds the output of `{earlier}`: expected a new folder, "
                f"or one of `{command}`. Choose another --output."
            )
    return run


_HINTS = {
    "idf": " (corpus@ is a digest of the input files' names and rows: with --idf corpus any change "
    "of them changes every score)",
    "sampling": " (version of the rule that takes the sample; samples of two rules do not mix)",
    "layout": " (of sentences; another version of this program began the folder)",
    "long_text": " (--long-text; None is the default, truncate)",
    "references": " (mean is what `select` writes, None what `score` does)",
    "backend": " (--backend; for openvino that version must be installed)",
}
"""Explanations of a difference, by field."""


def check_same_run(previous_run: Mapping[str, Any] | None, identity: Mapping[str, str]) -> None:
    """Check that the scores in the output folder were made with the settings of this run.

    Raises:
        SignatureError: They were made with other settings; the message names the differences.
    """
    if previous_run is None:
        return
    before = previous_run.get("identity")
    if not isinstance(before, dict):
        raise SignatureError(
            f"{RUN_FILE} of the output folder does not say how its scores were made: got no "
            "identity; expected what an earlier run wrote. Choose another --output, or use "
            "--overwrite to start again."
        )
    names = sorted(before.keys() | identity.keys())
    lines = [
        f"  {name}: {before.get(name)!r} there, {identity.get(name)!r} now" + _HINTS.get(name, "")
        for name in names
        if before.get(name) != identity.get(name)
    ]
    if lines:
        raise SignatureError(
            "the output folder holds scores made with other settings: got these differences\n"
            + "\n".join(lines)
            + "\nexpected none. To continue that run, give its settings again; or choose another "
            "--output; or use --overwrite to replace the scores."
        )


# An output folder belongs to one run: it is not inside another run's folder, nor around one.
#
# Otherwise readers would take both runs for one dataset, and one run could delete the other's
# parts.

_MARKS = frozenset({RUN_FILE, MANIFEST_FOLDER})


def runs_below(names: Iterable[str]) -> frozenset[str]:
    """Return the folders of other runs below an output folder.

    A lock alone is not a run: a command that was refused, or killed at once, leaves only a lock.
    """
    folders = set()
    for name in names:
        parts = name.split("/")
        marked = [place for place, part in enumerate(parts) if part in _MARKS]
        if is_of_lock("/".join(parts[-2:])) and len(parts) - 2 in marked[:1]:
            continue
        above = parts[: marked[0]] if marked else []
        # No reader looks into hidden folders, such as the one of `idf` beside its table.
        if above and not any(part.startswith(HIDDEN_PREFIXES) for part in above):
            folders.add("/".join(above))
    return frozenset(folders)


def is_marked(name: str) -> bool:
    """Tell whether a file shows that there is a run, its own or one below; see `runs_below`."""
    return not _MARKS.isdisjoint(name.split("/"))


def is_below(name: str, folders: Collection[str]) -> bool:
    """Tell whether a file is in one of the folders; all are paths below the same root."""
    return any(parent in folders for parent in _parents(name)) if folders else False


def check_stands_alone(output: str, names: Iterable[str]) -> None:
    """Check that an output folder is not inside another run's folder, nor around one.

    Raises:
        ConfigError: It is.
    """
    inner = sorted(runs_below(names))
    if inner:
        others = f" and {len(inner) - 1} more" if len(inner) > 1 else ""
        raise ConfigError(
            f"output {mask_credentials(output)!r} holds the folders of other runs: got "
            f"{inner[0]!r}{others} below it; expected none, since an output folder is read as one "
            "dataset. Choose another --output, beside them."
        )
    outer = next(filter(_is_run, _parents(output)), None)
    if outer is not None:
        raise ConfigError(
            f"output {mask_credentials(output)!r} is in the folder of another run: got "
            f"{mask_credentials(outer)!r} above it; expected none, since an output folder is "
            "read as one dataset. Choose another --output, beside it."
        )


def _parents(path: str) -> Iterator[str]:
    scheme, separator, rest = path.rpartition("://")
    while (rest := posixpath.dirname(rest).rstrip("/")) != "":
        yield f"{scheme}{separator}{rest}"


def _is_run(folder: str) -> bool:
    """Tell whether a folder is a run's; False if it cannot be read."""
    with suppress(OSError):
        return "identity" in OutputFolder(folder).read_json(RUN_FILE)
    return False


# How many rows a split of a run has: as asked for, or as in the folder's earlier run.

SPLIT_ROWS = "split_rows"
"""Key of `_run.json` for the most rows in a split."""


def given_split_rows(options: DumpOptions, folder: OutputFolder) -> int | None:
    """Return the most rows in a split; None if the plan is to choose the number.

    With `auto`, a folder keeps the number of its earlier run. Otherwise its parts would not fit
    the splits any more after the number of workers, or the input, has changed.
    """
    if options.split_rows != "auto":
        return options.split_rows
    number = folder.read_json(RUN_FILE).get(SPLIT_ROWS)
    return number if type(number) is int and number > 0 else None


# The marker of a successful run.
#
#     OUT/_run.json    {"run": ID, ...}    written when a run begins
#     OUT/_SUCCESS     {"run": ID, ...}    written last by the same run
#
# An object store may complete a write long after the run that sent it has lost its folder. So the
# marker is valid only if it names the same run as `_run.json`.


def declare_success(folder: OutputFolder, run: str, **notes: object) -> None:
    """Write the marker, and delete it if the run has lost the folder meanwhile."""
    folder.look()
    folder.write_json(SUCCESS_FILE, {"run": run, **notes})
    try:
        folder.look()
    except FolderLostError:
        if is_marked_by(folder, run):
            # Without the lock, which is lost. It is this run's own file in another run's folder.
            delete(folder.path(SUCCESS_FILE))
        raise


def is_marked_by(folder: OutputFolder, run: str) -> bool:
    """Tell whether the marker is there and names this run."""
    return bool(run) and _run_of(folder, SUCCESS_FILE) == run


def successful_run(folder: OutputFolder) -> str | None:
    """Return the successful run of a folder; None without a valid marker."""
    run = _run_of(folder, RUN_FILE)
    return run if run is not None and is_marked_by(folder, run) else None


def _run_of(folder: OutputFolder, name: str) -> str | None:
    """Return the run that a file names; None if it names none, or is missing."""
    run = folder.read_json(name).get("run")
    return run if isinstance(run, str) else None


# Folders of this machine that are deleted when their command ends, whatever ends it but SIGKILL.

_TEMPORARY: list[str] = []
_TRIES = 10
"""How often a folder is deleted into which a thread may be writing."""


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Make a folder for the body that only this user can read; Beam's own go into it as well."""
    ending = set(ending_signals()) - {signal.SIGINT}
    with ending_with(lambda number, _: sys.exit(interrupted(number)), *ending):
        place, folder = tempfile.tempdir, tempfile.mkdtemp(prefix="bertscore-beam-")
        _TEMPORARY.append(folder)
        try:
            tempfile.tempdir = folder
            yield folder
        finally:
            tempfile.tempdir = place
            delete_temporary_folders()


def delete_temporary_folders() -> None:
    """Delete them, at the end of their body or of this process."""
    for folder in _TEMPORARY * _TRIES:
        shutil.rmtree(folder, ignore_errors=True)
    _TEMPORARY.clear()


def is_temporary(folder: OutputFolder) -> bool:
    """Tell whether nothing of a folder is kept."""
    return is_below(folder.root, _TEMPORARY)
