"""Run a command in a process of its own, and start it again when one of its workers has died.

    supervisor --starts--> command --starts--> workers

Beam's local runner does not outlive a worker, so the whole command ends with it. The next one
continues from the parts that are there, as it would if a user had given it again: it takes over the
lock of the one that has ended. What else ends a command, such as bad input, ends it for good.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bertscore_beam.run.exit_status import interrupted, is_death, shell_status
from bertscore_beam.run.live import last_report
from bertscore_beam.run.private_folder import make_private_folder, remove_private_folder
from bertscore_beam.run.supervised import (
    FOLDER_VARIABLE,
    LIVE_FOLDER,
    RESTARTS_VARIABLE,
    Death,
    advice_for,
)

_FORWARDED = (signal.SIGINT, signal.SIGTERM)

_MOST_NAMED = 5
"""Most splits that are named as those in the hands of a worker."""


class WorkersDiedError(Exception):
    """Workers died more often than the run may be restarted."""


@dataclass(slots=True)
class _Relay:
    """Passes signals on to the command.

    Attributes:
        child: The command, if one has been started.
        number: The last signal that came; 0 for none.
    """

    child: "subprocess.Popen[bytes] | None" = None
    number: int = 0

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Take note of a signal and pass it on."""
        self.number = number
        self.pass_on()

    def has_come(self) -> bool:
        """Tell whether a signal has come."""
        return self.number > 0

    def pass_on(self) -> None:
        """Send the last signal to the command, which may have been started after it came."""
        if self.child is not None and self.has_come():
            self.child.send_signal(self.number)


def supervise(command: Sequence[str], restarts: int, warn: Callable[[str], None]) -> int:
    """Run a command, and start it again as often as allowed when a worker has died.

    Args:
        command: Program and arguments.
        restarts: How often it may be started again.
        warn: Prints a warning.

    Returns:
        The exit status of the command, as a shell gives it.

    Raises:
        WorkersDiedError: Workers died more often than that.
        ConfigError: There is no place for a private folder.
    """
    deaths: list[Death] = []
    with _relayed_signals() as relay:
        while not relay.has_come():
            folder = make_private_folder(0)
            try:
                code = _run(command, folder, len(deaths), relay)
                if not is_death(code):
                    return shell_status(code)
                deaths.append(_death(code, folder, relay))
                _kill_what_is_left(relay)
            finally:
                remove_private_folder(folder)
            if relay.has_come():
                break
            if len(deaths) > restarts:
                raise WorkersDiedError(_last_words(deaths))
            warn(
                f"{_words(deaths[-1])} The run goes on in new workers from what is finished "
                f"(restart {len(deaths)} of {restarts})."
            )
        return interrupted(relay.number)


def _run(command: Sequence[str], folder: Path, restarts: int, relay: _Relay) -> int:
    """Run the command once and return its return code."""
    # In a process group of its own, so that Ctrl-C reaches it once: through this process.
    relay.child = subprocess.Popen(  # noqa: S603 - this program itself
        command,
        env={**os.environ, FOLDER_VARIABLE: str(folder), RESTARTS_VARIABLE: str(restarts)},
        process_group=0,
    )
    relay.pass_on()
    return relay.child.wait()


def _death(code: int, folder: Path, relay: _Relay) -> Death:
    """Return how a worker of the command died, or the command itself if it was the worker."""
    noted = Death.read(folder)
    if noted is not None:
        return noted
    process = 0 if relay.child is None else relay.child.pid
    return Death(
        cause=f"return code {code}",
        advice=advice_for(code),
        in_hand=last_report(process, folder / LIVE_FOLDER).in_hand,
    )


def _kill_what_is_left(relay: _Relay) -> None:
    """Kill the workers of a command that was killed itself: their memory is needed at once."""
    if relay.child is not None:
        with suppress(OSError):  # most often there is no process left in its group
            os.killpg(relay.child.pid, signal.SIGKILL)


def _words(death: Death) -> str:
    log = f" The log of the workers is {death.log}." if death.log else ""
    return f"a worker died ({death.cause}). {death.advice}{log}"


def _last_words(deaths: Sequence[Death]) -> str:
    """Return what is said when no restart is left."""
    count = len(deaths)
    times = "once" if count == 1 else f"{count} times"
    every = set.intersection(*(set(death.in_hand) for death in deaths))
    hands = "it died" if count == 1 else "they died each time"
    if not every:
        every, hands = set(deaths[-1].in_hand), "the last of them died"
    named = ", ".join(sorted(every)[:_MOST_NAMED]) + (", ..." if len(every) > _MOST_NAMED else "")
    return f"workers died {times}, and --restarts allowed for {count - 1}: {_words(deaths[-1])}" + (
        f" In the hands of workers when {hands}: {named}." if every else ""
    )


@contextmanager
def _relayed_signals() -> Iterator[_Relay]:
    """Pass signals on to the command while the body runs, if signals come to this thread."""
    relay = _Relay()
    if threading.current_thread() is not threading.main_thread():
        yield relay
        return
    before = {number: signal.signal(number, relay) for number in _FORWARDED}
    try:
        yield relay
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
