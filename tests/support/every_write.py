"""Cut off a run at each of its writes and deletions, give the same command again, compare the end.

`python -m tests.support.every_write FOLDER EVERY [KIND ...]` prints what it found as JSON. It
is a process of its own, since it forks: what takes seconds to import is imported once for all runs,
and a run that dies takes nothing with it but itself.
"""

import gc
import gzip
import io
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from bertscore_beam.cli import main as cli
from bertscore_beam.dump import INPUT_FOLDER
from bertscore_beam.run import (
    BEAT_FILE,
    LOCK_FILE,
    MANIFEST_FOLDER,
    OutputFolder,
    lock as locks,
    successful_run,
)
from tests.support.faulty_disk import WAYS, Fault, faulty_disk
from tests.support.quick_beam import remember
from tests.support.small_runs import SmallRun, Words, looked_up, small_runs

TIMED = ("seconds", "started", "pairs_per_second")
"""Ends of the names of fields of JSON that hold clocks, at any depth."""

OF_A_RUN = ("run", "parts_of_earlier_runs", "replaced")
"""Fields of JSON that tell one run from another, at any depth."""

State = dict[str, Any]
"""The content of each file of a folder, by its path, without clocks."""

_NO_RESULTS = (MANIFEST_FOLDER, INPUT_FOLDER)

_SECONDS = 120
"""After which a run counts as one that hangs."""


def _faults(changes: int, every: int) -> Iterator[Fault]:
    """Yield what goes wrong: each change in each way, or every so many in the ways by turns."""
    for turn, at in enumerate(range(1, changes + 1, every)):
        for way in WAYS if every == 1 else WAYS[turn % len(WAYS) :][:1]:
            yield Fault(at=at, way=way)


def state_of(folder: Path) -> State:
    """Return what is in a folder."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if name.endswith(".jsonl.gz"):  # the name counts how often records were packed
            lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
            found |= {f"record of {line['part_name']}": _timeless(line) for line in lines}
        elif path.suffix == ".json" or path.name == "_SUCCESS":
            found[name] = _timeless(json.loads(path.read_bytes()))
        elif path.suffix == ".npz" and "scores" in path.parts:
            with np.load(io.BytesIO(path.read_bytes())) as arrays:
                found[name] = {
                    key: arrays[key].tobytes() for key in arrays if not key.endswith(TIMED)
                }
        else:
            found[name] = path.read_bytes()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        names = [name for name in value if not name.endswith(TIMED) and name not in OF_A_RUN]
        return {name: _timeless(value[name]) for name in names}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def results_of(state: State) -> State:
    """Return what is no bookkeeping: parts with their records, tables, and what is said of them."""
    return {
        name: content
        for name, content in state.items()
        if not any(part in _NO_RESULTS or part.startswith(".") for part in name.split("/"))
    }


def _without_lock(state: State) -> State:
    """Leave out a lock: one that stays behind keeps nobody out."""
    return {
        name: content
        for name, content in state.items()
        if not name.endswith(LOCK_FILE) and BEAT_FILE not in name
    }


def differences(found: State, expected: State) -> str:
    """Name the files that differ; "" for none."""
    words = []
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            words.append(f"{name} is missing")
        elif name not in expected:
            words.append(f"{name} is left")
        elif found[name] != expected[name]:
            words.append(f"{name} differs{_fields(found[name], expected[name])}")
    return "; ".join(words)


def _fields(found: Any, expected: Any) -> str:
    """Name the fields of JSON that differ."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return ""
    names = sorted(found.keys() | expected.keys())
    return f" in {[name for name in names if found.get(name) != expected.get(name)]}"


class Workshop:
    """Runs small runs in forks of this process, on a local disk."""

    def __init__(self, root: Path) -> None:
        self.out, self._log, self._told = root / "out", root / "log", root / "told"
        self._begin = root / "begin"
        before, self.runs = small_runs(root, str(self.out))
        self._done(before)

    def try_every(self, run: SmallRun, every: int) -> dict[str, Any]:
        """Cut a run off at every so many of its changes; in each way, or by turns.

        Returns:
            How many writes and deletions there are in a run that nothing befalls (`changes`), how
            many runs went wrong somewhere (`cuts`), how these ended, and how often (`statuses`),
            what is wrong with them, or with what the same command made of them (`problems`), and
            how long all of them took (`seconds`).
        """
        started = time.monotonic()
        self._warm_up(run.words)
        self._prepare(run)
        self._done(run.words)
        changes = json.loads(self._told.read_text())["changes"]
        first, whole = state_of(self._begin), state_of(self.out)
        statuses: Counter[int] = Counter()
        problems = []
        for fault in _faults(changes, every):
            self._begin_again()
            status = self._run(run.words, fault)
            happened = json.loads(self._told.read_text())["happened"]
            problem = "" if happened else "it was not reached"
            problem = problem or self._claims(status, first, whole) or self._again(run, whole)
            if problem:
                where = f"{fault.at} {fault.way} {happened}"
                problems.append(f"{where}: status {status}, {problem}")
            statuses[status] += 1
        shutil.rmtree(self.out)
        seconds = round(time.monotonic() - started, 1)
        found = {"changes": changes, "cuts": statuses.total(), "statuses": statuses}
        return {**found, "problems": problems, "seconds": seconds}

    def _warm_up(self, words: Words) -> None:
        """Run a command here: what it imports and makes once a process is there in all forks."""
        with redirect_stdout(io.StringIO()):
            cli.main(words)
        while threading.active_count() > 1:  # a thread would be lost in the forks
            time.sleep(0.05)
        gc.collect()
        gc.freeze()  # a collection would touch, and so copy, all of it in each fork

    def _prepare(self, run: SmallRun) -> None:
        """Make the folder that a run begins with."""
        shutil.rmtree(self._begin, ignore_errors=True)
        self._begin.mkdir()
        self._begin_again()
        if run.earlier:
            self._done(run.earlier)
            shutil.copytree(self.out, self._begin, dirs_exist_ok=True)

    def _begin_again(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(self._begin, self.out)

    def _claims(self, status: int, first: State, whole: State) -> str:
        """Say what is missing in a folder that is said to be whole."""
        state = state_of(self.out)
        is_marked = successful_run(OutputFolder(str(self.out))) is not None
        if status == cli.DONE or (is_marked and results_of(state) != results_of(first)):
            return differences(results_of(state), results_of(whole))
        return ""

    def _again(self, run: SmallRun, whole: State) -> str:
        """Give the same command again; say what is wrong then."""
        if run.once and not differences(_without_lock(state_of(self.out)), whole):
            return ""
        status = self._run(run.words)
        if status != cli.DONE:
            return f"then {status}: {self._log.read_text()[-400:]}"
        return differences(state_of(self.out), whole)

    def _done(self, words: Words) -> None:
        if self._run(words) != cli.DONE:
            raise RuntimeError(self._log.read_text())

    def _run(self, words: Words, fault: Fault | None = None) -> int:
        """Run a command in a fork, and return its exit status."""
        process = os.fork()
        if not process:
            signal.alarm(_SECONDS)
            status = 70
            with suppress(BaseException):
                file = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, 1)
                os.dup2(file, 2)
                with faulty_disk(f"{self.out}/", fault, self._told) as disk:
                    status = cli.main(words)
                disk.tell()
                sys.stdout.flush()
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(arguments: Sequence[str]) -> int:
    """Try the kinds that are named, or all of them."""
    folder, every, *names = arguments
    torch.set_num_threads(1)
    with ExitStack() as stack:
        remember(stack.enter_context(pytest.MonkeyPatch.context()))
        for patch in (
            mock.patch("bertscore_core.scorer.load_encoder", looked_up),
            mock.patch("bertscore_beam.run.runner.usable_cores", return_value=1),  # no threads
            mock.patch("bertscore_beam.run.job._pool_of", return_value=None),  # nor processes
            mock.patch.object(os, "fsync"),  # processes die here, and no machine
            # No rival is there to wait for; a heartbeat, which is a write, would come at any time.
            mock.patch.multiple(
                locks, _SETTLE_SECONDS=0.0, LEASE_SECONDS=0.0, BEAT_SECONDS=_SECONDS
            ),
        ):
            stack.enter_context(patch)
        shop = Workshop(Path(folder))
        for name in names or shop.runs:
            found = shop.try_every(shop.runs[name], int(every))
            print(json.dumps({"kind": name, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
