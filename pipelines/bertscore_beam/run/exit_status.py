"""Exit statuses of the command line and of its workers."""

import signal

DONE = 0
BROKEN = 1
"""The job stopped early; the same command continues it."""
UNUSABLE = 2
"""The command cannot work as given."""
TOO_MANY_REJECTS = 3
"""Done as far as possible, but a gate was not passed: too many rejects, too few rows, too many cut
texts, or parts of missing inputs."""
WORSE = 4
"""Compared, and the gate of the comparison was not passed: the run is worse than another."""

DEVICE_LOST = 75
"""Of a worker process: its GPU has failed. The number is EX_TEMPFAIL of sysexits.h: try again."""
DEADLY = frozenset(
    {
        signal.SIGKILL,  # sent by the kernel where memory is short
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGILL,
        signal.SIGFPE,
    }
)
"""Signals by which a process dies that nobody has asked to end."""

REFUSED = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
"""Errors of the file system that a retry does not cure."""


def interrupted(number: int) -> int:
    """Return the status that a shell gives after a signal: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


def is_death(code: int) -> bool:
    """Tell whether a process died in such a way that a new one may succeed.

    Args:
        code: Its return code, -9 after SIGKILL.
    """
    return code == DEVICE_LOST or -code in DEADLY
