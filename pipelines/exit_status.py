"""How the command line ends."""

DONE = 0
BROKEN = 1
"""The job stopped early; the same command continues it."""
UNUSABLE = 2
"""It cannot work as asked."""
TOO_MANY_REJECTS = 3
"""Done as far as possible, but a gate was not passed: too many rejects, too few rows, too many cut
texts, or parts of missing inputs."""

REFUSED = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
"""What the file system answers when asking again is of no use."""


def interrupted(number: int) -> int:
    """Return the status after a signal, as a shell does: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number
