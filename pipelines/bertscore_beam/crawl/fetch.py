"""Fetch one file of a crawl to this machine, whole or not at all.

Over HTTP a file is one plain request for all of it, as Common Crawl asks of its users. fsspec's
HTTP file system would send many range requests, for which clients get blocked. Other stores are
read through fsspec. What arrives is compared with the announced size, since a file that was cut off
between two gzip members looks whole to every reader.
"""

import contextlib
import hashlib
import http.client
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path

import requests
import urllib3
from fsspec.implementations.local import LocalFileSystem

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import TEMPORARY_PREFIX, resolve
from bertscore_beam.files.reach import NoFileError, is_web
from bertscore_beam.files.read import open_source, source_size
from bertscore_core.errors import BertScoreError, ConfigError

_PROBLEM_LENGTH = 300


class CrawlFileError(BertScoreError):
    """A crawl file cannot be read to its end."""


@dataclass(eq=False)
class _AttemptError(Exception):
    """One attempt to fetch a file failed.

    A `permanent` one is not tried again. The server may ask us to `wait` for some seconds; `factor`
    multiplies the usual pause.
    """

    problem: str | Exception
    _: KW_ONLY
    permanent: bool = False
    missing: bool = False
    wait: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        name = f"{type(self.problem).__name__}: " if isinstance(self.problem, Exception) else ""
        words = mask_credentials(f"{name}{self.problem}").split()
        self.problem = " ".join(words)[:_PROBLEM_LENGTH]

    def __str__(self) -> str:
        return str(self.problem)


# One request to a web server for one whole file.

_LONGEST_RETRY_AFTER = 600.0
"""Seconds that a server may ask us to wait. A longer wait would keep a worker from other files."""
_REFUSED_FACTOR = 5.0
"""Factor of the usual pause after a 403: Common Crawl answers so to too many requests, and keeps
doing so for a while."""
_SLOWEST = 1024.0
"""Bytes a second below which a transfer counts as stalled. A WET file would take 18 hours."""

_BLOCK = 1 << 20
# A page of a proxy or a portal begins so, after a byte order mark and blanks.
_PAGE_STARTS = (b"<!doctype html", b"<html", b"<head", b"<?xml", b"<!--")
_RETRIED = (403, 408, 425, 429)
_NETWORK = (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException)

_turn = threading.Lock()
"""Held for the pause before each request of this process, so that they are apart."""


def _http_blocks(url: str, policy: "FetchPolicy") -> Iterator[bytes]:
    """Yield the body of an answer as it is transferred, never decompressed."""
    # `identity`: the file itself is compressed, and its length is what we compare.
    headers = {"User-Agent": policy.user_agent, "Accept-Encoding": "identity"}
    with _turn:
        time.sleep(policy.pause)
    try:
        with requests.get(url, headers=headers, stream=True, timeout=policy.timeout) as response:
            _check_answer(response)
            received, measured, begun = 0, 0, time.monotonic()
            # `read1` reads the socket once; `read` would wait for a whole block, however slowly it
            # comes. urllib3 compares the length.
            while block := response.raw.read1(_BLOCK, decode_content=False):
                start = block.removeprefix(b"\xef\xbb\xbf").lstrip()[:14].lower()
                if not received and start.startswith(_PAGE_STARTS):
                    raise _AttemptError("200 with a web page in place of the file")
                received += len(block)
                # A server that sends a byte now and then never times out.
                seconds = time.monotonic() - begun
                if seconds >= policy.timeout:
                    speed = (received - measured) / seconds
                    if speed < _SLOWEST:
                        raise _AttemptError(f"a stalled transfer ({speed:.0f} bytes a second)")
                    begun, measured = begun + seconds, received
                yield block
    except _NETWORK as error:
        # Errors of the address are a ValueError too; a second attempt does not cure them.
        of_address = isinstance(error, ValueError | requests.TooManyRedirects)
        raise _AttemptError(error, permanent=of_address) from error


def _check_answer(response: requests.Response) -> None:
    status = response.status_code
    problem = f"{status} {response.reason}"
    if status == 200:
        if not response.raw.chunked and response.raw.length_remaining is None:
            raise _AttemptError(
                "an answer without a Content-Length, so that nobody can tell whether it is whole",
                permanent=True,
            )
        return
    # Temporary errors of servers and of proxies in front of them.
    if status not in _RETRIED and (status < 500 or status == 501):
        raise _AttemptError(problem, permanent=True, missing=status in (404, 410))
    asked = _retry_after(response.headers.get("Retry-After", ""))
    if asked > _LONGEST_RETRY_AFTER:
        problem += (
            f" and Retry-After {asked:.0f} s (more than the {_LONGEST_RETRY_AFTER:.0f} s "
            "we would wait)"
        )
    raise _AttemptError(problem, wait=asked, factor=_REFUSED_FACTOR if status == 403 else 1.0)


def _retry_after(value: str) -> float:
    try:
        return max(0.0, urllib3.Retry().parse_retry_after(value))
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return 0.0


# Read a whole file once, from a store that fsspec knows or from a disk.

_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_NOT_ALLOWED = (NoFileError, PermissionError)
# Errors of botocore, by name, since it is not always installed.
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError"})
_STORE_BLOCK = 8 << 20


def _store_blocks(path: str) -> Iterator[bytes]:
    fs, _ = resolve(path)
    try:
        fs.invalidate_cache()
        with open_source(path) as source:
            size, received = source_size(source), 0
            while block := source.read(_STORE_BLOCK):
                received += len(block)
                yield block
    except _NOT_THERE as error:
        raise _AttemptError("no such file", permanent=True, missing=True) from error
    except _NOT_ALLOWED as error:
        raise _AttemptError(error, permanent=True) from error
    except Exception as error:  # of a store, too
        is_lasting = type(error.__cause__).__name__ in _NO_CREDENTIALS
        raise _AttemptError(error, permanent=is_lasting) from error
    if received != size:
        raise _AttemptError(f"a file of {received} of {size} bytes")


USER_AGENT = f"bertscore-beam/{version('bertscore-beam')} (computes BERTScore baselines)"
"""User agent of the requests. Common Crawl asks tools to identify themselves; users of the job can
add a contact."""

_LONGEST_PAUSE = 120.0
"""Seconds between two attempts at most, unless the server asks for more."""
_MOST_SECONDS = 2_000_000.0
"""Longest timeout or pause, 23 days: a socket counts milliseconds in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPolicy:
    """How hard to try, and how politely.

    Attributes:
        attempts: Requests for one file at most. Six with doubling pauses last about half a minute,
            with those after a 403 or a Retry-After some minutes.
        timeout: Seconds to wait for a connection, and for the next byte; also the time in which the
            speed of a transfer is measured.
        pause: Seconds before each request, in which no other thread of the process makes one, and
            after the first attempt; later ones wait twice as long each. Common Crawl asks for no
            more than one request a second.
        contact: Where the owner of a server can write to: a mail address or URL, in ASCII.

    Raises:
        ConfigError: A value is out of range.
    """

    attempts: int = 6
    timeout: float = 60.0
    pause: float = 1.0
    contact: str | None = None

    def __post_init__(self) -> None:
        times = 0 < self.timeout <= _MOST_SECONDS and 0 <= self.pause <= _MOST_SECONDS
        agent = self.user_agent
        if not (self.attempts >= 1 and times and agent.isascii() and agent.isprintable()):
            raise ConfigError(
                f"files cannot be fetched like this: got {self}; expected attempts of at least 1, "
                "a timeout above 0, a pause of at least 0 and a contact in printable ASCII; no "
                f"time above {_MOST_SECONDS:,.0f} seconds."
            )

    @property
    def user_agent(self) -> str:
        """User agent of the requests."""
        return USER_AGENT if self.contact is None else f"{USER_AGENT[:-1]}; {self.contact})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that has arrived.

    Attributes:
        file: The local copy, or the file itself if it is local.
        num_bytes: Its size.
        sha256: Digest of its content, in hex.
        retries: What went wrong before, a line for each failed attempt.
    """

    file: Path
    num_bytes: int
    sha256: str
    retries: tuple[str, ...]


class FetchError(BertScoreError):
    """A file cannot be fetched.

    Attributes:
        permanent: Whether a retry is useless.
        missing: Whether the store says that there is no such file.
    """

    def __init__(self, message: str, *, permanent: bool = False, missing: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.missing = missing


@contextlib.contextmanager
def fetched(path: str, policy: FetchPolicy) -> Iterator[FetchedFile]:
    """Fetch a file, and delete the copy afterwards.

    What arrives has the length that the server or store announced; a body without a length must end
    as HTTP prescribes. A local file is not copied, only read once for its digest. Its length cannot
    be checked: if it was cut off between two gzip members when it was made, it looks whole.

    Raises:
        FetchError: The file is not there, may not be read, or did not arrive in any attempt.
        ConfigError: The scheme is not known.
        OSError: The copy cannot be written, such as when the disk is full. It is not tried again.
    """
    if not is_web(path):
        fs, inner = resolve(path)
        if isinstance(fs, LocalFileSystem):
            yield _try_to_fetch(path, policy, Path(inner), os.devnull)
            return
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX) as folder:
        copy = os.path.join(folder, "copy")
        yield _try_to_fetch(path, policy, Path(copy), copy)


def _try_to_fetch(path: str, policy: FetchPolicy, file: Path, copy: str) -> FetchedFile:
    retries: list[str] = []
    while True:
        attempt = len(retries) + 1
        try:
            num_bytes, digest = _save(
                _http_blocks(path, policy) if is_web(path) else _store_blocks(path), copy
            )
        except _AttemptError as error:
            too_long = error.wait > _LONGEST_RETRY_AFTER
            if error.permanent or too_long or attempt >= policy.attempts:
                raise _give_up(path, attempt, error) from error
            # The exponent is bounded so that the power cannot overflow.
            pause = error.factor * policy.pause * 2.0 ** min(attempt - 1, 64)
            wait = max(error.wait, min(_LONGEST_PAUSE, pause))
            retries.append(f"attempt {attempt}: {error}; waited {wait:.1f} s")
            time.sleep(wait)
        else:
            return FetchedFile(
                file=file, num_bytes=num_bytes, sha256=digest, retries=tuple(retries)
            )


def _give_up(path: str, attempt: int, error: _AttemptError) -> FetchError:
    tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
    cure = (
        "Trying again now is of no use: check the address and what you may read."
        if error.permanent
        else "Try again later, with fewer downloads at a time."
    )
    return FetchError(
        f"{mask_credentials(path)!r} cannot be fetched: got {error} after {tries}; expected "
        f"the whole file. {cure}",
        permanent=error.permanent,
        missing=error.missing,
    )


def _save(blocks: Iterator[bytes], copy: str) -> tuple[int, str]:
    digest = hashlib.sha256()
    with open(copy, "wb") as file:
        num_bytes = 0
        for block in blocks:
            digest.update(block)
            num_bytes += file.write(block)
    return num_bytes, digest.hexdigest()
