"""What all benchmarks share: results as JSON lines, interleaved rounds, costs of commands.

A result is one JSON line on standard output, appended to a file when `--out` names one, and one
short line for people on standard error.
"""

import inspect
import json
import os
import platform
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.support.processes import descendants

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

    def add(
        self,
        *,
        what: str,
        n: int,
        model: str = "-",
        seconds: Sequence[float] = (),
        ratio: float | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Record one result.

        Args:
            what: What was measured.
            n: How many pairs, or other units.
            model: Name of the model.
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
        return line

    def command(self, what: str, n: int, words: Iterable[object], **more: Any) -> dict[str, Any]:
        """Run a command of `bertscore-beam` alone, and record what it cost and `more`."""
        cost = run_command(words)
        seconds = cost.pop("seconds")
        return self.add(
            what=what, n=n, seconds=[seconds], pairs_per_second=n / seconds, **cost, **more
        )


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


def run_command(words: Iterable[object]) -> dict[str, float]:
    """Run a command of `bertscore-beam` that must end well.

    Returns:
        Its seconds, the processor's seconds of all its processes, and the most memory that itself
        and its largest worker held, looked at ten times a second.
    """
    started, before, own, worker = time.perf_counter(), children_seconds(), 0.0, 0.0
    command = [sys.executable, "-m", "bertscore_beam", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        own = max(own, peak_mb(process.pid))
        worker = max([worker, *map(peak_mb, descendants(process.pid))])
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": children_seconds() - before,
        "own_peak_mb": own,
        "worker_peak_mb": worker,
    }


def peak_mb(process: int | str = "self") -> float:
    """Return the highest resident memory of a process in MB of 10^6 bytes, 0 when it is gone.

    getrusage is no help: on Linux it starts from the peak of the process that started this one.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    words = status.partition("VmHWM:")[2].split()
    return round(int(words[0]) * 1024 / 1e6, 1) if words else 0.0


def children_seconds() -> float:
    """Return the processor's seconds of all child processes that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_case(case: Callable[..., None], words: Sequence[str]) -> None:
    """Run a benchmark with flags: the parameters behind its recorder, of their defaults' types."""
    parser = ArgumentParser(
        prog=f"python -m tests.benchmarks {case.__name__}",
        description=inspect.getdoc(case),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="append the JSON lines to this file too")
    for name, parameter in list(inspect.signature(case).parameters.items())[1:]:
        default, flag = parameter.default, f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, tuple):
            kind = type(default[0]) if default else str
            parser.add_argument(flag, nargs="*", type=kind, default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    given = vars(parser.parse_args(words))
    case(Recorder(case.__name__, given.pop("out")), **given)


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
