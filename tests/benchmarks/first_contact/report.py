"""What the parts of first contact find: one line for people and one JSON line for each finding."""

import json
import math
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PASS, FAIL, SKIP, NOTE = "PASS", "FAIL", "SKIP", "NOTE"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a part has looked at.

    Attributes:
        part: Name of the part.
        what: What was looked at.
        status: `PASS` or `FAIL`, `SKIP` if it could not be looked at, or `NOTE` for a measurement
            that nothing is demanded of.
        why: What was found against what was expected, or why it was skipped.
        figures: Numbers, by name.
    """

    part: str
    what: str
    status: str
    why: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """Say it in one line."""
        figures = "  ".join(f"{name}={_shown(value)}" for name, value in self.figures.items())
        return "  ".join(
            text for text in (f"{self.status:4} {self.what}", self.why, figures) if text
        )


@dataclass(slots=True)
class Checks:
    """Takes the findings of a part, prints them and appends them to a file at once.

    Attributes:
        part: Name of the part.
        out: File for the JSON lines, or None.
        findings: All so far.
    """

    part: str
    out: Path | None = None
    findings: list[Finding] = field(default_factory=list)

    def check(self, what: str, passed: bool, why: str = "", **figures: Any) -> bool:
        """Record something that is demanded; return whether it holds."""
        self._add(Finding(self.part, what, PASS if passed else FAIL, why, figures))
        return bool(passed)

    def note(self, what: str, **figures: Any) -> None:
        """Record a measurement that nothing is demanded of."""
        self._add(Finding(self.part, what, NOTE, "", figures))

    def skip(self, what: str, why: str) -> None:
        """Record what could not be looked at."""
        self._add(Finding(self.part, what, SKIP, why))

    def without_gpu(self, what: str) -> None:
        """Record what can be looked at on a GPU only."""
        self.skip(what, "no CUDA device was asked for")

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Turn an error in the body into a failure, so that what follows is still looked at."""
        try:
            yield
        except Exception as error:  # whatever a device or a library raises
            traceback.print_exc()
            self.check(what, passed=False, why=f"{type(error).__name__}: {first_line(error)}")

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        print(f"  {finding.line()}", flush=True)
        if self.out is not None:
            with self.out.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(finding), default=str) + "\n")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [""])[0][:300]


def verdict(findings: list[Finding]) -> str:
    """Return the status of a part: it fails with any failure, and passes if anything was seen."""
    statuses = {finding.status for finding in findings}
    if FAIL in statuses:
        return FAIL
    return PASS if statuses & {PASS, NOTE} else SKIP


def read_findings(path: Path) -> list[Finding]:
    """Read what a part has recorded, as far as it came."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Finding(**json.loads(line)) for line in lines]


def conclusion(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of the rates, and sentences for the docs; "" if none was measured.

    Args:
        parts: What `first_contact.json` holds of each part.
    """
    measured = {
        found["what"]: found["figures"]
        for name in ("rates", "compiled")
        for found in parts.get(name, {}).get("findings", [])
        if "tokens_per_second" in found["figures"]
    }
    if not measured:
        return ""
    lines = [f"{'':34} {'tokens/s':>10} {'predicted':>10} {'reached':>8} {'of product limit':>17}"]
    for what, figures in measured.items():
        rate, predicted = figures["tokens_per_second"], figures.get("predicted")
        reached, share = "", figures.get("share_of_peak")
        if predicted:
            reached = f"{rate / predicted:.0%}"
        lines.append(
            f"{what:34} {rate:10,.0f} {predicted or 0:10,.0f} {reached:>8} "
            f"{'' if share is None else f'{share:.0%}':>17}"
        )
    card = next(
        (
            found["figures"]["name"]
            for found in parts.get("card", {}).get("findings", [])
            if "name" in found["figures"]
        ),
        "this machine",
    )
    lines += [
        f"On {card}, {what}: {figures['pairs_per_second']:,.0f} pairs a second, "
        f"{figures['share_of_peak']:.0%} of the limit that its products have "
        f"(measured; predicted {figures['predicted'] / figures['tokens_per_second']:.2f} times it)."
        for what, figures in measured.items()
        if "pairs_per_second" in figures
    ]
    return "\n".join(lines)


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Give a list that holds the seconds of the body when that has ended."""
    taken: list[float] = []
    started = time.perf_counter()
    try:
        yield taken
    finally:
        taken.append(time.perf_counter() - started)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    return value
