"""What reading a file raises, as one kind of error: a file is bad alone.

An `InputError` says what is wrong with a file. What prevents reaching it (no permission, no
network) stays the `OSError`, or the error of a store's client, that it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from bertscore_beam.dump.types import null_lists_message
from bertscore_beam.files import is_of_client, mask_credentials
from bertscore_core.errors import BertScoreError, InputError


@contextmanager
def reading(path: str, kind: str = "Parquet") -> Iterator[None]:
    """Raise whatever the body raises about the content of a file as `InputError`.

    Args:
        path: Path of the file.
        kind: What it is read as, for the message.
    """
    try:
        yield
    except BertScoreError:
        raise
    except Exception as error:
        if _is_out_of_reach(error):
            raise
        raise InputError(f"{mask_credentials(path)!r} {_why(error, kind)}") from error


def _is_out_of_reach(error: Exception) -> bool:
    if isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError):
        return True
    is_content = isinstance(error, pa.ArrowException | RecursionError)
    if is_content or not isinstance(error, OSError | RuntimeError):
        return is_of_client(error)
    # Arrow reports damage by these, too.
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is None or "pyarrow" not in frame.tb_frame.f_code.co_filename


def _why(error: Exception, kind: str) -> str:
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "Expected all lists to be of size" in first_line:
        return f"has other lists than can be read: {null_lists_message(())}"
    if "crypt" in first_line:
        return (
            f"cannot be read here: got an encrypted file ({first_line!r}); expected one without "
            "encryption. Decrypt it, or leave it out of the input."
        )
    if isinstance(error, NotImplementedError):
        return (
            f"cannot be read here: got {first_line!r}; expected types that Arrow {pa.__version__} "
            "reads. Write it with other types, or leave it out of the input."
        )
    return (
        f"cannot be read as {kind}: got {first_line!r}; expected a whole, undamaged {kind} "
        "file. Write it again, or leave it out of the input."
    )
