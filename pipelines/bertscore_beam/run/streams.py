"""Standard output and error that cannot stop a run.

The reader of a command's output may close the pipe, or the disk may be full. Scores are files, so
the run continues, and its own result decides about the exit status.
"""

import errno
import io
import sys
from typing import Any, TextIO

from bertscore_beam.run.exit_status import BROKEN, DONE


class _Forgiving(io.FileIO):
    """A file descriptor to which writing never fails.

    Attributes:
        lost: Why something could not be written; None if only the reader has closed the pipe.
    """

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or drop the data and report success."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EPIPE:
                self.lost = error
            return len(memoryview(data))


def forgiving(descriptor: int, encoding: str = "utf-8") -> TextIO:
    """Return a text stream to a descriptor that stays open, to which writing never fails."""
    buffer = io.BufferedWriter(_Forgiving(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=True)


def forgive_output() -> None:
    """Make printing in this process never fail, unless its streams have been replaced."""
    sys.stdout = _forgiven(sys.stdout, sys.__stdout__)
    sys.stderr = _forgiven(sys.stderr, sys.__stderr__)


def _forgiven(stream: Any, original: Any) -> Any:
    if stream is None or stream is not original:  # a process may have no such stream
        return stream
    return forgiving(stream.fileno(), stream.encoding)


def printed() -> int:
    """Return the exit status of a command whose only result is its printed text."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, _Forgiving) else None
    if lost is None:
        return DONE
    sys.stderr.write(f"bertscore-beam: standard output cannot be written: got {lost}.\n")
    return BROKEN
