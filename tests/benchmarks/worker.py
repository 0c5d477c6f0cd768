"""A process that scores on request, so that two libraries can be measured in turn.

Requests and replies are JSON lines over its standard input and output. Each library runs in the
environment it needs and keeps its model loaded between requests; its peak memory is its own.
This module works in both environments.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.benchmarks.texts import Pairs

ROOT = Path(__file__).resolve().parents[2]
PEER_PYTHON = ROOT / "build" / "golden-venv" / "bin" / "python"


class Worker:
    """The process of one library.

    Use it as a context manager; the process ends with it.
    """

    def __init__(self, module: str, python: str | Path = sys.executable, *, folder: Path) -> None:
        """Start the process.

        Args:
            module: Module to run: one that calls `serve`.
            python: Interpreter of its environment.
            folder: Folder it works in.
        """
        if not Path(python).exists():
            raise SystemExit(f"{python} is missing; make the reference's environment: make golden")
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        self._process = subprocess.Popen(
            [str(python), "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **offline, "PYTHONPATH": str(ROOT)},
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the reply.

        Raises:
            RuntimeError: the process failed, or answered with an error.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with status {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)


def serve(handlers: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Answer requests until the input ends; whatever else is printed goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = handlers[request.pop("do")](**request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        reply["peak_mb"] = peak_mb()
        print(json.dumps(reply), file=replies, flush=True)


@lru_cache(maxsize=4)
def read_pairs(path: str, start: int, stop: int | None) -> tuple[list[str], list[str]]:
    """Read candidates and references that `write_pairs` wrote; of them the rows asked for."""
    texts = json.loads(Path(path).read_text(encoding="utf-8"))
    return texts["candidates"][start:stop], texts["references"][start:stop]


def write_pairs(path: Path, pairs: Pairs) -> Path:
    """Write texts for the workers; return the absolute path."""
    content = {"candidates": pairs.candidates, "references": pairs.references}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path.resolve()


def peak_mb() -> float:
    """Return the highest resident memory of this process, in MB of 10^6 bytes.

    getrusage is no help: on Linux it starts from the peak of the process that started this one.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return 0.0
