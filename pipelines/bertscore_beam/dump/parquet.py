"""Open Parquet files so that a damaged file can be told from one that cannot be reached.

Whatever is wrong with the bytes of a file is raised as `InputError`. What prevents reading them (no
permission, no network) stays an `OSError`.
"""

import contextlib
import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.int96 import COARSE
from bertscore_beam.dump.null_lists import null_lists_message
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.ranges import RemoteFile, fetch, reads_one_version
from bertscore_beam.files.read import open_source, source_size
from bertscore_core.errors import InputError

UNREADABLE = (InputError, OSError)
"""What reading a split raises when its file is damaged, missing or out of reach. The split is then
left for the next run, and the others continue: one bad sector must not stop them all."""

# Bytes fetched at a time for each column. An object store answers a request in about the time that
# it takes to send 4 MiB.
BUFFER_BYTES = 4 * 1024 * 1024


class _Footers:
    """The footers of the files that this process has read last, so that splits share them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[object, pq.FileMetaData] = {}

    def get(self, key: object) -> pq.FileMetaData | None:
        """Return the footer of a version of a file; None if it is not known."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: object, footer: pq.FileMetaData) -> None:
        """Keep a footer, and forget the one that was kept longest if there are too many."""
        with self._lock:
            self._known[key] = footer
            if len(self._known) > self._most:
                self._known.pop(next(iter(self._known)))


_FOOTERS = _Footers(most=8)


@contextlib.contextmanager
def open_parquet(
    path: str,
    timestamp_unit: str = COARSE,
    *,
    size: int | None = None,
    version: str = "",
    whole: bool = False,
) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile | RemoteFile]]:
    """Open a Parquet file; damaged bytes raise `InputError`, also while the file is read.

    Args:
        path: Path of the file.
        timestamp_unit: Unit in which to read its INT96 timestamps.
        size: As for `open_source`.
        version: As for `open_source`.
        whole: Whether all of the file is wanted, so that it may be fetched at once.

    Yields:
        The file, and the source of its bytes.

    Raises:
        InputError: If it is not a whole, undamaged Parquet file.
        OSError: If it cannot be reached.
    """
    with open_source(path, size=size, version=version) as source:
        try:
            if whole:
                fetch(source, 0, source_size(source))
            known = (path, size, version) if version and reads_one_version(path) else None
            file = pq.ParquetFile(
                source,
                metadata=_FOOTERS.get(known),
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                coerce_int96_timestamp_unit=timestamp_unit,
            )
            if known is not None and not whole:
                _FOOTERS.put(known, file.metadata)
            yield file, source
        except InputError:
            raise
        except (pa.ArrowException, EOFError, ValueError, LookupError, MemoryError) as error:
            raise _damaged(path, error) from error
        except RuntimeError as error:
            if not _raised_by_arrow(error):
                raise
            raise _damaged(path, error) from error
        except OSError as error:
            # Arrow reports damage as OSError without an errno; the operating system sets one.
            if error.errno is not None or type(error) is not OSError:
                raise
            raise _damaged(path, error) from error


def _raised_by_arrow(error: BaseException) -> bool:
    """Tell whether an error comes from Arrow itself, not from the code that fetches its bytes."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    name = "" if frame is None else frame.tb_frame.f_code.co_filename
    return "pyarrow" in name


def _damaged(path: str, error: BaseException) -> InputError:
    """Return the error for a file that cannot be read as Parquet."""
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "Expected all lists to be of size" in first_line:
        return InputError(f"{mask_credentials(path)!r}: {null_lists_message(())}")
    return InputError(
        f"{mask_credentials(path)!r} cannot be read as Parquet: got {first_line!r}; expected a "
        "whole, undamaged Parquet file. Write it again, or leave it out of the input."
    )
