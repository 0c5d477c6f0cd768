"""The marker of success, and the run that it belongs to.

    OUT/_run.json    {"run": ID, ...}    written when a run begins
    OUT/_SUCCESS     {"run": ID, ...}    written last by the same run

An object store may complete a put long after the run that sent it has lost its folder. So the
marker counts only while it names the run in `_run.json`.
"""

import json
from contextlib import suppress
from typing import Any

from pipelines.io.files import delete, join, read_bytes, write_atomically
from pipelines.lock import FolderLostError, RunLock, check_held
from pipelines.neighbours import RUN_FILE

SUCCESS_FILE = "_SUCCESS"


def declare_success(output: str, run: str, lock: RunLock | None, **notes: str) -> None:
    """Write the marker, and delete it if the folder was lost meanwhile.

    Args:
        output: Folder of the run.
        run: Identifies the run, as in `_run.json`.
        lock: What must be held to write; None leaves that unchecked.
        **notes: What else to say in it.

    Raises:
        FolderLostError: the folder belongs to another run by now.
    """
    path = join(output, SUCCESS_FILE)
    check_held(lock)
    write_atomically(path, json.dumps({"run": run, **notes}, indent=2).encode())
    if lock is None:
        return
    try:
        lock.check()
    except FolderLostError:
        if is_marked_by(output, run):
            delete(path)
        raise


def is_marked_by(output: str, run: str) -> bool:
    """Tell whether the marker is there and is that of a run."""
    return bool(run) and _run_of(output, SUCCESS_FILE) == run


def successful_run(output: str) -> str | None:
    """Return the run that a folder holds the success of; None where there is no valid marker."""
    run = _run_of(output, RUN_FILE)
    return run if run is not None and is_marked_by(output, run) else None


def _run_of(output: str, name: str) -> str | None:
    """Return the run that a file names, None if it is not there or names none."""
    found: Any = None
    with suppress(FileNotFoundError, NotADirectoryError, ValueError):
        found = json.loads(read_bytes(join(output, name)))
    run = found.get("run") if isinstance(found, dict) else None
    return run if isinstance(run, str) else None
