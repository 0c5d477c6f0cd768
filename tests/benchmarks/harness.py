"""What all benchmarks share: results as JSON lines, interleaved rounds, costs of commands.

A result is one JSON line on standard output, appended to a file when `--out` names one, and one
short line for people on standard error.
"""

import inspect
import json
import os
import platform
import re
import subprocess
import sys
import time
import traceback
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import IO, Any

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
        heads: Attention heads, which add nothing to useful work.
    """

    layers: int
    hidden: int
    inner: int
    heads: int = 1

    @property
    def linear(self) -> int:
        """Operations of a token in the linear layers of one layer: two for every weight."""
        return 2 * (4 * self.hidden**2 + 2 * self.hidden * self.inner)

    def flops(self, lengths: Iterable[int]) -> int:
        """Count the useful floating-point operations of encoding texts of these lengths.

        A token takes two operations for every weight of the linear layers, 4 H^2 of attention and
        2 H I of feed-forward; S tokens that attend to each other take 2 S^2 H for the scores and as
        many for the sums. Padding, embeddings, norms, activations and matching are not counted.
        """
        tokens = np.asarray(list(lengths), dtype=np.int64)
        attention = 4 * self.hidden * int((tokens**2).sum())
        return self.layers * (self.linear * int(tokens.sum()) + attention)


PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
"""What a line may say of what is demanded: it holds, it does not, or nobody could look."""


@dataclass
class Recorder:
    """Prints the results of one benchmark, and keeps them.

    Attributes:
        benchmark: Name that stands in every line.
        out: File the lines are appended to, or None.
        facts: About the machine; `add` puts them into every line.
        lines: All so far, without them.
    """

    benchmark: str
    out: Path | None = None
    facts: dict[str, Any] = field(default_factory=lambda: dict(machine()))
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        *,
        what: str,
        n: int | None = None,
        model: str = "-",
        seconds: Sequence[float] = (),
        **more: Any,
    ) -> None:
        """Record one result.

        Args:
            what: What was measured.
            n: How many pairs, or other units.
            model: Name of the model.
            seconds: One value a round; their median stands in the line too.
            **more: Further fields; None for one that the line does not have.
        """
        line = {"benchmark": self.benchmark, "model": model, "what": what, "n": n}
        if seconds:
            line |= {"seconds": median(seconds), "all_seconds": list(seconds)}
        line = {name: _short(value) for name, value in (line | more).items() if value is not None}
        self.lines.append(line)
        text = json.dumps({**line, "machine": self.facts}, default=str)
        print(text, flush=True)
        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with self.out.open("a", encoding="utf-8") as lines:
                lines.write(text + "\n")
        print(in_words(line), file=sys.stderr)

    def race(
        self, taken: Mapping[str, Sequence[float]], n: int, more: Mapping[str, Any], **each: Any
    ) -> None:
        """Record the seconds of some variants, with the ratio to the first, and `more` of one."""
        base = median(next(iter(taken.values())))
        for what, seconds in taken.items():
            rates = {"ratio": base / median(seconds), "pairs_per_second": n / median(seconds)}
            self.add(what=what, n=n, seconds=seconds, **rates, **each, **more.get(what, {}))

    def check(self, what: str, passed: bool, why: str | None = None, **figures: Any) -> None:
        """Record something that is demanded."""
        self.add(what=what, status=PASS if passed else FAIL, why=why, **figures)

    def skip(self, what: str, why: str = "no CUDA device was asked for") -> None:
        """Record what could not be looked at."""
        self.add(what=what, status=SKIP, why=why)

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Turn an error in the body into a failure, so that what follows is still looked at."""
        try:
            yield
        except Exception as error:  # whatever a device or a library raises
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0][:300]
            self.check(what, passed=False, why=f"{type(error).__name__}: {first}")


def in_words(line: Mapping[str, Any]) -> str:
    """Say a result in a line for people."""
    said = [str(line[name]) for name in ("status", "what", "why") if name in line]
    left_out = ("benchmark", "what", "status", "why", "all_seconds", "machine")
    figures = [(name, value) for name, value in line.items() if name not in left_out]
    return "  ".join([*said, *(f"{name}={value}" for name, value in figures if value != "-")])


def verdict(lines: Sequence[Mapping[str, Any]]) -> str:
    """Say how a benchmark went: it fails with any failure, and passes if anything was seen."""
    statuses = {line.get("status", PASS) for line in lines}
    return next((status for status in (FAIL, PASS) if status in statuses), SKIP)


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


def run_command(words: Iterable[object], stdout: IO[str] | None = None) -> dict[str, Any]:
    """Run a command of `bertscore-beam` that must end well, and keep what it prints in a file.

    Returns:
        Its seconds, the processor's seconds of all its processes, and the most memory that itself
        and its largest worker held, looked at ten times a second.
    """
    started, before, own, worker = time.perf_counter(), os.times(), 0.0, 0.0
    command = [sys.executable, "-m", "bertscore_beam", *map(str, words)]
    process = subprocess.Popen(command, stdout=stdout or subprocess.DEVNULL)
    while process.poll() is None:
        own = max(own, peak_mb(process.pid))
        worker = max([worker, *map(peak_mb, descendants(process.pid))])
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    after = os.times()
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": sum(after[2:4]) - sum(before[2:4]),  # of children that have ended
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
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES if find_spec(name.replace("-", "_"))},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # builds of torch and triton have other names
        return "unknown"


def _processor() -> str:
    """Name the processor, and what it can do with many numbers at once."""
    said = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.*)", said)
    wide = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {flag}" in said]
    return " ".join([name[1] if name else platform.machine(), *wide])


def _short(value: Any) -> Any:
    """Keep six significant digits of a number, or of each in a list."""
    if isinstance(value, list):
        return [_short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
