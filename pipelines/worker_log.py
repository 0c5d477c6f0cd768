"""Where local worker processes write: a log file, kept when something went wrong."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pipelines.streams import forgiving


@contextmanager
def workers_log_to_file(*, enabled: bool) -> Iterator[tuple[TextIO, Path | None]]:
    """Send what this process and its children write to standard error to a file meanwhile.

    Beam's worker processes inherit standard error and write dozens of lines each as they start and
    stop; those are wanted when a run breaks, and are in the way when it does not.

    Args:
        enabled: False leaves standard error alone.

    Yields:
        The terminal (or whatever standard error was), to write to meanwhile, and the log's path.
        The file is deleted when the body ends without an error.
    """
    if not enabled:
        yield sys.stderr, None
        return
    handle, name = tempfile.mkstemp(prefix="bertscore-beam-", suffix=".log")
    sys.stderr.flush()
    terminal_fd = os.dup(2)
    terminal = forgiving(terminal_fd)
    os.dup2(handle, 2)
    os.close(handle)
    try:
        yield terminal, Path(name)
    except BaseException:
        terminal.write(f"What the workers said is in {name}.\n")
        raise
    else:
        Path(name).unlink()
    finally:
        sys.stderr.flush()
        os.dup2(terminal_fd, 2)
        terminal.close()
        os.close(terminal_fd)
