"""What a command knows of its supervisor, which starts it again when a worker has died.

    supervisor: makes a private folder, and names it in the environment of the command it starts
    command: notes there why a worker died, and ends with the status `WORKER_DIED`

See `bertscore_beam.run.supervisor`.
"""

import fcntl
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertscore_beam.run.exit_status import BROKEN, DEVICE_LOST, WORKER_DIED

FOLDER_VARIABLE = "BERTSCORE_BEAM_SUPERVISOR"
"""Environment variable with the supervisor's folder."""

RESTARTS_VARIABLE = "BERTSCORE_BEAM_RESTARTS"
"""Environment variable with the number of restarts so far."""

LIVE_FOLDER = "live"
"""Folder of the reports of the workers, in the supervisor's."""

_DEATH_FILE = "death.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a worker died.

    Attributes:
        cause: Why, as far as that is known.
        advice: What to do about it; "" if that is not known.
        in_hand: The elements that it was at work on.
        log: The log of the workers; "" if there is none.
    """

    cause: str
    advice: str = ""
    in_hand: tuple[str, ...] = ()
    log: str = ""

    @classmethod
    def read(cls, folder: Path) -> "Death | None":
        """Read the note of a command that has ended; None if it left none."""
        with suppress(OSError, ValueError):
            fields: dict[str, Any] = json.loads((folder / _DEATH_FILE).read_text())
            return cls(**{**fields, "in_hand": tuple(fields["in_hand"])})
        return None


def advice_for(code: int | None) -> str:
    """Return what to do about a worker that died, by its return code; None if that is unknown."""
    if code == DEVICE_LOST:
        return "The driver's log (dmesg) says more about a GPU that fails again and again."
    return (
        "A return code of 137 or -9 means that it was killed, most often for lack of memory: try "
        "fewer --workers or a smaller --split-rows."
    )


def supervisor_folder() -> Path | None:
    """Return the folder of the supervisor; None without one."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else None


def restarts_so_far() -> int:
    """Return how often this run has been restarted."""
    return int(os.environ.get(RESTARTS_VARIABLE, "0")) if supervisor_folder() else 0


def status_of_a_death() -> int:
    """Return the status with which the command ends when a worker has died."""
    return BROKEN if supervisor_folder() is None else WORKER_DIED


def note_death(death: Death) -> None:
    """Tell the supervisor, if there is one, how a worker died. The first note counts."""
    folder = supervisor_folder()
    if folder is not None:
        with suppress(OSError), (folder / _DEATH_FILE).open("x") as file:
            json.dump(asdict(death), file)


def end_with_the_supervisor(end: Callable[[], None]) -> None:
    """Call a function, from another thread, when the supervisor has ended before this process."""
    folder = supervisor_folder()
    if folder is None:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def wait() -> None:
        # The supervisor holds this lock for as long as it lives.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        end()

    threading.Thread(target=wait, name="supervisor", daemon=True).start()
