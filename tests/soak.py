"""Disturb the command at random and prove that nothing is lost, doubled or changed.

    python -m tests.soak --kills 200 --minutes 60 --seed 1 --commands score select rescale tune

A cycle takes a fresh output and starts `python -m bertscore_beam score`, which counts idf over the
dump first, or another command, with faults at random moments, again and again until the command
ends with status 0. Then the output is compared, byte by byte, with that of a run that nothing
befell, whose rows are compared with the dump. The script ends with status 0 when all cycles were
right, and with 1 at the first that was not: its folder is kept.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, count, product
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.records.rejects import REJECTS_FOLDER
from bertscore_beam.run.folder import MANIFEST_FOLDER, SUCCESS_FILE, SUMMARY_FILE
from bertscore_beam.run.publication import WORK_FOLDER
from bertscore_beam.score.kept_plan import PLANS_FOLDER
from bertscore_core.baseline import Baseline, format_baseline
from tests.support import processes
from tests.support.dumps import pair_rows
from tests.support.faults import FaultRule, Faults
from tests.support.jobs import without_token
from tests.support.judgements import judgement_rows
from tests.support.s3 import s3_environment, s3_server
from tests.support.tiny_models import build_tiny_model

FILES, ROWS_PER_FILE, SPLIT_ROWS = 6, 100, 10

BEFORE = "before"
"""The cycle whose output is rescaled."""

NUM_WORKERS = {"in-memory": 1, "one": 1, "processes": 2}
"""The modes, and how many workers each has: the command itself, or processes that it starts."""

COMMANDS = {
    "score": ("--input", "dump", "--idf", "corpus", "--split-rows", str(SPLIT_ROWS)),
    "select": (
        "--input",
        "sampled",
        "--candidate-column",
        "samples",
        "--split-rows",
        str(SPLIT_ROWS),
    ),
    "rescale": (f"{BEFORE}/out", "--baseline", "table.tsv"),
    "tune": (
        *("--judgements", "judgements.parquet", "--score-column", "human", "--by", "language"),
        *("--split-rows", str(SPLIT_ROWS), "--resamples", "100"),
    ),
}
"""What is disturbed: each command with its words, and names of files and folders in the store."""

FAULTS = {
    "kill worker": 4,
    "kill main": 4,
    "kill group": 2,
    "stop main": 1,
    "stop worker": 1,
    "store burst": 3,
}
"""What is done to a run, with its weight. Kills are SIGKILL."""

LIMIT_SECONDS = 300
"""A command that takes longer than this after the last fault hangs."""

ORPHAN_SECONDS = 60
"""Workers whose command is gone must have ended after this."""

KILLS_A_CYCLE = (3, 10)
"""Fewest and most kills in a cycle, if the command does not get to its end before."""

_DONE, _BROKEN = 0, 1
_MAX_COMMANDS = 14
_OBSERVER = "observer"
"""Access key of our own requests, which no fault meets."""

_TEXTS = {3: None, 17: b"", 31: b" \t ", 44: b"a cat \xff\xfe", 58: None, 71: b"?", 93: b""}
"""Hostile texts by row."""


def hostile_dump() -> dict[str, pa.Table]:
    """Return files with rows of every kind; every second one has lists of references."""
    dump = {}
    for number in range(FILES):
        rows = pair_rows(ROWS_PER_FILE, number * ROWS_PER_FILE)
        left, right = (
            [_TEXTS.get(row - shift, text.encode()) for row, text in enumerate(rows[side])]
            for side, shift in (("candidate", 0), ("reference", 5))
        )
        lists = [
            None if row in (22, 79) else [text, b"the cat sat", b"rain fell"][: row % 4]
            for row, text in enumerate(right)
        ]
        dump[f"shard {number:03d}.parquet"] = pa.table(
            {
                "id": rows["id"],
                "candidate": pa.array(left, pa.binary()).view(pa.string()),
                "reference": pa.array(lists, pa.list_(pa.binary())).view(pa.list_(pa.string()))
                if number % 2
                else pa.array(right, pa.binary()).view(pa.string()),
            }
        )
    return dump


@dataclass(frozen=True, slots=True)
class Store:
    """Where outputs lie, seen from outside of the commands that write them.

    Attributes:
        name: `local` or `s3`.
        root: Folder of all outputs, or a bucket.
        url: Of the S3 server; "" on a disk.
        faults: What the server may be given.
    """

    name: str
    root: str
    url: str = ""
    faults: Faults | None = None

    @property
    def files(self) -> fsspec.AbstractFileSystem:
        """The files, as they are now."""
        if not self.url:
            return fsspec.filesystem("file")
        return fsspec.filesystem(
            "s3", key=_OBSERVER, secret=_OBSERVER, endpoint_url=self.url, use_listings_cache=False
        )

    def environment(self, client: str) -> dict[str, str]:
        """Return what a command needs to get there under a name of its own."""
        return {**s3_environment(self.url), "AWS_ACCESS_KEY_ID": client} if self.url else {}

    def contents(self, output: str) -> dict[str, bytes]:
        """Return the content of all files below an output."""
        start = len(self.files._strip_protocol(output)) + 1
        return {name[start:]: self.files.cat_file(name) for name in self.files.find(output)}


def differences(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> list[str]:
    """Return how an output differs from one that nothing befell, in words."""
    ours, theirs = _comparable(found), _comparable(expected)
    wrong = [f"{name} is missing" for name in sorted(theirs.keys() - ours.keys())]
    wrong += [f"{name} should not be there" for name in sorted(ours.keys() - theirs.keys())]
    both = sorted(ours.keys() & theirs.keys())
    wrong += [f"other bytes in {name}" for name in both if ours[name] != theirs[name]]
    first, second = (json.loads(files.get(SUMMARY_FILE, b"{}")) for files in (found, expected))
    for key in ("rows", "scored", "reasons", "success", "complete", "precision", "recall", "f1"):
        left, right = first.get(key), second.get(key)
        # The parts' sums may have been added up in another order.
        near = isinstance(left, float) and math.isclose(left, right or 0.0, rel_tol=1e-12)
        if left != right and not near:
            wrong.append(f"summary: {key} is {left!r}; expected {right!r}")
    return wrong


def _comparable(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """Return what must be the same each time: names, and the bytes of what has no clocks in it.

    A plan is named by where the output is, and the manifest by a token.
    """
    same: dict[str, bytes | None] = {}
    for name, data in files.items():
        if name.startswith(f"{WORK_FOLDER}/"):  # in a store nobody sweeps it
            continue
        if name.startswith(f"{MANIFEST_FOLDER}/parts-"):
            same["shards"] = None
        elif name.startswith(f"{PLANS_FOLDER}/"):
            same[PLANS_FOLDER] = None
        else:
            is_result = name == IDF_FILE or name.startswith(REJECTS_FOLDER) or name[0] != "_"
            data = without_token(data) if name.endswith(".parquet") else data
            same[name] = data if is_result else None
    return same


def rows_that_differ(files: Mapping[str, bytes], dump: Mapping[str, pa.Table]) -> list[str]:
    """Return how the rows of an output differ from those of the dump, in words."""
    wrong = [] if SUCCESS_FILE in files else ["there is no _SUCCESS"]
    for file, given in dump.items():
        parts = sorted(name for name in files if name.startswith(f"{file}/part-"))
        tables = [pq.ParquetFile(pa.BufferReader(files[name])).read() for name in parts]
        if not tables or not pa.concat_tables(tables).select(given.column_names).equals(given):
            wrong.append(f"{file}: rows are lost, doubled, or not as they were")
    return wrong


def samples() -> pa.Table:
    """Return rows of three samples each."""
    texts = pair_rows(FILES * ROWS_PER_FILE)["candidate"]
    rows = [[*texts[at : at + 2], texts[at].upper()] for at in range(0, len(texts) - 2, 4)]
    return pa.table({"id": range(len(rows)), "samples": rows})


class Undisturbed(NamedTuple):
    """A run that nothing befell: its files, and how long it took."""

    files: Mapping[str, bytes]
    seconds: float


@dataclass
class Run:
    """One execution of the command, in a session of its own.

    Attributes:
        cycle: What it belongs to.
        restarts: How often it may go on after the death of a worker; None for its default.
    """

    cycle: "Cycle"
    restarts: int | None = None

    def __post_init__(self) -> None:
        """Start it."""
        soak, store, mode = self.cycle.soak, self.cycle.store, self.cycle.mode
        command = self.cycle.command
        words = [
            f"{store.root}/{word}" if word in soak.given else word for word in COMMANDS[command]
        ]
        words += ["--output", self.cycle.output]
        if command == "tune":
            words += ["--models", str(soak.model), "--device", "cpu"]
        elif command != "rescale":
            words += ["--model", str(soak.model), "--num-layers", "2", "--device", "cpu"]
            words += ["--max-reject-fraction", "1"]
        if mode == "in-memory":
            self.restarts = 0  # without a process to be killed, none is started
        if command != "rescale":  # which starts none
            words += ["--workers", str(NUM_WORKERS[mode])]
            words += [] if self.restarts is None else ["--restarts", str(self.restarts)]
        temporary = self.cycle.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",  # the last digit of a score depends on their number
            "TMPDIR": str(temporary),
            **store.environment(self.cycle.name),
        }
        self.log = self.cycle.folder / f"command-{len(self.cycle.sessions):02d}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bertscore_beam", command, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.cycle.sessions.append(self.process.pid)

    def wait(self, seconds: float) -> bool:
        """Wait for so long; False if the command ended before."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is None

    def strike(self, fault: str, chance: random.Random) -> bool:
        """Do something to it; False if whom it was meant for had ended."""
        main = self.process.pid
        if fault == "store burst":
            seconds, rate, stall = (
                chance.uniform(*ends) for ends in ((1, 4), (0.1, 0.8), (0.5, 3))
            )
            self.cycle.store.faults.set(
                FaultRule(client=self.cycle.name, rate=rate, seconds=seconds, stall=stall)
            )
            self.wait(seconds)
            return True
        members = processes.session_members(main)
        if fault == "kill group":
            return any([processes.send(process, signal.SIGKILL) for process in members])
        victims = processes.workers_among(members) if fault.endswith("worker") else [main]
        if not victims or self.process.poll() is not None:
            return False
        victim = chance.choice(victims)
        if fault.startswith("kill"):
            return processes.send(victim, signal.SIGKILL)
        if not processes.send(victim, signal.SIGSTOP):
            return False
        time.sleep(chance.uniform(0.3, 5))
        processes.send(victim, signal.SIGCONT)
        return True


@dataclass
class Cycle:
    """Runs the command on a fresh output until it is done, whatever happens to it."""

    soak: "Soak"
    name: str
    command: str
    mode: str
    store: Store
    chance: random.Random = field(default_factory=random.Random)
    struck: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)

    @property
    def output(self) -> str:
        """Where it writes."""
        return f"{self.store.root}/{self.name}/out"

    @property
    def folder(self) -> Path:
        """Where its logs go."""
        return self.soak.root / "logs" / self.name

    def kills(self) -> int:
        """Return how many of the faults were kills."""
        return sum(count for fault, count in self.struck.items() if fault.startswith("kill"))

    def undisturbed(self) -> Undisturbed:
        """Run the command once with nothing done to it."""
        started, run = time.monotonic(), Run(self)
        run.wait(LIMIT_SECONDS)
        seconds, files = time.monotonic() - started, self.store.contents(self.output)
        keeps_rows = self.command in ("score", "rescale")
        wrong = rows_that_differ(files, self.soak.dump if keeps_rows else {})
        if run.process.returncode != _DONE or wrong:
            raise RuntimeError(
                f"an undisturbed run failed: {wrong or run.process.returncode}; {run.log}"
            )
        print(f"undisturbed: {self.command}, {self.mode} on {self.store.name}", flush=True)
        return Undisturbed(files, seconds)

    def go(self, expected: Undisturbed, most_kills: int) -> None:
        """Go through the cycle; `wrong` says what went wrong, if anything did."""
        try:
            while not self.wrong and self._command(expected, most_kills) != _DONE:
                pass
            gone = [processes.wait_until_gone(each, ORPHAN_SECONDS) for each in self.sessions]
            left = list(chain.from_iterable(gone))
            if left:
                self.wrong.append(f"processes {left} are left running")
            if not self.wrong:
                self.wrong = differences(self.store.contents(self.output), expected.files)
        finally:
            for leader in self.sessions:
                processes.kill_session(leader)

    def _command(self, expected: Undisturbed, most_kills: int) -> int | None:
        """Start the command once, disturb it, and return its status."""
        last = len(self.sessions) == _MAX_COMMANDS
        run = Run(self, self.chance.choice((None, 1000)))
        done: list[str] = []
        while not last and self.kills() < most_kills:
            is_there = run.wait(self.chance.uniform(0, expected.seconds))
            if not (is_there and run.strike(fault := self._choose(run), self.chance)):
                break
            self.struck[fault] += 1
            done.append(fault)
            if fault in ("kill main", "kill group"):
                break
        run.wait(LIMIT_SECONDS)
        status, allowed = run.process.poll(), _allowed_statuses(done, run.restarts)
        if status not in allowed or (last and status != _DONE):
            self.wrong.append(
                f"{run.log} ended with {status} after {done}; expected one of {allowed}"
            )
        return status

    def _choose(self, run: Run) -> str:
        """Draw what to do to a run, among what can be done to it now."""
        impossible = set() if self.store.url else {"store burst"}
        if not processes.workers_among(processes.session_members(run.process.pid)):
            impossible |= {"kill worker", "stop worker"}
        possible = {fault: w for fault, w in FAULTS.items() if fault not in impossible}
        return self.chance.choices(list(possible), list(possible.values()))[0]


def _allowed_statuses(done: Sequence[str], restarts: int | None) -> tuple[int, ...]:
    """Return the statuses a command may end with after these faults.

    A worker that is killed without work costs nothing, so the run may also go on after more deaths
    than `restarts`.
    """
    harmless = {"stop main", "stop worker"}
    if done.count("kill worker") <= (1 if restarts is None else restarts):
        harmless.add("kill worker")
    if set(done) <= harmless:
        return (_DONE,)
    if done[-1] in ("kill main", "kill group"):
        # A command that has just ended by itself still takes the signal.
        return (-9, _DONE, _BROKEN) if "store burst" in done else (-9, _DONE)
    return (_DONE, _BROKEN)


class Soak:
    """Cycles over all modes and stores until enough has been killed or the time is up.

    Args:
        root: Folder for everything; on success it can be deleted.
        stores: Where outputs go.
        commands: Names of :data:`COMMANDS`.
        modes: How the work is done, names of :data:`NUM_WORKERS`; `rescale` has the first alone.
        seed: What all randomness comes from.
    """

    def __init__(
        self,
        root: Path,
        stores: Sequence[Store],
        commands: Sequence[str],
        modes: Sequence[str],
        seed: int,
    ) -> None:
        self.root, self.seed = root, seed
        self.model = build_tiny_model("bert", root / "model")
        self.dump = hostile_dump()
        baseline = format_baseline(Baseline(name="custom", rows=np.full((4, 3), 0.3)))
        given = {f"dump/{name}": _to_parquet(table) for name, table in self.dump.items()}
        given["sampled/samples.parquet"] = _to_parquet(samples())
        given["judgements.parquet"] = _to_parquet(pa.Table.from_pylist(judgement_rows()))
        given["table.tsv"] = baseline.encode()
        self.given = {*given, "dump", "sampled", f"{BEFORE}/out"}
        for store, (name, data) in product(stores, given.items()):
            path = f"{store.root}/{name}"
            store.files.makedirs(path.rpartition("/")[0], exist_ok=True)
            store.files.pipe_file(path, data)
        self.cycles: list[Cycle] = []
        self._kinds = [
            (command, mode, store)
            for command, mode, store in product(commands, modes, stores)
            if command != "rescale" or mode == modes[0]
        ]
        self._before = [
            Cycle(self, BEFORE, "score", modes[0], store)
            for store in (stores if "rescale" in commands else ())
        ]
        self._numbers, self._lanes = count(), count()

    def kills(self) -> int:
        """Return how many processes were killed."""
        return sum(cycle.kills() for cycle in self.cycles)

    def run(self, kills: int, minutes: float, jobs: int) -> None:
        """Go on with cycles, several at a time, until there were so many kills."""
        with ThreadPoolExecutor(jobs, initializer=self._keep_to_one_core) as pool:
            list(pool.map(Cycle.undisturbed, self._before))
            undisturbed = [
                Cycle(self, f"undisturbed-{command}-{mode}-{store.name}", command, mode, store)
                for command, mode, store in self._kinds
            ]
            expected = list(pool.map(Cycle.undisturbed, undisturbed))
            end = time.monotonic() + 60 * minutes

            def lane(_: int) -> None:
                while self.kills() < kills and time.monotonic() < end and not self.wrong():
                    number = next(self._numbers)
                    self._cycle(number, kills, expected[number % len(expected)])

            list(pool.map(lane, range(jobs)))

    def wrong(self) -> list[str]:
        """Return what went wrong, in words."""
        return [f"{cycle.name}: {words}" for cycle in self.cycles for words in cycle.wrong]

    def _keep_to_one_core(self) -> None:
        """Bind this thread, and the commands it starts, to one core.

        Commands beside one another would otherwise start more threads than there are cores, which
        then wait for each other; and a score's last digit depends on the number of threads.
        """
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[next(self._lanes) % len(cores)]})

    def _cycle(self, number: int, kills: int, expected: Undisturbed) -> None:
        command, mode, store = self._kinds[number % len(self._kinds)]
        chance = random.Random(f"{self.seed}/{number}")
        name = f"cycle-{number:04d}-{command}-{mode}-{store.name}"
        cycle = Cycle(self, name, command, mode, store, chance)
        cycle.go(expected, min(chance.randint(*KILLS_A_CYCLE), max(kills - self.kills(), 1)))
        self.cycles.append(cycle)
        print(
            f"{cycle.name:40} {cycle.kills()} kills of {cycle.struck.total()} faults, "
            f"{len(cycle.sessions)} commands: {'WRONG' if cycle.wrong else 'right'}; "
            f"{self.kills()} kills in all",
            flush=True,
        )
        if not cycle.wrong:
            store.files.rm(f"{store.root}/{cycle.name}", recursive=True)
            shutil.rmtree(cycle.folder)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        return {
            "seed": self.seed,
            "kills": self.kills(),
            "faults": sum((cycle.struck for cycle in self.cycles), Counter()),
            "cycles": len(self.cycles),
            "resumes": sum(len(cycle.sessions) - 1 for cycle in self.cycles),
            "violations": self.wrong(),
        }


def _to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=2 * SPLIT_ROWS)
    return bytes(sink.getvalue())


def _end_at_once(*_: object) -> None:
    """Leave nothing running when interrupted."""
    for process in processes.descendants(os.getpid()):
        processes.send(process, signal.SIGKILL)
    os._exit(130)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="stop after so many (200)")
    parser.add_argument("--minutes", type=float, default=60, help="or after so long (60)")
    parser.add_argument("--seed", type=int, default=1, help="what the randomness comes from (1)")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--modes", nargs="+", choices=NUM_WORKERS, default=list(NUM_WORKERS))
    parser.add_argument("--stores", nargs="+", choices=["local", "s3"], default=["local", "s3"])
    parser.add_argument("--jobs", type=int, default=2, help="cycles at a time (2)")
    parser.add_argument("--folder", type=Path, help="for everything; default: a temporary one")
    given = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="bertscore-soak-", dir=given.folder))
    with ExitStack() as stack:
        stores = [Store("local", str(root / "local"))] if "local" in given.stores else []
        if "s3" in given.stores:
            stores.append(Store("s3", "s3://soak", *stack.enter_context(s3_server())))
            stores[-1].files.mkdir("s3://soak")
        soak = Soak(root, stores, given.commands, given.modes, given.seed)
        soak.run(given.kills, given.minutes, given.jobs)
    print(json.dumps(soak.to_dict(), indent=1))
    if soak.wrong():
        print(f"Everything is kept in {root}; --seed {given.seed}.", file=sys.stderr)
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)
    sys.exit(main())
