"""Open Parquet files so that a damaged file can be told from one that cannot be reached.

Whatever is wrong with the bytes of a file is raised as `InputError`. What prevents reading them (no
permission, no network) stays an `OSError`.
"""

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.spec import AbstractBufferedFile

from bertscore_core.errors import InputError
from pipelines.dump.int96 import COARSE
from pipelines.dump.null_lists import null_lists_message
from pipelines.files.credentials import mask_credentials
from pipelines.files.read import open_source

UNREADABLE = (InputError, OSError)
"""What reading a split raises when its file is damaged, missing or out of reach. The split is then
left for the next run, and the others continue: one bad sector must not stop them all."""

# Bytes fetched at a time for each column. An object store answers a request in about the time that
# it takes to send 4 MiB.
_BUFFER_BYTES = 4 * 1024 * 1024


@contextlib.contextmanager
def open_parquet(
    path: str, timestamp_unit: str = COARSE
) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile | AbstractBufferedFile]]:
    """Open a Parquet file; damaged bytes raise `InputError`, also while the file is read.

    Args:
        path: Path of the file.
        timestamp_unit: Unit in which to read its INT96 timestamps.

    Yields:
        The file, and the source of its bytes.

    Raises:
        InputError: If it is not a whole, undamaged Parquet file.
        OSError: If it cannot be reached.
    """
    with open_source(path) as source:
        try:
            file = pq.ParquetFile(
                source,
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
                coerce_int96_timestamp_unit=timestamp_unit,
            )
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
