"""One request to a web server for one whole file."""

import datetime
import email.utils
import http.client
import threading
import time
from collections.abc import Generator, Iterator

import requests
import urllib3

from pipelines.commoncrawl.fetch_attempt import AttemptError, describe

LONGEST_RETRY_AFTER = 600.0
"""Seconds a server may ask us to wait. More would only keep a worker from other files."""
REFUSED_FACTOR = 5.0
"""How many times the usual pause to wait after a 403: Common Crawl gives that answer to too many
requests, and goes on giving it for a while."""
SLOWEST = 1024.0
"""Bytes a second below which a transfer counts as stalled. A WET file would take 18 hours."""

_BLOCK = 1 << 20
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

# When each host may be asked next, by this process: threads share the politeness.
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
        timeout: Seconds to wait for a connection, and for the next byte.
        pause: Seconds between two requests to a host.
        user_agent: How the request signs itself.

    Raises:
        AttemptError: It did not arrive.
    """
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()
    _wait_for_turn(host, pause)
    # `identity`: the file is compressed already, and its length is what is compared.
    headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
    limits = (timeout, timeout)
    try:
        with (
            requests.Session() as session,
            session.get(url, headers=headers, stream=True, timeout=limits) as response,
        ):
            yield from _body(response, timeout)
    except _OUR_FAULT as error:
        raise AttemptError(describe(error), permanent=True) from error
    except _NETWORK as error:
        raise AttemptError(describe(error)) from error


def _body(response: requests.Response, timeout: float) -> Iterator[bytes]:
    """Yield the body of an answer as it came over the wire, never unpacked.

    Raises:
        AttemptError: The answer is no file, is shorter than it says, or comes too slowly.
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
        raise AttemptError(f"a body of {received} of {length} bytes")


def _length(response: requests.Response) -> int | None:
    """Return the length a body must have, None if it tells its end itself.

    Raises:
        AttemptError: It does neither, so that a cut would not be seen.
    """
    if "chunked" in response.headers.get("Transfer-Encoding", "").lower():
        return None
    value = response.headers.get("Content-Length", "").strip()
    if not (value.isascii() and value.isdigit()):
        raise AttemptError(
            "an answer without a Content-Length, so that nobody could tell whether it is whole",
            permanent=True,
        )
    return int(value)


def _refusal(response: requests.Response) -> AttemptError:
    """Say what a status other than 200 means for the next attempt."""
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
            AttemptError: It was below `SLOWEST`.
        """
        passed = time.monotonic() - self._start
        if passed < self._window:
            return
        speed = (received - self._received) / passed
        if speed < SLOWEST:
            raise AttemptError(f"a stalled transfer ({speed:.0f} bytes a second)")
        self._start, self._received = time.monotonic(), received


def _wait_for_turn(host: str, pause: float) -> None:
    """Wait until a host may be asked again, and take that turn."""
    with _turns:
        now = time.monotonic()
        turn = max(now, _next_turn.get(host, now))
        _next_turn[host] = turn + pause
    time.sleep(turn - now)
