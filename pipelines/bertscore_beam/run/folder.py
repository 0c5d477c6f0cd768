"""The output folder of a run: its bookkeeping files, and writes that check the lock first.

OUT/_run.json             settings and identity of the run
OUT/_summary.json         its result
OUT/_SUCCESS              written last, names the run
OUT/_manifest/lock.json   which run works on the folder; see `run.lock`
OUT/_manifest/beat-RUN    its last heartbeat
OUT/_manifest/...         files of the job for itself and for the next run
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.delete import delete_empty_folders, delete_many, delete_temporary
from bertscore_beam.files.listing import each_file, list_files
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists, read_bytes, read_many
from bertscore_beam.files.write import copy_atomically, write_atomically
from bertscore_beam.run.lock import FolderLostError, RunLock
from bertscore_beam.run.plain import plain
from bertscore_core.errors import SignatureError

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
        """Check before a write that the run still holds the folder.

        Raises:
            FolderLostError: Another run has taken it over.
            OSError: It cannot be reached.
        """
        self._held().check()

    def look(self) -> None:
        """Look whether the run still holds the folder, however short ago a check was.

        Raises:
            FolderLostError: Another run has taken it over.
            OSError: It cannot be reached.
        """
        self._held().look()

    def _held(self) -> RunLock:
        if self.lock is None:
            raise RuntimeError(f"{self.shown!r} is open for reading only: no lock is held on it.")
        return self.lock

    def holds_lock(self) -> bool:
        """Tell whether the run still holds the folder.

        Raises:
            OSError: It cannot be reached.
        """
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
        """Read a file.

        Raises:
            FileNotFoundError: It is not there.
        """
        return read_bytes(self.path(name))

    def read_if_there(self, *names: str) -> list[bytes | None]:
        """Read several files at once; None for each that is not there."""
        return read_many([self.path(name) for name in names])

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; an empty one if the file is missing or damaged."""
        try:
            content = json.loads(self.read(name))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        self.write_all({name: data})

    def write_all(self, contents: Mapping[str, bytes]) -> None:
        """Write files one after the other, in the order given.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        for name, data in contents.items():
            self.check()  # each time: the write before may have taken long
            write_atomically(self.path(name), data)

    def store(self, name: str, source: str | os.PathLike[str]) -> None:
        """Copy a local file into the folder atomically.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        self.check()
        copy_atomically(self.path(name), source)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write an object as indented JSON, atomically. NaN and infinities are null.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
        self.write(name, text.encode())

    def delete(self, *names: str) -> None:
        """Delete files at the same time, in no particular order; a missing file is no error.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        if names:
            self.check()
            delete_many([self.path(name) for name in names])

    def delete_empty_folders(self, below: str = "") -> None:
        """Delete the empty folders below a folder, and the folder itself if it is empty then.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        self.check()
        delete_empty_folders(self.path(below))

    def delete_temporary(self) -> None:
        """Delete the temporary files of killed workers.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        self.check()
        delete_temporary(self.root)

    def release(self) -> None:
        """Release the lock, so that another run may start at once.

        Raises:
            FolderLostError: Another run has taken the folder over.
        """
        if self.lock is not None:
            self.lock.release()


def read_run(folder: OutputFolder) -> dict[str, Any] | None:
    """Read `_run.json` of an earlier run; None if there is none.

    Raises:
        SignatureError: The file is damaged.
    """
    try:
        run = json.loads(folder.read(RUN_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        run = None
    if not isinstance(run, dict):
        raise SignatureError(
            f"{RUN_FILE} of the output folder is damaged: got no JSON object; expected what an "
            "earlier run wrote. Choose another --output, or use --overwrite to start again."
        )
    return run
