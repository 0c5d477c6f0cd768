"""The tally of a soak: counts, a table, one line of JSON."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.soak.commands import KILLS, Fault
from tests.soak.cycle import Outcome
from tests.soak.stages import STAGES, Stage

Where = tuple[str, str, Stage, Fault]
"""Mode, store, stage and kind of a fault."""


@dataclass
class Tally:
    """Counts of all cycles. Safe to use from several threads.

    Attributes:
        seed: What all randomness came from.
        struck: Faults by mode, store, stage and kind.
        cycles: Cycles that were finished and judged.
        commands: Commands started in them.
        lost: Rows lost, as `doubled` and `changed` for those.
        violations: What went wrong, in words.
    """

    seed: int
    struck: Counter[Where] = field(default_factory=Counter)
    cycles: int = 0
    commands: int = 0
    lost: int = 0
    doubled: int = 0
    changed: int = 0
    violations: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, mode: str, store: str, outcome: Outcome, name: str) -> None:
        """Add a finished cycle."""
        verdict = outcome.verdict
        with self._lock:
            for (stage, fault), count in outcome.struck.items():
                self.struck[mode, store, stage, fault] += count
            self.cycles += 1
            self.commands += outcome.commands
            self.lost += verdict.lost
            self.doubled += verdict.doubled
            self.changed += verdict.changed
            self.violations += [f"{name} ({mode}, {store}): {it}" for it in verdict.violations]

    def kills(self) -> int:
        """Return how many processes were killed."""
        with self._lock:
            return sum(count for (*_, fault), count in self.struck.items() if fault in KILLS)

    def seconds(self) -> float:
        """Return how long it has taken so far."""
        return time.monotonic() - self.started

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        kills = self.kills()
        return {
            "benchmark": "soak",
            "seed": self.seed,
            "kills": kills,
            "other_faults": self.struck.total() - kills,
            "cycles": self.cycles,
            "resumes": self.commands - self.cycles,
            "rows_lost": self.lost,
            "rows_doubled": self.doubled,
            "rows_changed": self.changed,
            "violations": self.violations,
            "seconds": round(self.seconds(), 1),
            "faults": [
                {"mode": mode, "store": store, "stage": stage, "kind": fault, "count": count}
                for (mode, store, stage, fault), count in sorted(self.struck.items())
            ],
        }

    def table(self) -> str:
        """Return the faults by mode, store and kind, with a column a stage."""
        rows = [["mode", "store", "fault", *STAGES, "all"]]
        for mode, store, fault in sorted({(m, s, f) for m, s, _, f in self.struck}):
            counts = [self.struck[mode, store, stage, fault] for stage in STAGES]
            rows.append([mode, store, fault, *map(str, counts), str(sum(counts))])
        for words, kinds in (("all kills", KILLS), ("all faults", tuple(Fault))):
            counts = [self._count(stage, kinds) for stage in STAGES]
            rows.append([words, "", "", *map(str, counts), str(sum(counts))])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column < 3 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _count(self, stage: Stage, kinds: tuple[Fault, ...]) -> int:
        return sum(
            n for (_, _, at, kind), n in self.struck.items() if at == stage and kind in kinds
        )
