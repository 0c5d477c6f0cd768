"""Disturb the command at random and prove that nothing is lost, doubled or changed.

    python -m tests.soak --kills 200 --minutes 60 --seed 1 --json build/soak.json

A cycle takes a fresh output and starts `python -m bertscore_beam score` on it, with faults at
random moments, again and again until the command ends with status 0. Then the output is compared
with the dump and, byte by byte, with that of a run that nothing befell. The script ends with status
0 when all cycles were right, and with 1 at the first that was not: its folder is kept.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.soak.commands import DUMP, NUM_WORKERS, Setting
from tests.soak.cycle import Cycle, Undisturbed, run_undisturbed
from tests.soak.dump import FILES, ROWS_PER_FILE, SPLIT_ROWS, write_hostile_dump
from tests.soak.report import Tally
from tests.soak.stores import LocalStore, S3Store, Store
from tests.support.processes import descendants, send
from tests.support.s3 import s3_process
from tests.support.tiny_models import build_tiny_model

FAMILY, NUM_LAYERS = "bert", 2
"""A tiny model that is loaded in no time."""

_KILLS_A_CYCLE = (3, 10)
"""Fewest and most kills in a cycle, if the command does not get to its end before."""


class Soak:
    """Cycles over all modes and stores until enough has been killed or the time is up."""

    def __init__(
        self, root: Path, stores: Sequence[Store], modes: Sequence[str], seed: int
    ) -> None:
        """Make the dump and the model.

        Args:
            root: Folder for everything; on success it can be deleted.
            stores: Where outputs go.
            modes: How the work is done, names of :data:`NUM_WORKERS`.
            seed: What all randomness comes from.
        """
        self.tally = Tally(seed)
        self._root = root
        self._pairs = list(product(modes, stores))
        self._model = build_tiny_model(FAMILY, root / "model")
        folder = write_hostile_dump(root / "original")
        for store in stores:
            store.make(DUMP)
        self._dump: dict[str, pa.Table] = {}
        for path in sorted(folder.iterdir()):
            self._dump[path.name] = pq.ParquetFile(path).read()
            for store in stores:
                store.write(DUMP, path.name, path.read_bytes())
        self._expected: dict[tuple[str, str], Undisturbed] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._cores = os.sched_getaffinity(0)
        self._lanes = 0

    def measure(self, jobs: int) -> None:
        """Run each mode on each store once, undisturbed."""
        with ThreadPoolExecutor(jobs, initializer=self._keep_to_one_core) as pool:
            list(pool.map(self._measure, self._pairs))

    def _keep_to_one_core(self) -> None:
        """Bind this thread, and the commands it starts, to one core.

        Commands beside one another would otherwise start more threads than there are cores, which
        then wait for each other; and a score's last digit depends on the number of threads.
        """
        with self._lock:
            cores = sorted(self._cores)
            os.sched_setaffinity(0, {cores[self._lanes % len(cores)]})
            self._lanes += 1

    def _measure(self, pair: tuple[str, Store]) -> None:
        mode, store = pair
        name = f"undisturbed-{mode}"
        store.make(name)
        setting = self._setting(mode, store, name)
        found = run_undisturbed(setting, FILES * ROWS_PER_FILE // SPLIT_ROWS)
        self._expected[mode, store.name] = found
        seconds = {str(stage): round(took, 1) for stage, took in found.seconds.items()}
        print(f"undisturbed: {mode} on {store.name}, seconds by stage {seconds}", flush=True)

    def run(self, kills: int, minutes: float, jobs: int) -> None:
        """Go on with cycles, several at a time, until there were so many kills."""
        end = time.monotonic() + 60 * minutes
        with ThreadPoolExecutor(jobs, initializer=self._keep_to_one_core) as pool:
            for done in [pool.submit(self._lane, kills, end) for _ in range(jobs)]:
                done.result()

    def _lane(self, kills: int, end: float) -> None:
        """Run one cycle after the other."""

        def is_enough() -> bool:
            return (
                self.tally.kills() >= kills or time.monotonic() > end or bool(self.tally.violations)
            )

        while not is_enough():
            with self._lock:
                number = self._next
                self._next += 1
            self._cycle(number, kills, end)

    def _cycle(self, number: int, kills: int, end: float) -> None:
        mode, store = self._pairs[number % len(self._pairs)]
        name = f"cycle-{number:04d}"
        store.make(name)
        setting = self._setting(mode, store, name)

        chance = random.Random(f"{self.tally.seed}/{number}")
        most = chance.randint(*_KILLS_A_CYCLE)

        def more_wanted(mine: int) -> bool:
            enough = mine >= most or self.tally.kills() + mine >= kills
            return not enough and time.monotonic() < end

        expected = self._expected[mode, store.name]
        outcome = Cycle(setting, expected, self._dump, chance, more_wanted).run()
        self.tally.add(mode, store.name, outcome, name)
        wrong = outcome.verdict.violations
        print(
            f"{self.tally.seconds():6.0f} s  {name}  {mode:9}  {store.name:5}  "
            f"{outcome.kills()} kills of {outcome.struck.total()} faults, "
            f"{outcome.commands} commands: {'WRONG' if wrong else 'right'}; "
            f"{self.tally.kills()} kills in all",
            flush=True,
        )
        if not wrong:
            store.drop(name)
            shutil.rmtree(setting.folder)

    def _setting(self, mode: str, store: Store, name: str) -> Setting:
        folder = self._root / "logs" / store.name / name
        folder.mkdir(parents=True)
        return Setting(
            mode=mode,
            store=store,
            output=f"{name}/out",
            model=self._model,
            num_layers=NUM_LAYERS,
            folder=folder,
            client=f"{name}-{store.name}",
        )


def _end_at_once(*_: object) -> None:
    """Leave nothing running when interrupted."""
    for process in descendants(os.getpid()):
        send(process, signal.SIGKILL)
    os._exit(130)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="stop after so many (200)")
    parser.add_argument("--minutes", type=float, default=60, help="or after so long (60)")
    parser.add_argument("--seed", type=int, default=1, help="what the randomness comes from (1)")
    parser.add_argument("--modes", default=",".join(NUM_WORKERS), help="(%(default)s)")
    parser.add_argument("--stores", default="local,s3", help="(%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="cycles at a time (2)")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument("--folder", type=Path, help="for everything; default: a temporary one")
    given = parser.parse_args(arguments)
    modes, names = given.modes.split(","), given.stores.split(",")
    if unknown := [m for m in modes if m not in NUM_WORKERS]:
        parser.error(f"unknown modes {unknown}; expected some of {', '.join(NUM_WORKERS)}")
    if unknown := [name for name in names if name not in ("local", "s3")]:
        parser.error(f"unknown stores {unknown}; expected local, s3 or both")
    root = Path(tempfile.mkdtemp(prefix="bertscore-soak-", dir=given.folder))
    with ExitStack() as stack:
        stores: list[Store] = [LocalStore(root / "local")] if "local" in names else []
        if "s3" in names:
            stores.append(S3Store(stack.enter_context(s3_process())))
        soak = Soak(root, stores, modes, given.seed)
        soak.measure(given.jobs)
        soak.run(given.kills, given.minutes, given.jobs)
    tally = soak.tally
    print(tally.table())
    for violation in tally.violations:
        print(f"WRONG: {violation}")
    line = json.dumps(tally.to_dict())
    print(line)
    if given.json is not None:
        given.json.write_text(line + "\n")
    if tally.violations:
        print(f"Everything is kept in {root}; --seed {given.seed}.", file=sys.stderr)
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)
    sys.exit(main())
