"""The marker of a successful run.

    OUT/_run.json    {"run": ID, ...}    written when a run begins
    OUT/_SUCCESS     {"run": ID, ...}    written last by the same run

An object store may complete a write long after the run that sent it has lost its folder. So the
marker is valid only if it names the same run as `_run.json`.
"""

import json

from bertscore_beam.files.delete import delete
from bertscore_beam.run.folder import RUN_FILE, SUCCESS_FILE, OutputFolder
from bertscore_beam.run.lock import FolderLostError


def declare_success(folder: OutputFolder, run: str, **notes: object) -> None:
    """Write the marker, and delete it if the run has lost the folder meanwhile.

    Args:
        folder: Folder of the run.
        run: Identifies the run, as in `_run.json`.
        **notes: Further fields of the marker.

    Raises:
        FolderLostError: Another run has taken the folder over.
    """
    folder.look()
    folder.write(SUCCESS_FILE, json.dumps({"run": run, **notes}, indent=2).encode())
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
