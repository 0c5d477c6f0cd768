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

from bertscore_beam.run.private_folder import make_private_folder, remove_private_folder
from bertscore_beam.run.supervised import LIVE_FOLDER, supervisor_folder
from bertscore_core import ConfigError

FOLDER_VARIABLE = "BERTSCORE_BEAM_LIVE"
"""Environment variable with the folder."""

_SECONDS = 1.0
_SUFFIX = ".json"
_WORDS_SUFFIX = ".words"


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
        self._doing: dict[str, tuple[Callable[[], float], str]] = {}
        self._counted = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._file = folder / f"{os.getpid()}{_SUFFIX}"
        threading.Thread(target=self._write_often, name="live", daemon=True).start()

    @contextmanager
    def doing(self, name: str, share: Callable[[], float], shown: str) -> Iterator[None]:
        with self._lock:
            self._doing[name] = share, shown
        self._write()  # at once: the process may die of the element
        try:
            yield
        finally:
            with self._lock:
                self._doing.pop(name, None)
            self._write()

    def counted(self, rows: int) -> None:
        with self._lock:
            self._counted += rows

    def _write_often(self) -> None:
        pause = threading.Event()
        # Without the folder the stage has ended.
        while not pause.wait(_SECONDS) and self.folder.exists():
            self._write()

    def _write(self) -> None:
        # The whole of it by one thread at a time: no older state may follow a newer one.
        with self._writing, suppress(OSError):  # progress must not fail a run
            with self._lock:
                doing, counted = dict(self._doing), self._counted
            in_hand = sorted(shown for _, shown in doing.values())
            state = {"counted": counted, "doing": _shares(doing), "in_hand": in_hand}
            unfinished = self._file.with_suffix(".tmp")
            unfinished.write_text(json.dumps(state))
            unfinished.replace(self._file)

    def in_hand(self) -> list[str]:
        with self._lock:
            return sorted(shown for _, shown in self._doing.values())


def _shares(doing: Mapping[str, tuple[Callable[[], float], str]]) -> dict[str, float]:
    shares = {}
    for name, (share, _) in doing.items():
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
def doing(name: str, share: Callable[[], float], shown: str = "") -> Iterator[None]:
    """Report, while the body runs, how much of an element is done.

    Args:
        name: Name of the file that will show that the element is done, as in `Stage.amounts`.
        share: Returns the share that is done, from 0 to 1. It is called from another thread.
        shown: What people know the element by; "" for its name.
    """
    reporter = _reporter()
    if reporter is None:
        yield
        return
    with reporter.doing(name, share, shown or name):
        yield


def counted(rows: int) -> None:
    """Report rows that a step before the main one has read."""
    reporter = _reporter()
    if reporter is not None:
        reporter.counted(rows)


def in_hand() -> tuple[str, ...]:
    """Return the elements that this process is at work on."""
    reporter = _reporter()
    return () if reporter is None else tuple(reporter.in_hand())


def leave_words(words: str) -> None:
    """Say why this process ends, for whoever is told of its death."""
    reporter = _reporter()
    if reporter is not None:
        with suppress(OSError):  # the log has them as well
            state = json.dumps({"words": words, "in_hand": reporter.in_hand()})
            (reporter.folder / f"{os.getpid()}{_WORDS_SUFFIX}").write_text(state)


@contextmanager
def live_folder(*, enabled: bool) -> Iterator[Path | None]:
    """Make the folder for the reports of local workers, which start while the body runs.

    Args:
        enabled: Whether the workers are on this machine.
    """
    folder = None
    if enabled:
        with suppress(ConfigError, OSError):  # a run without such a folder shows less progress
            folder = _make_folder()
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


def _make_folder() -> Path:
    """Make the folder: a supervisor reads the one in its own when this process has died."""
    supervisor = supervisor_folder()
    if supervisor is None:
        return make_private_folder(0)
    folder = supervisor / LIVE_FOLDER
    folder.mkdir()
    return folder


def read_live(folder: Path | None) -> Live:
    """Return the reports of all workers together."""
    counted, found = 0, {}
    for file in [] if folder is None else folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError, ValueError):
            state = json.loads(file.read_text())
            counted += state["counted"]
            found.update(state["doing"])
    return Live(counted=counted, doing=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReport:
    """What a process that died had reported.

    Attributes:
        in_hand: The elements that it was at work on, as people know them.
        words: Why it ended; "" if it could not say.
    """

    in_hand: tuple[str, ...] = ()
    words: str = ""


def last_report(process: int, folder: Path | None = None) -> LastReport:
    """Return what a process of this machine has reported last.

    Args:
        process: Its number.
        folder: Folder with the reports; None for that of this process's workers.
    """
    if folder is None:
        folder = Path(os.environ.get(FOLDER_VARIABLE, os.devnull))
    for suffix in (_WORDS_SUFFIX, _SUFFIX):
        with suppress(OSError, ValueError):
            state = json.loads((folder / f"{process}{suffix}").read_text())
            return LastReport(in_hand=tuple(state["in_hand"]), words=state.get("words", ""))
    return LastReport()
