"""Standard output and error that cannot stop a run.

The reader of a command's output may go away, or the disk for it may be full. Scores are files, so
the work continues, and its own result decides whether it succeeds.
"""

import errno
import io
import sys
from typing import Any, TextIO

from pipelines.exit_status import BROKEN, DONE


class _Forgiving(io.FileIO):
    """A file descriptor to which writing never fails.

    Attributes:
        lost: What was not written, and why; a reader who has gone away wanted no more.
    """

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or pretend to."""
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
    """Let no printing of this process fail, unless its streams have been replaced."""
    sys.stdout = _forgiven(sys.stdout, sys.__stdout__)
    sys.stderr = _forgiven(sys.stderr, sys.__stderr__)


def _forgiven(stream: Any, original: Any) -> Any:
    """Return a stream of this process in its forgiving form; a process may have none."""
    if stream is None or stream is not original:
        return stream
    return forgiving(stream.fileno(), stream.encoding)


def printed() -> int:
    """Return the exit status of a command whose result is what it printed."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, _Forgiving) else None
    if lost is None:
        return DONE
    sys.stderr.write(f"bertscore-beam: standard output cannot be written: got {lost}.\n")
    return BROKEN
