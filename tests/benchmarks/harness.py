"""What all benchmarks share: results as JSON lines, interleaved rounds, counting of useful work.

A result is one JSON line on standard output, appended to a file when `--out` names one, and one
short line for people on standard error.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

BUILD = Path("build/bench")
"""Where texts, dumps and results go, below the repository root."""

PACKAGES = ("torch", "transformers", "openvino", "bert-score", "triton")


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that decide how much an encoder computes.

    Attributes:
        layers: Layers computed.
        hidden: Length of an embedding, H.
        inner: Length between the two products of a feed-forward block, I.
    """

    layers: int
    hidden: int
    inner: int

    def flops(self, lengths: Iterable[int]) -> int:
        """Count the useful floating-point operations of encoding texts of these lengths.

        A token takes two operations for every weight of the linear layers, 4 H^2 of attention and
        2 H I of feed-forward; S tokens that attend to each other take 2 S^2 H for the scores and as
        many for the sums. Padding, embeddings, norms, activations and matching are not counted.
        """
        tokens = np.asarray(list(lengths), dtype=np.int64)
        linear = 2 * (4 * self.hidden**2 + 2 * self.hidden * self.inner) * int(tokens.sum())
        attention = 4 * self.hidden * int((tokens**2).sum())
        return self.layers * (linear + attention)


@dataclass
class Recorder:
    """Prints the results of one benchmark, and keeps them.

    Attributes:
        benchmark: Name that stands in every line.
        out: File the lines are appended to, or None.
        facts: About the machine; `add` puts them into every line.
    """

    benchmark: str
    out: Path | None = None
    facts: dict[str, Any] = field(default_factory=lambda: dict(machine()))
    results: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        *,
        model: str,
        what: str,
        n: int,
        seconds: Sequence[float],
        ratio: float | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Record one result.

        Args:
            model: Name of the model, or `-`.
            what: What was measured.
            n: How many pairs, or other units.
            seconds: One value a round; their median stands in the line too.
            ratio: How many times as fast as what the benchmark compares with.
            **more: Further fields.
        """
        line = {"benchmark": self.benchmark, "model": model, "what": what, "n": n}
        if seconds:
            line["seconds"] = _short(median(seconds))
            line["all_seconds"] = [_short(value) for value in seconds]
        if ratio is not None:
            line["ratio"] = _short(ratio)
        line |= {name: _short(value) for name, value in more.items() if value is not None}
        text = json.dumps({**line, "machine": self.facts})
        print(text, flush=True)
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with self.out.open("a", encoding="utf-8") as lines:
                lines.write(text + "\n")
        shown = {name: value for name, value in line.items() if name != "all_seconds"}
        print("  ".join(f"{name}={value}" for name, value in shown.items()), file=sys.stderr)
        self.results.append(line)
        return line


def interleave(variants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every variant once a round, so that a change of the machine's speed meets all alike.

    Args:
        variants: What to run, by name; each returns the seconds it took.
        rounds: How often.

    Returns:
        The seconds of every round, by name.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds):
        for name, run in variants.items():
            started = time.perf_counter()
            seconds[name].append(run())
            wall = time.perf_counter() - started
            print(f"round {number + 1}/{rounds} {name}: {wall:.1f} s", file=sys.stderr)
    return seconds


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the flag that every benchmark has."""
    parser.add_argument("--out", type=Path, help="append the JSON lines to this file too")


@cache
def machine() -> Mapping[str, Any]:
    """Say what this machine is and which versions run on it."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := version_of(name)) is not None},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def version_of(package: str) -> str | None:
    """Return the version of an installed package, None when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    flags = set(named.get("flags", "").split())
    wide = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    return " ".join([named.get("model name", platform.machine()), *wide])


def _short(value: Any) -> Any:
    """Keep six significant digits of a number."""
    return float(f"{value:.6g}") if isinstance(value, float) else value
