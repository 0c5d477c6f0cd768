"""Name the place that a store could not be asked for, and say what is missing to reach it.

The client of each store has its own errors, and most of them are not OSErrors. A client is an extra
and may not be installed, so its errors are recognised by their names.
"""

import errno
import logging
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import BertScoreError, ConfigError

_CLIENTS = re.compile(
    r"(adlfs|aiobotocore|aiohttp|azure|botocore|gcsfs|google|httpcore2?|httpx2?|huggingface_hub"
    r"|requests|s3fs|urllib3)\b"
)
"""Packages of the clients behind file systems, and the packages that these use."""

_NO_CREDENTIALS = re.compile(r"credential|auth|token|profile|gatedrepo", re.I)
_NO_CONNECTION = re.compile(
    r"EndpointConnection|ConnectTimeout|ProxyConnection|ClientConnector|ConnectError|OfflineMode"
    r"|NameResolution|NewConnection"
)
_CREDENTIALS = {
    "s3": "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    "gs": "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS.",
    "hf": "Run `hf auth login`, or set HF_TOKEN.",
}
_CONNECTION = {
    "s3": "Check the network, and AWS_ENDPOINT_URL if the store is not AWS.",
    "hf": "Check the network, and that HF_HUB_OFFLINE is not set.",
}
_GONE = (404, 410)


class NoFileError(OSError):
    """A path names a FIFO, a device or a socket, which may block forever when it is opened."""


_REFUSED = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, NoFileError)


class UnreachedError(OSError):
    """A store could not be asked for a place, or did not answer; its message names the place.

    Attributes:
        got: What its client says.
        lacks_setting: Whether credentials or a connection are missing; then the message has a cure.
    """

    def __init__(self, message: str, got: str = "", *, lacks_setting: bool = False) -> None:
        super().__init__(message)
        self.got = got
        self.lacks_setting = lacks_setting


class RefusedError(UnreachedError, PermissionError):
    """A store or a web server refuses a place (403). It may concern one folder only."""


class NotBegunError(OSError):
    """A place failed before any work had begun. A retry may help."""


@contextmanager
def asking(path: str) -> Iterator[None]:
    """Raise what prevents a request about a path of a store as an error that names the path.

    What the store says of the file, such as that it is not there, is raised as it is.

    Raises:
        RefusedError: One may not.
        UnreachedError: The client of the store has failed in another way.
    """
    try:
        yield
    except (BertScoreError, UnreachedError, FileExistsError):
        raise
    except Exception as error:
        raised = _unhidden(error, path)
        is_answer = isinstance(raised, OSError) and is_refused(raised)
        if "://" not in path or (is_answer and not isinstance(raised, PermissionError)):
            raise
        missing = _missing(raised)
        if missing is None and not (isinstance(raised, OSError) or _is_of_client(raised)):
            raise
        got = _describe(raised)
        message = f"{mask_credentials(path)!r} cannot be reached: got {got}"
        if missing is None:
            raise UnreachedError(f"{message}.", got) from raised
        scheme = path.partition("://")[0].removesuffix("a").replace("gcs", "gs")
        cure = _CONNECTION.get(scheme, "Check the network.")
        if missing == "credentials":
            cure = _CREDENTIALS.get(scheme, f"See what the client for {scheme}:// needs.")
        is_refusal = any(
            isinstance(c, PermissionError) or _status(c) == 403 for c in _chain(raised)
        )
        kind = RefusedError if is_refusal else UnreachedError
        raise kind(f"{message}; expected {missing}. {cure}", got, lacks_setting=True) from raised


def got_of(error: OSError) -> str:
    """Return the kind and the words of an error, without the path that `asking` names."""
    return error.got if isinstance(error, UnreachedError) else f"{type(error).__name__}: {error}"


def is_refused(error: OSError) -> bool:
    """Tell whether an error of a file system is one that a retry does not cure."""
    return isinstance(error, _REFUSED) or error.errno in (errno.ELOOP, errno.ENAMETOOLONG)


@contextmanager
def before_work(is_before: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Raise the errors of file systems in a `with` block before the work as what they mean then.

    Args:
        is_before: Tells at an error whether it is before the work.

    Raises:
        ConfigError: Credentials or a connection are missing.
        NotBegunError: An error that may pass.
    """
    try:
        yield
    except OSError as error:
        if not is_before():
            raise
        if isinstance(error, UnreachedError) and error.lacks_setting:
            raise ConfigError(str(error)) from error
        if isinstance(error, NotBegunError) or is_refused(error):
            raise
        raise NotBegunError(str(error)) from error


@contextmanager
def silenced(name: str) -> Iterator[None]:
    """Keep a logger and those below it from logging while the body runs."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def is_web(path: str) -> bool:
    """Tell whether a path is the address of a file on a web server."""
    return path.lower().startswith(("http://", "https://"))


def _unhidden(error: Exception, path: str) -> Exception:
    """Return what a store has failed with.

    fsspec reports all failures of a web server as a missing file, and gcsfs a refusal in words.
    """
    if type(error) is OSError and str(error).startswith("Forbidden: "):
        return PermissionError(str(error))
    cause = error.__cause__
    is_hidden = isinstance(error, FileNotFoundError) and is_web(path)
    is_gone = getattr(cause, "status", None) in _GONE
    return cause if is_hidden and not is_gone and isinstance(cause, Exception) else error


def _missing(error: BaseException) -> str | None:
    for cause in _chain(error):
        kind = type(cause)
        if isinstance(cause, PermissionError) or _status(cause) in (401, 403):
            return "credentials"
        if isinstance(cause, socket.gaierror | ConnectionRefusedError):
            return "a connection"
        if _is_of_client(cause):
            if _NO_CONNECTION.search(kind.__name__):
                return "a connection"
            if _NO_CREDENTIALS.search(f"{kind.__module__}.{kind.__name__}"):
                return "credentials"
    return None


def _status(error: BaseException) -> Any:
    """Return the status that a client has got from a web server; None for none."""
    return getattr(error, "status" if hasattr(error, "status") else "code", None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what has caused it, up to the error of another request."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and not isinstance(cause, UnreachedError):
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_of_client(error: BaseException) -> bool:
    return _CLIENTS.match(type(error).__module__) is not None


def _describe(error: Any) -> str:
    """Return the words of an error; of a web server's its status, or its host."""
    words, kind = str(error), type(error)
    if kind.__module__.startswith("aiohttp"):
        words = words.partition(": <")[0]  # the words of another object follow
        if hasattr(error, "status"):
            words = f"status {error.status} {error.message}"
        elif hasattr(error, "host"):
            words = f"no connection to {error.host}:{error.port}"
    words = " ".join(mask_credentials(words).split()).rstrip(".")
    return f"{words} ({kind.__name__})" if words else kind.__name__
