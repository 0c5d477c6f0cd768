"""Fetch one file of a crawl to this machine, whole or not at all.

Over HTTP a file is one plain request for all of it, as Common Crawl asks of its users. fsspec's
HTTP file system would send many range requests, for which clients get blocked. Other stores are
read through fsspec. What arrives is compared with the announced size, since a file that was cut off
between two gzip members looks whole to every reader.
"""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bertscore_beam.crawl.errors import AttemptError
from bertscore_beam.crawl.fetch_http import LONGEST_RETRY_AFTER, http_blocks, is_http
from bertscore_beam.crawl.fetch_store import local_file, store_blocks
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import TEMPORARY_PREFIX
from bertscore_core.errors import BertScoreError, ConfigError

USER_AGENT = f"bertscore-beam/{version('bertscore-beam')} (computes BERTScore baselines)"
"""User agent of the requests. Common Crawl asks tools to identify themselves; users of the job can
add a contact."""

LONGEST_PAUSE = 120.0
"""Seconds between two attempts at most, unless the server asks for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPolicy:
    """How hard to try, and how politely.

    Attributes:
        attempts: Requests for one file at most. Six with doubling pauses last about half a minute,
            with those after a 403 or a Retry-After some minutes.
        timeout: Seconds to wait for a connection, and for the next byte.
        pause: Seconds between two requests to a host, and before the second attempt; later ones
            wait twice as long each. Common Crawl asks for no more than one request a second.
        user_agent: User agent of the requests.

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
            contact: Where the owner of a server can write to: a mail address or URL, in ASCII.

        Raises:
            ConfigError: It cannot be put into a header.
        """
        return cls(user_agent=f"{USER_AGENT[:-1]}; {contact})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file that has arrived.

    Attributes:
        path: Where it was fetched from, as given.
        file: The local copy, or the file itself if it is local.
        num_bytes: Its size in bytes.
        sha256: Digest of its content, in hex.
        attempts: Number of requests for it.
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
        attempts: Number of requests for it.
        permanent: Whether a retry is useless.
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


@contextlib.contextmanager
def fetched(path: str, policy: FetchPolicy, folder: str | None = None) -> Iterator[Fetched]:
    """Fetch a file, and delete the copy afterwards.

    What arrives has the length that the server or store announced; a body without a length must end
    as HTTP prescribes. A local file is not copied, only read once for its digest. Its length cannot
    be checked: if it was cut off between two gzip members when it was made, it looks whole.

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
    local = None if is_http(path) else local_file(path)
    if local is not None:
        yield _try_to_fetch(path, policy, None, local)
        return
    with _temporary_file(folder) as copy:
        yield _try_to_fetch(path, policy, copy, copy)


@contextlib.contextmanager
def _temporary_file(folder: str | None) -> Iterator[Path]:
    """Yield an empty file, and delete it afterwards."""
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
    """Make as many attempts as the policy allows.

    Args:
        path: What to fetch.
        policy: How hard to try.
        copy: Where to write it; None only to read it.
        file: Where it is in the end.

    Raises:
        FetchError: No attempt succeeded.
    """
    retries: list[str] = []
    attempt = 0
    while True:
        attempt += 1
        try:
            with contextlib.closing(_blocks(path, policy)) as blocks:
                num_bytes, digest = _save(blocks, copy)
        except AttemptError as error:
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


def _blocks(path: str, policy: FetchPolicy) -> Generator[bytes, None, None]:
    """Return the blocks of one attempt."""
    if not is_http(path):
        return store_blocks(path)
    return http_blocks(
        path, timeout=policy.timeout, pause=policy.pause, user_agent=policy.user_agent
    )


def _give_up(path: str, attempt: int, error: AttemptError) -> FetchError:
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

    Files that failed together must not be retried together. A hash does for that what a random
    number would do, and it is the same in every run.
    """
    digest = hashlib.blake2b(f"{attempt}\0{path}".encode("utf-8", "replace"), digest_size=4)
    jitter = int.from_bytes(digest.digest()) / 2**32
    # The exponent is bounded so that the power cannot overflow.
    return min(LONGEST_PAUSE, pause * 2.0 ** min(attempt - 1, 64) * (1 + jitter / 2))


def _save(blocks: Iterator[bytes], copy: Path | None) -> tuple[int, str]:
    """Write the blocks, over what an earlier attempt left; return their size and digest."""
    digest = hashlib.sha256()
    num_bytes = 0
    with contextlib.nullcontext() if copy is None else open(copy, "wb") as file:
        for block in blocks:
            digest.update(block)
            num_bytes += len(block)
            if file is not None:
                file.write(block)
    return num_bytes, digest.hexdigest()
