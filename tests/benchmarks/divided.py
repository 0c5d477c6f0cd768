"""How long a fleet works after the ideal, by how many elements its work is divided into.

    python -m tests.benchmarks divided

A simulation: the machines of a fleet start one after the other and are not equally fast. Each takes
an element of the work when it has none. Ideal is work that can be divided at any moment.
"""

import heapq

import numpy as np

from tests.benchmarks.harness import Recorder

SPREAD = 0.1
"""How much slower and faster than the mean machines are, at most."""


ROW_SECONDS, DECODE_SECONDS = 1 / 1650, 1e-6
"""What a pair of roberta-large takes an L4, as predicted, and what it takes to decode its row."""


def behind(slots: int, each: int, minutes: float, start: float, group: int, seed: int) -> float:
    """Return how much later than ideal the work ends, as a share of the ideal time.

    Args:
        slots: Machines that work, each on an element at a time.
        each: Elements for each of them.
        minutes: What the work takes if all machines are there from the start.
        start: Minutes within which the machines start.
        group: Rows of a row group. An element that is a part of one decodes it from its start.
        seed: Of the starts and speeds of the machines.
    """
    choose = np.random.default_rng(seed)
    starts = choose.uniform(0, start, slots)
    speeds = choose.uniform(1 - SPREAD, 1 + SPREAD, slots)
    low, high = 0.0, start + 2 * minutes
    for _ in range(60):  # halves the interval in which the ideal end is
        middle = (low + high) / 2
        done = (speeds * np.clip(middle - starts, 0, None)).sum()
        low, high = (middle, high) if done < slots * minutes else (low, middle)
    rows = minutes * 60 / ROW_SECONDS / each
    free = [(since, number) for number, since in enumerate(starts)]
    heapq.heapify(free)
    last = 0.0
    for element in range(each * slots):
        since, number = heapq.heappop(free)
        before = element * rows % group if rows < group else 0.0
        works = (rows * ROW_SECONDS + before * DECODE_SECONDS) / 60
        end = since + works / speeds[number]
        last = max(last, end)
        heapq.heappush(free, (end, number))
    return last / high - 1


def divided(record: Recorder, slots: int = 960, minutes: float = 42.0, seeds: int = 5) -> None:
    """Simulate a fleet whose work is divided into 2, 4, 8 or 16 elements for each machine."""
    for start in (8.0, 25.0):
        for each in (2, 4, 8, 16):
            for group in (1 << 20, 10_000_000):
                found = [behind(slots, each, minutes, start, group, seed) for seed in range(seeds)]
                later = round(100 * float(np.mean(found)), 1)
                words = f"{each} elements, row groups of {group:,}, start within {start:.0f} min"
                record.add(what=words, later=later)
