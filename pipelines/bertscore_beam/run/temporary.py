"""Folders of this machine that are deleted when their command ends, except by SIGKILL."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.neighbours import is_below
from bertscore_beam.run.output import ending_signals, ending_with, interrupted

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
