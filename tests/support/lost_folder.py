"""A run that loses its output folder at any moment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertscore_beam.run.lock import FolderLostError, RunLock


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by path."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_nothing_changes_after_loss(
    monkeypatch: pytest.MonkeyPatch, folder: Path, start: Callable[[], object]
) -> int:
    """Start a run again and again, and let it lose its folder one look at the lock later each time.

    Args:
        monkeypatch: Takes the place of the look.
        folder: The output folder.
        start: Starts the run.

    Returns:
        The number of looks after which the start is done.
    """
    seen: list[dict[str, bytes]] = []
    kept_until = 0

    def check(lock: RunLock) -> None:
        seen.append(files_below(folder))
        if len(seen) > kept_until:
            raise FolderLostError("the folder is lost")

    monkeypatch.setattr(RunLock, "check", check)
    while True:
        seen.clear()
        try:
            start()
        except FolderLostError:
            assert files_below(folder) == seen[-1]
            kept_until += 1
        else:
            return kept_until
