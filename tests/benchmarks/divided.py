"""How long a fleet works after the ideal, by how many elements its work is divided into.

    python -m tests.benchmarks divided

A simulation: the machines of a fleet start one after the other and are not equally fast. Each takes
an element of the work when it has none, and may take half of what is left of another one's. Ideal
is work that can be divided at any moment.
"""

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.benchmarks.harness import Recorder

SPREAD = 0.1
"""How much slower and faster than the mean machines are, at most."""

ROW_SECONDS, DECODE_SECONDS = 1 / 1650, 1e-6
"""What a pair of roberta-large takes an L4, as predicted, and what it takes to decode its row."""
SPLIT_ROWS = 20_000
"""Rows of a split: a running element can be cut between its splits only."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Machines that work, each on an element at a time.

    Attributes:
        starts: When each of them starts, in minutes.
        speeds: How fast each one is; 1 on average.
        rows: Rows of the work for each machine.
        group: Rows of a row group. An element that is a part of one decodes it from its start.
    """

    starts: npt.NDArray[np.float64]
    speeds: npt.NDArray[np.float64]
    rows: float
    group: int

    @classmethod
    def of(cls, slots: int, minutes: float, start: float, group: int, seed: int) -> "Fleet":
        """Choose machines that start within `start` minutes, for work of so many minutes."""
        choose = np.random.default_rng(seed)
        starts = choose.uniform(0, start, slots)
        speeds = choose.uniform(1 - SPREAD, 1 + SPREAD, slots)
        return cls(starts, speeds, minutes * 60 / ROW_SECONDS, group)

    @property
    def ideal(self) -> float:
        """When work ends that can be divided at any moment, in minutes."""
        minutes = self.rows * ROW_SECONDS / 60
        low, high = 0.0, self.starts.max() + 2 * minutes
        for _ in range(60):  # halves the interval in which the end is
            middle = (low + high) / 2
            done = (self.speeds * np.clip(middle - self.starts, 0, None)).sum()
            low, high = (middle, high) if done < len(self.starts) * minutes else (low, middle)
        return high

    def minutes(self, slot: int, rows: float, seconds: float = ROW_SECONDS) -> float:
        """Return what rows take a machine."""
        return rows * seconds / 60 / float(self.speeds[slot])

    def decoding(self, slot: int, first: float, rows: float) -> float:
        """Return what it takes to decode the rows before an element in its row group."""
        before = first % self.group if rows < self.group or first % self.group else 0.0
        return self.minutes(slot, before, DECODE_SECONDS)


def last_end(fleet: Fleet, each: int, wait: float | None = None) -> float:
    """Return when the work ends, in minutes.

    Args:
        fleet: The machines.
        each: Elements for each of them at the start.
        wait: Minutes until a machine without an element gets the second half of what is left of
            the one that would end last, as Dataflow divides a splittable element; None if none can
            be divided.
    """
    rows = fleet.rows / each
    waiting = [(number * rows, (number + 1) * rows) for number in range(each * len(fleet.starts))]
    waiting.reverse()
    running: dict[int, tuple[float, float, float, float]] = {}  # (since, first row, stop, end)
    idle = [(float(since), slot) for slot, since in enumerate(fleet.starts)]
    heapq.heapify(idle)
    last = 0.0

    def begin(slot: int, now: float, first: float, stop: float) -> None:
        since = now + fleet.decoding(slot, first, stop - first)
        running[slot] = since, first, stop, since + fleet.minutes(slot, stop - first)
        heapq.heappush(idle, (running[slot][3], slot))

    while idle:
        now, slot = heapq.heappop(idle)
        if slot in running and running[slot][3] > now:
            continue  # it was cut, or has begun another one, since
        if running.pop(slot, None) is not None:
            last = max(last, now)
        if waiting:
            begin(slot, now, *waiting.pop())
        elif wait is not None and running:
            other = max(running, key=lambda one: running[one][3])
            since, first, stop, end = running[other]
            done = max(0.0, now + wait - since) / (end - since) * (stop - first)
            free = first + (done // SPLIT_ROWS + 1) * SPLIT_ROWS  # after the split at work
            if (splits := int((stop - free) // SPLIT_ROWS)) < 1:
                continue
            cut = free + splits // 2 * SPLIT_ROWS
            running[other] = since, first, cut, since + fleet.minutes(other, cut - first)
            heapq.heappush(idle, (running[other][3], other))
            begin(slot, now + wait, cut, stop)
    return last


def divided(record: Recorder, slots: int = 960, minutes: float = 42.0, seeds: int = 5) -> None:
    """Simulate a fleet with some elements for each machine, or with elements that are cut."""
    ways = [(f"{each} elements", each, None) for each in (2, 4, 8, 16, 32)]
    ways += [(f"2 that are cut within {wait:g} min", 2, wait) for wait in (0.0, 0.5, 2.0)]
    for start in (8.0, 25.0):
        for words, each, wait in ways:
            for group in (1 << 20, 10_000_000):
                fleets = [Fleet.of(slots, minutes, start, group, seed) for seed in range(seeds)]
                found = [last_end(fleet, each, wait) / fleet.ideal - 1 for fleet in fleets]
                what = f"{words}, row groups of {group:,}, start within {start:.0f} min"
                record.add(what=what, later=round(100 * float(np.mean(found)), 1))
