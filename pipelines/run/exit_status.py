"""Exit statuses of the command line."""

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

REFUSED = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
"""Errors of the file system that a retry does not cure."""


def interrupted(number: int) -> int:
    """Return the status that a shell gives after a signal: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number
