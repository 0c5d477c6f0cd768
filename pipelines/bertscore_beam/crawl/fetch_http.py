"""One request to a web server for one whole file."""

import datetime
import email.utils
import http.client
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from urllib.parse import urlsplit

import requests
import urllib3

from bertscore_beam.crawl.errors import AttemptError, describe
from bertscore_beam.crawl.fetch_watch import Watch

LONGEST_RETRY_AFTER = 600.0
"""Seconds that a server may ask us to wait. A longer wait would keep a worker from other files."""
REFUSED_FACTOR = 5.0
"""Factor of the usual pause after a 403: Common Crawl answers so to too many requests, and keeps
doing so for a while."""

_BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"
# A page of a proxy or a portal begins so, after a byte order mark and blanks.
_PAGE_STARTS = (b"<!doctype html", b"<html", b"<head", b"<?xml", b"<!--")
_START_BYTES = 64
# Temporary errors of servers and of proxies in front of them. 403: see REFUSED_FACTOR.
_RETRIED = frozenset({403, 408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
# Errors of the address, which a second attempt does not cure.
_OUR_FAULT = (
    requests.exceptions.InvalidHeader,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.TooManyRedirects,
)
_NETWORK = (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException)

# When this process may ask each host next: all its threads share the pause.
_next_turn: dict[str, float] = {}
_turns = threading.Lock()


def is_http(path: str) -> bool:
    """Tell whether a path is a web address."""
    return path.lower().startswith(("http://", "https://"))


def http_blocks(
    url: str, *, timeout: float, pause: float, user_agent: str
) -> Generator[bytes, None, None]:
    """Ask a web server for a file once and yield it in blocks.

    Args:
        url: Its address.
        timeout: Seconds to wait for a connection and for the next byte. The head of the answer has
            twice as long; see `Watch`.
        pause: Seconds between two requests to a host.
        user_agent: User agent of the request.

    Raises:
        AttemptError: It did not arrive, or a page came in its place.
    """
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()
    _wait_for_turn(host, pause)
    # `identity`: the file itself is compressed, and its length is what we compare.
    headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
    limits = (timeout, timeout)
    with Watch(timeout) as watch:
        try:
            with (
                watch.session() as session,
                session.get(url, headers=headers, stream=True, timeout=limits) as response,
            ):
                yield from _unless_page(_body(response, watch), url)
        except (*_NETWORK, AttemptError) as error:
            if watch.problem is not None:
                raise AttemptError(watch.problem) from error
            if isinstance(error, AttemptError):
                raise
            raise AttemptError(describe(error), permanent=isinstance(error, _OUR_FAULT)) from error


def _body(response: requests.Response, watch: Watch) -> Iterator[bytes]:
    """Yield the body of an answer as it is transferred, never decompressed.

    Raises:
        AttemptError: The answer is not a file, or is shorter than announced.
    """
    if response.status_code != 200:
        raise _refusal(response)
    length = _length(response)
    received = 0
    watch.received(0)
    # `read1` reads the socket once. `read` would wait for a whole block, however slowly it comes,
    # and the watch would see no progress.
    while block := response.raw.read1(_BLOCK, decode_content=False):
        received += len(block)
        watch.received(received)
        yield block
    if length is not None and received != length:
        raise AttemptError(f"a body of {received} of {length} bytes")


def _unless_page(blocks: Iterable[bytes], url: str) -> Iterator[bytes]:
    """Pass on the blocks of a file, unless they begin like something else.

    Proxies and overloaded servers answer with a page and the status 200. A later attempt may get
    the file.

    Raises:
        AttemptError: A web page came, or something that is not gzip under a name that ends in .gz.
    """
    blocks = iter(blocks)
    start = b""
    for block in blocks:
        start += block
        if len(start) >= _START_BYTES:
            break
    shown = start[:_START_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if shown.startswith(_PAGE_STARTS):
        raise AttemptError("200 with a web page in place of the file")
    if start and urlsplit(url).path.endswith(".gz") and not start.startswith(_GZIP):
        raise AttemptError("200 with something that is not gzip in place of the file")
    yield from chain([start], blocks)


def _length(response: requests.Response) -> int | None:
    """Return the length that a body must have, None if its end is marked in another way.

    Raises:
        AttemptError: There is neither, so that a cut would not be noticed.
    """
    if "chunked" in response.headers.get("Transfer-Encoding", "").lower():
        return None
    value = response.headers.get("Content-Length", "").strip()
    if not (value.isascii() and value.isdigit()):
        raise AttemptError(
            "an answer without a Content-Length, so that nobody can tell whether it is whole",
            permanent=True,
        )
    return int(value)


def _refusal(response: requests.Response) -> AttemptError:
    """Return the error for a status other than 200, with what it means for the next attempt."""
    status = response.status_code
    problem = f"{status} {response.reason}"
    if status not in _RETRIED:
        return AttemptError(problem, permanent=True, missing=status in (404, 410))
    asked = _retry_after(response.headers.get("Retry-After", ""))
    if asked > LONGEST_RETRY_AFTER:
        problem += (
            f" and Retry-After {asked:.0f} s (more than the {LONGEST_RETRY_AFTER:.0f} s "
            "we would wait)"
        )
    return AttemptError(problem, wait=asked, factor=REFUSED_FACTOR if status == 403 else 1.0)


def _retry_after(value: str) -> float:
    """Return the seconds that a Retry-After header asks for; 0 if it is malformed."""
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


def _wait_for_turn(host: str, pause: float) -> None:
    """Wait until this host may be asked again."""
    with _turns:
        now = time.monotonic()
        turn = max(now, _next_turn.get(host, now))
        _next_turn[host] = turn + pause
    time.sleep(turn - now)
