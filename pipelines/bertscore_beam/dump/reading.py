"""What reading a file raises, as one kind of error: a file is bad alone.

An `InputError` says what is wrong with a file. What prevents reaching it (no permission, no
network, no memory) is an `OSError`: it is tried again. `files/reach.py` makes it one.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from bertscore_beam.dump.types import null_lists_message
from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import BertScoreError, InputError

_ENCRYPTED = re.compile(
    r"no decryption found in reader's properties|FileDecryption is not setup correctly"
    r"|noted as encrypted but no file decryptor"
)
"""What Arrow says of an encrypted footer, and of encrypted columns."""


@contextmanager
def with_memory(path: str) -> Iterator[None]:
    """Raise that there is too little memory to read a file as `OSError`: it is not its fault."""
    try:
        yield
    except MemoryError as error:
        message = f"there is too little memory to read {mask_credentials(path)!r}"
        raise OSError(errno.ENOMEM, message) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise whatever the body raises about the content of a Parquet file as `InputError`.

    What prevents reading it is an `OSError`.
    """
    with with_memory(path):
        try:
            yield
        except (BertScoreError, MemoryError):
            raise
        except Exception as error:
            if _is_out_of_reach(error):
                raise
            raise InputError(f"{mask_credentials(path)!r} {_explain(error)}") from error


def is_encrypted(error: Exception) -> bool:
    """Tell whether Arrow could not read something since it is encrypted."""
    return isinstance(error, OSError) and _ENCRYPTED.search(str(error)) is not None


def _is_out_of_reach(error: Exception) -> bool:
    if isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError):
        return True
    is_content = isinstance(error, pa.ArrowException | RecursionError)
    if is_content or not isinstance(error, OSError | RuntimeError):
        return False
    # Arrow reports damage by these, too.
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is None or "pyarrow" not in frame.tb_frame.f_code.co_filename


def _explain(error: Exception) -> str:
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "Expected all lists to be of size" in first_line:
        return f"has lists that cannot be read: {null_lists_message(())}"
    if is_encrypted(error):
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
        f"cannot be read as Parquet: got {first_line!r}; expected a whole, undamaged "
        "Parquet file. Write it again, or leave it out of the input."
    )
