"""Do something with many items at a time, in order, without holding them all."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bertscore_beam.files.paths import IO_THREADS

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAITING_PER_THREAD = 4
"""Items that wait for a thread: so many that no thread idles. Each takes about 2 kB."""


def in_parallel(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int = IO_THREADS
) -> Iterator[Result]:
    """Call a function with each item in several threads; yield the results in order.

    Unlike `Executor.map`, this takes items only a little ahead of the results: a hundred thousand
    of them would take hundreds of megabytes.

    Args:
        function: What to call. An error of it is raised in the place of its result.
        items: Its arguments.
        threads: How many calls are made at the same time. At least 1.
    """
    with ThreadPoolExecutor(threads) as pool:
        started: deque[Future[Result]] = deque()
        try:
            for item in items:
                started.append(pool.submit(function, item))
                if len(started) > threads * (1 + _WAITING_PER_THREAD):
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()
        finally:
            for future in started:
                future.cancel()
