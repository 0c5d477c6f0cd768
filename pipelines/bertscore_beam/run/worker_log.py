"""The log file of local worker processes, kept if the run fails."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from bertscore_beam.run.streams import forgiving


@contextmanager
def workers_log_to_file(*, enabled: bool) -> Iterator[tuple[TextIO, Path | None]]:
    """Redirect standard error of this process and its children to a file while the body runs.

    Beam's worker processes write dozens of lines each to standard error as they start and stop.
    These help only when a run fails.

    Args:
        enabled: False leaves standard error alone.

    Yields:
        The original standard error to write to, and the log's path. The file is deleted if the body
        ends without an error.
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
        terminal.write(f"The log of the workers is {name}.\n")
        raise
    else:
        Path(name).unlink()
    finally:
        sys.stderr.flush()
        os.dup2(terminal_fd, 2)
        terminal.close()
        os.close(terminal_fd)
