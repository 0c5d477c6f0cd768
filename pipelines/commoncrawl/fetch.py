"""Bring one file of a crawl to this machine, whole or not at all.

Over HTTP a file is one plain request for all of it, as Common Crawl asks of its users: many ranges
a file, as fsspec's HTTP file system asks for, is what gets clients blocked. Other stores go through
fsspec. What arrives is compared with the size that was announced, since a file that was cut off
between two gzip members looks like a whole one to every reader.
"""

import contextlib
import datetime
import email.utils
import hashlib
import http.client
import os
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import requests
import urllib3
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from bertscore_core.errors import BertScoreError, ConfigError
from pipelines.io.files import TEMPORARY_PREFIX, mask_credentials, resolve

USER_AGENT = f"bertscore-beam/{version('bertscore-beam')} (computes BERTScore baselines)"
"""How requests sign themselves. Common Crawl asks for a tool that can be told from others; the job
lets its user add where to write to."""

LONGEST_PAUSE = 120.0
"""Seconds between two attempts at most, unless the server asks for more."""
LONGEST_RETRY_AFTER = 600.0
"""Seconds a server may ask us to wait. More would only keep a worker from other files."""
REFUSED_FACTOR = 5.0
"""How many times the usual pause to wait after a 403: Common Crawl gives that answer to too many
requests, and goes on giving it for a while."""
SLOWEST = 1024.0
"""Bytes a second below which a transfer counts as stalled. A WET file would take 18 hours."""

_BLOCK = 1 << 20
_STORE_BLOCK = 8 << 20
# Passing errors of servers and of what stands in front of them. 403: see REFUSED_FACTOR.
_RETRIED = frozenset({403, 408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
# Errors of the address, which no second attempt mends.
_OUR_FAULT = (
    requests.exceptions.InvalidHeader,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.TooManyRedirects,
)
_NETWORK = (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException)
_NOT_THERE = (FileNotFoundError, NotADirectoryError)
_NOT_ALLOWED = (IsADirectoryError, PermissionError)
# Of botocore, which is not always installed.
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError"})
_REASON_LENGTH = 300

# When each host may be asked next, by this process: threads share the politeness.
_next_turn: dict[str, float] = {}
_turns = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPolicy:
    """How hard to try, and how politely.

    Attributes:
        attempts: Requests for one file at most. Six with doubling pauses last about half a minute,
            with those after a 403 or a Retry-After some minutes.
        timeout: Seconds to wait for a connection, and for the next byte.
        pause: Seconds between two requests to a host, and before the second attempt; later ones
            wait twice as long each. Common Crawl asks for no more than one request a second.
        user_agent: How requests sign themselves.

    Raises:
        ConfigError: A value is out of range.
    """

    attempts: int = 6
    timeout: float = 60.0
    pause: float = 1.0
    user_agent: str = USER_AGENT

    def __post_init__(self) -> None:
        """Check the values."""
        agent = self.user_agent
        sound = self.attempts >= 1 and self.timeout > 0 and self.pause >= 0
        if not sound or not (agent.strip() and agent.isascii() and agent.isprintable()):
            raise ConfigError(
                f"files cannot be fetched like this: got {self}; expected attempts of at least 1, "
                "a timeout above 0, a pause of at least 0 and a user agent in printable ASCII."
            )

    @classmethod
    def of_contact(cls, contact: str) -> "FetchPolicy":
        """Return the default policy with a contact in the user agent.

        Args:
            contact: Where the servers' people can write to: an address of mail or web, in ASCII.

        Raises:
            ConfigError: It cannot stand in a header.
        """
        return cls(user_agent=f"{USER_AGENT[:-1]}; {contact})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file that has arrived.

    Attributes:
        path: Where it was fetched from, as given.
        file: Where it lies on this machine.
        num_bytes: Its size in bytes.
        sha256: Digest of its content, in hex.
        attempts: How often it was asked for.
        retries: What went wrong before, a line for each failed attempt.
    """

    path: str
    file: Path
    num_bytes: int
    sha256: str
    attempts: int
    retries: tuple[str, ...]


class FetchError(BertScoreError):
    """A file cannot be fetched.

    Attributes:
        path: Which one, without credentials.
        reason: What went wrong last.
        attempts: How often it was asked for.
        permanent: Whether trying again is of no use.
        missing: Whether the store says that there is no such file.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        reason: str = "",
        attempts: int = 0,
        permanent: bool = False,
        missing: bool = False,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason
        self.attempts = attempts
        self.permanent = permanent
        self.missing = missing


class _AttemptError(Exception):
    """One attempt failed.

    Attributes:
        permanent: Whether another one is of no use.
        missing: Whether there is no such file.
        wait: Seconds the server asks us to wait.
        factor: How many times the usual pause to wait.
    """

    def __init__(
        self,
        problem: str,
        *,
        permanent: bool = False,
        missing: bool = False,
        wait: float = 0.0,
        factor: float = 1.0,
    ) -> None:
        super().__init__(" ".join(mask_credentials(problem).split())[:_REASON_LENGTH])
        self.permanent = permanent
        self.missing = missing
        self.wait = wait
        self.factor = factor


@contextlib.contextmanager
def fetched(path: str, policy: FetchPolicy, folder: str | None = None) -> Iterator[Fetched]:
    """Fetch a file, and delete the copy afterwards.

    What arrives is as long as the server or store said; a body without a length has to end as HTTP
    says. A local file is not copied, only read once for its digest. It has the size it says, so
    one that was cut off between two gzip members when it was made cannot be told from a whole one.

    Args:
        path: A local path or URL.
        policy: How hard to try.
        folder: Where to put the copy; made if it is not there. By default the system's folder for
            temporary files.

    Raises:
        FetchError: The file is not there, may not be read, or did not arrive in any attempt.
        ConfigError: The scheme is not known.
        OSError: The copy cannot be written, such as when the disk is full. It is not tried again.
    """
    if _is_http(path):
        with _temporary_file(folder) as copy:
            yield _try_to_fetch(path, policy, copy, copy)
        return
    fs, inner = resolve(path)
    if isinstance(fs, LocalFileSystem):
        yield _try_to_fetch(path, policy, None, Path(inner))
        return
    with _temporary_file(folder) as copy:
        yield _try_to_fetch(path, policy, copy, copy)


def _is_http(path: str) -> bool:
    """Tell whether a path is a web address."""
    return path.lower().startswith(("http://", "https://"))


@contextlib.contextmanager
def _temporary_file(folder: str | None) -> Iterator[Path]:
    """Yield an empty file that is gone afterwards."""
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=folder)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _try_to_fetch(path: str, policy: FetchPolicy, copy: Path | None, file: Path) -> Fetched:
    """Attempt it as often as the policy allows.

    Args:
        path: What to fetch.
        policy: How hard to try.
        copy: Where to write it; None to read it only.
        file: Where it lies in the end.

    Raises:
        FetchError: No attempt succeeded.
    """
    retries: list[str] = []
    attempt = 0
    while True:
        attempt += 1
        blocks = _http_blocks(path, policy) if _is_http(path) else _store_blocks(path)
        try:
            with contextlib.closing(blocks):
                num_bytes, digest = _save(blocks, copy)
        except _AttemptError as error:
            too_long = error.wait > LONGEST_RETRY_AFTER
            if error.permanent or too_long or attempt >= policy.attempts:
                raise _give_up(path, attempt, error) from error
            wait = max(error.wait, _pause_after(path, attempt, error.factor * policy.pause))
            retries.append(f"attempt {attempt}: {error}; waited {wait:.1f} s")
            time.sleep(wait)
            continue
        return Fetched(
            path=path,
            file=file,
            num_bytes=num_bytes,
            sha256=digest,
            attempts=attempt,
            retries=tuple(retries),
        )


def _give_up(path: str, attempt: int, error: _AttemptError) -> FetchError:
    """Return what to raise after the last attempt."""
    shown = mask_credentials(path)
    tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
    cure = (
        "Trying again now is of no use: check the address and what you may read."
        if error.permanent
        else "Try again later, with fewer downloads at a time."
    )
    return FetchError(
        f"{shown!r} cannot be fetched: got {error} after {tries}; expected the whole file. {cure}",
        path=shown,
        reason=str(error),
        attempts=attempt,
        permanent=error.permanent,
        missing=error.missing,
    )


def _pause_after(path: str, attempt: int, pause: float) -> float:
    """Return the seconds to wait after a failed attempt: doubling, each file a little different.

    Files that failed together must not come back together. A hash is as good as a random number
    here, and a run can be repeated with it.
    """
    digest = hashlib.blake2b(f"{attempt}\0{path}".encode("utf-8", "replace"), digest_size=4)
    jitter = int.from_bytes(digest.digest()) / 2**32
    # The exponent is bounded so that the power cannot overflow.
    return min(LONGEST_PAUSE, pause * 2.0 ** min(attempt - 1, 64) * (1 + jitter / 2))


def _save(blocks: Iterator[bytes], copy: Path | None) -> tuple[int, str]:
    """Write the blocks down, over what an earlier attempt left; return their size and digest."""
    digest = hashlib.sha256()
    num_bytes = 0
    with contextlib.nullcontext() if copy is None else open(copy, "wb") as file:
        for block in blocks:
            digest.update(block)
            num_bytes += len(block)
            if file is not None:
                file.write(block)
    return num_bytes, digest.hexdigest()


def _http_blocks(url: str, policy: FetchPolicy) -> Generator[bytes, None, None]:
    """Ask a web server for a file once and yield it in blocks.

    Raises:
        _AttemptError: It did not arrive.
    """
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()
    _wait_for_turn(host, policy.pause)
    # `identity`: the file is compressed already, and its length is what is compared.
    headers = {"User-Agent": policy.user_agent, "Accept-Encoding": "identity"}
    limits = (policy.timeout, policy.timeout)
    try:
        with (
            requests.Session() as session,
            session.get(url, headers=headers, stream=True, timeout=limits) as response,
        ):
            yield from _body(response, policy.timeout)
    except _OUR_FAULT as error:
        raise _AttemptError(_describe(error), permanent=True) from error
    except _NETWORK as error:
        raise _AttemptError(_describe(error)) from error


def _body(response: requests.Response, timeout: float) -> Iterator[bytes]:
    """Yield the body of an answer as it came over the wire, never unpacked.

    Raises:
        _AttemptError: The answer is no file, is shorter than it says, or comes too slowly.
    """
    if response.status_code != 200:
        raise _refusal(response)
    length = _length(response)
    received = 0
    pace = _Pace(timeout)
    # One read of the socket each: a read of a whole block would wait for it however slowly it came.
    while block := response.raw.read1(_BLOCK, decode_content=False):
        received += len(block)
        pace.check(received)
        yield block
    if length is not None and received != length:
        raise _AttemptError(f"a body of {received} of {length} bytes")


def _length(response: requests.Response) -> int | None:
    """Return the length a body must have, None if it tells its end itself.

    Raises:
        _AttemptError: It does neither, so that a cut would not be seen.
    """
    if "chunked" in response.headers.get("Transfer-Encoding", "").lower():
        return None
    value = response.headers.get("Content-Length", "").strip()
    if not (value.isascii() and value.isdigit()):
        raise _AttemptError(
            "an answer without a Content-Length, so that nobody could tell whether it is whole",
            permanent=True,
        )
    return int(value)


def _refusal(response: requests.Response) -> _AttemptError:
    """Say what a status other than 200 means for the next attempt."""
    status = response.status_code
    problem = f"{status} {response.reason}"
    if status not in _RETRIED:
        return _AttemptError(problem, permanent=True, missing=status in (404, 410))
    asked = _retry_after(response.headers.get("Retry-After", ""))
    if asked > LONGEST_RETRY_AFTER:
        problem += (
            f" and Retry-After {asked:.0f} s (more than the {LONGEST_RETRY_AFTER:.0f} s "
            "we would wait)"
        )
    return _AttemptError(problem, wait=asked, factor=REFUSED_FACTOR if status == 403 else 1.0)


def _retry_after(value: str) -> float:
    """Return the seconds a Retry-After header asks for; 0 if it cannot be understood."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())


class _Pace:
    """Watches that a transfer gets on: a server that sends a byte now and then never times out."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._start = time.monotonic()
        self._received = 0

    def check(self, received: int) -> None:
        """Look at the speed whenever a window has passed.

        Raises:
            _AttemptError: It was below `SLOWEST`.
        """
        passed = time.monotonic() - self._start
        if passed < self._window:
            return
        speed = (received - self._received) / passed
        if speed < SLOWEST:
            raise _AttemptError(f"a stalled transfer ({speed:.0f} bytes a second)")
        self._start, self._received = time.monotonic(), received


def _wait_for_turn(host: str, pause: float) -> None:
    """Wait until a host may be asked again, and take that turn."""
    with _turns:
        now = time.monotonic()
        turn = max(now, _next_turn.get(host, now))
        _next_turn[host] = turn + pause
    time.sleep(turn - now)


def _store_blocks(path: str) -> Generator[bytes, None, None]:
    """Yield a file of any other kind of store in blocks.

    Raises:
        _AttemptError: It did not arrive.
    """
    fs, inner = resolve(path)
    try:
        fs.invalidate_cache()
        size = fs.info(inner)["size"]
        received = 0
        with _open(fs, inner) as file:
            while block := file.read(_BLOCK):
                received += len(block)
                yield block
    except _NOT_THERE as error:
        raise _AttemptError("no such file", permanent=True, missing=True) from error
    except _NOT_ALLOWED as error:
        raise _AttemptError(_describe(error), permanent=True) from error
    except Exception as error:  # each store has a tree of errors of its own
        permanent = type(error).__name__ in _NO_CREDENTIALS
        raise _AttemptError(_describe(error), permanent=permanent) from error
    if received != size:
        raise _AttemptError(f"a file of {received} of {size} bytes")


def _open(fs: AbstractFileSystem, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """Open a file to be read from its start to its end."""
    if isinstance(fs, LocalFileSystem):
        return open(path, "rb")
    opened: contextlib.AbstractContextManager[BinaryIO] = fs.open(
        path, "rb", block_size=_STORE_BLOCK, cache_type="readahead"
    )
    return opened


def _describe(error: Exception) -> str:
    """Name an error in a line."""
    return f"{type(error).__name__}: {error}"
