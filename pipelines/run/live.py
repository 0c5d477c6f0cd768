"""How far the workers of this machine are inside the elements they work on.

    worker: `doing(...)`, `counted(...)` --> one small file a process --> launcher: `read_live`

The launcher names a private folder in the environment, and workers write a file there every second.
Workers elsewhere have no such folder and write nothing: their finished files alone show progress.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bertscore_core import ConfigError
from pipelines.run.private_folder import make_private_folder, remove_private_folder

FOLDER_VARIABLE = "BERTSCORE_BEAM_LIVE"
"""Environment variable with the folder."""

_SECONDS = 1.0
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What workers report.

    Attributes:
        counted: Rows that a step before the main one has read, such as counting for idf.
        doing: Share that is done, from 0 to 1, of each element that is being worked on.
    """

    counted: int = 0
    doing: Mapping[str, float] = field(default_factory=dict)


class _Reporter:
    """Writes what this process does, from a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._doing: dict[str, Callable[[], float]] = {}
        self._counted = 0
        self._lock = threading.Lock()
        self._file = folder / f"{os.getpid()}{_SUFFIX}"
        threading.Thread(target=self._write_often, name="live", daemon=True).start()

    @contextmanager
    def doing(self, name: str, share: Callable[[], float]) -> Iterator[None]:
        with self._lock:
            self._doing[name] = share
        try:
            yield
        finally:
            with self._lock:
                self._doing.pop(name, None)

    def counted(self, rows: int) -> None:
        with self._lock:
            self._counted += rows

    def _write_often(self) -> None:
        pause = threading.Event()
        # Without the folder the stage has ended.
        while not pause.wait(_SECONDS) and self.folder.exists():
            with self._lock:
                doing, counted = dict(self._doing), self._counted
            state = {"counted": counted, "doing": _shares(doing)}
            unfinished = self._file.with_suffix(".tmp")
            with suppress(OSError):  # progress must not fail a run
                unfinished.write_text(json.dumps(state))
                unfinished.replace(self._file)


def _shares(doing: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    shares = {}
    for name, share in doing.items():
        with suppress(Exception):  # progress must not fail a run
            shares[name] = share()
    return shares


_reporters: dict[str, _Reporter] = {}
_making = threading.Lock()


def _reporter() -> _Reporter | None:
    """Return the reporter of this process; None if nobody reads its reports."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    with _making:
        if folder not in _reporters:
            _reporters.clear()  # an earlier stage has ended
            _reporters[folder] = _Reporter(Path(folder))
        return _reporters[folder]


@contextmanager
def doing(name: str, share: Callable[[], float]) -> Iterator[None]:
    """Report, while the body runs, how much of an element is done.

    Args:
        name: Name of the file that will show that the element is done, as in `Stage.amounts`.
        share: Returns the share that is done, from 0 to 1. It is called from another thread.
    """
    reporter = _reporter()
    if reporter is None:
        yield
        return
    with reporter.doing(name, share):
        yield


def counted(rows: int) -> None:
    """Report rows that a step before the main one has read."""
    reporter = _reporter()
    if reporter is not None:
        reporter.counted(rows)


@contextmanager
def live_folder(*, enabled: bool) -> Iterator[Path | None]:
    """Make the folder for the reports of local workers, which start while the body runs.

    Args:
        enabled: Whether the workers are on this machine.
    """
    folder = None
    if enabled:
        with suppress(ConfigError):  # a run without such a folder shows less progress
            folder = make_private_folder(0)
    if folder is None:
        yield None
        return
    before = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        if before is None:
            del os.environ[FOLDER_VARIABLE]
        else:
            os.environ[FOLDER_VARIABLE] = before
        remove_private_folder(folder)


def read_live(folder: Path | None) -> Live:
    """Return the reports of all workers together."""
    counted, found = 0, {}
    for file in [] if folder is None else folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError, ValueError):
            state = json.loads(file.read_text())
            counted += state["counted"]
            found.update(state["doing"])
    return Live(counted=counted, doing=found)
