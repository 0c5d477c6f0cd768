"""Say what is missing to reach a place, credentials or a connection, before any work begins.

The client of each store has its own errors, and most of them are not OSErrors. A client is an extra
and may not be installed, so its errors are recognised by their names.
"""

import errno
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import NoFileError
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
    "gs": "Check the network.",
    "s3": "Check the network, and AWS_ENDPOINT_URL if the store is not AWS.",
    "hf": "Check the network, and that HF_HUB_OFFLINE is not set.",
}


_REFUSED = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, NoFileError)


class NotBegunError(OSError):
    """A place failed before any work had begun. A retry may help."""


@contextmanager
def reaching(option: str, *paths: str) -> Iterator[None]:
    """Raise an error that names the option and the cure if a place cannot be reached.

    Raises:
        ConfigError: credentials or a connection are missing.
        NotBegunError: the store failed in another way, and a retry may help.
    """
    try:
        with silenced("gcsfs"):  # it logs the traceback of every error that it raises
            yield
    except BertScoreError:
        raise
    except Exception as error:
        remote = [path for path in paths if "://" in path]
        expected = _missing(error) if remote else None
        got = _describe(error)
        if expected is not None:
            scheme = remote[0].partition("://")[0].removesuffix("a").replace("gcs", "gs")
            cures = _CREDENTIALS if expected == "credentials" else _CONNECTION
            raise ConfigError(
                f"{option} {_shown(remote)} cannot be reached: got {got}; expected {expected}. "
                + cures.get(scheme, f"See what the client for {scheme}:// needs.")
            ) from error
        if is_of_client(error):
            raise NotBegunError(f"{option} {_shown(remote)} cannot be reached: {got}.") from error
        raise


def is_refused(error: OSError) -> bool:
    """Tell whether an error of a file system is one that a retry does not cure."""
    return isinstance(error, _REFUSED) or error.errno in (errno.ELOOP, errno.ENAMETOOLONG)


@contextmanager
def before_work() -> Iterator[None]:
    """Raise the errors of file systems in a `with` block before the work as `NotBegunError`.

    Raises:
        NotBegunError: an error that may pass.
    """
    try:
        yield
    except OSError as error:
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


def lacks_setting(error: BaseException) -> bool:
    """Tell whether an error means that credentials or a connection are missing altogether.

    A refusal of the store (403) means neither: it may concern one folder only.
    """
    refused = any(isinstance(cause, PermissionError) for cause in _chain(error))
    return not refused and _missing(error) is not None


def _missing(error: BaseException) -> str | None:
    for cause in _chain(error):
        kind = type(cause)
        if isinstance(cause, PermissionError) or getattr(cause, "code", None) in (401, 403):
            return "credentials"
        if isinstance(cause, socket.gaierror | ConnectionRefusedError):
            return "a connection"
        if is_of_client(cause):
            if _NO_CONNECTION.search(kind.__name__):
                return "a connection"
            if _NO_CREDENTIALS.search(f"{kind.__module__}.{kind.__name__}"):
                return "credentials"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_of_client(error: BaseException) -> bool:
    """Tell whether an error is one of the client of a store."""
    return _CLIENTS.match(type(error).__module__) is not None


def _describe(error: BaseException) -> str:
    message = " ".join(mask_credentials(str(error)).split()).rstrip(".")
    return f"{message} ({type(error).__name__})" if message else type(error).__name__


def _shown(paths: list[str]) -> str:
    return ", ".join(repr(mask_credentials(path)) for path in paths)
