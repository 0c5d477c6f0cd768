"""The command under test, in a process group of its own, and what can be done to it."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.soak.dump import SPLIT_ROWS
from tests.soak.stages import STAGES, Stage, part_names, stage_of
from tests.soak.stores import S3Store, Store
from tests.support.processes import send, session_members, workers_among

DUMP = "dump"
"""Name of the dump in every store."""

NUM_WORKERS = {"in-memory": 1, "one": 1, "processes": 2}
"""The modes, and how many workers each has: the command itself, or processes that it starts."""

RESTARTS = (None, 1000)
"""How often a command may go on after the death of a worker: its default, or always."""


class Fault(StrEnum):
    """What is done to a run. KILLS are SIGKILL; a run survives or ends after the others."""

    KILL_WORKER = "kill worker"
    KILL_MAIN = "kill main"
    KILL_GROUP = "kill group"
    STOP_MAIN = "stop main"
    STOP_WORKER = "stop worker"
    STORE_BURST = "store burst"


KILLS = (Fault.KILL_WORKER, Fault.KILL_MAIN, Fault.KILL_GROUP)
_WEIGHTS = {
    Fault.KILL_WORKER: 4,
    Fault.KILL_MAIN: 4,
    Fault.KILL_GROUP: 2,
    Fault.STOP_MAIN: 1,
    Fault.STOP_WORKER: 1,
    Fault.STORE_BURST: 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What stays the same for all runs of a cycle.

    Attributes:
        mode: A key of :data:`NUM_WORKERS`.
        store: Where the dump and the output are.
        output: Name of the output there.
        model: Folder of the tiny model.
        num_layers: Its layer.
        folder: Where logs go.
        client: Under which name the store sees the commands of this cycle.
    """

    mode: str
    store: Store
    output: str
    model: Path
    num_layers: int
    folder: Path
    client: str

    def environment(self) -> dict[str, str]:
        """Return the variables of the command."""
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return {
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            # The last digit of a score depends on the number of threads.
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(temporary),
            **self.store.environment(self.client),
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is done to a run: some seconds after a stage began and parts were there.

    In the first stage the seconds count from the start of the command.
    """

    stage: Stage
    delay: float
    parts: int = 0


@dataclass
class Run:
    """One execution of the command.

    Attributes:
        setting: What it works on.
        process: It; leader of a session with all that it starts.
        restarts: How often it may go on after the death of a worker; None for its default.
        before: What the output held when it was started.
        started: When, on the monotonic clock.
        log: What it printed.
    """

    setting: Setting
    process: subprocess.Popen[bytes]
    restarts: int | None
    before: dict[str, str]
    log: Path
    started: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        """Tell whether the command has ended."""
        return self.process.poll() is not None

    def stage(self, num_parts: int) -> Stage:
        """Tell how far it has come."""
        return stage_of(self.before, self._versions(), num_parts)

    def _versions(self) -> dict[str, str]:
        return self.setting.store.versions(self.setting.output)

    def workers(self) -> list[int]:
        """Return its living worker processes."""
        return workers_among(session_members(self.process.pid))

    def wait_for(self, moment: Moment, num_parts: int) -> bool:
        """Wait for a moment; False if the command ended before."""
        wanted = STAGES.index(moment.stage)
        while not self.is_over():
            versions = self._versions()
            reached = STAGES.index(stage_of(self.before, versions, num_parts))
            if reached > wanted:
                break
            if reached == wanted and len(part_names(versions)) >= moment.parts:
                break
            time.sleep(self.setting.store.poll_seconds)
        start = self.started if moment.stage is Stage.PLANNING else time.monotonic()
        while not self.is_over() and time.monotonic() < start + moment.delay:
            time.sleep(0.02)
        return not self.is_over()


def start_command(setting: Setting, number: int, restarts: int | None = None) -> Run:
    """Start the command.

    Args:
        setting: What it works on.
        number: Counts the commands of a cycle.
        restarts: How often it may go on after the death of a worker; None for its default.
    """
    store = setting.store
    flags = {
        "--input": store.place(DUMP),
        "--output": store.place(setting.output),
        "--model": setting.model,
        "--num-layers": setting.num_layers,
        "--idf": "corpus",
        "--split-rows": SPLIT_ROWS,
        "--max-reject-fraction": 1,
        "--device": "cpu",
        "--workers": NUM_WORKERS[setting.mode],
    }
    if setting.mode == "in-memory":
        restarts = 0  # without a process to be killed, none is started
    if restarts is not None:
        flags["--restarts"] = restarts
    command = [sys.executable, "-m", "bertscore_beam", "score"]
    command += [str(word) for pair in flags.items() for word in pair]
    before = store.versions(setting.output)
    environment = {**os.environ, **setting.environment()}
    log = setting.folder / f"command-{number:02d}.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Run(setting, process, restarts, before, log)


def choose_fault(run: Run, chance: random.Random) -> Fault:
    """Draw what to do to a run, among what can be done to it now."""
    has_workers = bool(run.workers())
    possible = {
        Fault.KILL_WORKER: has_workers,
        Fault.KILL_MAIN: True,
        Fault.KILL_GROUP: run.setting.mode != "in-memory",
        Fault.STOP_MAIN: True,
        Fault.STOP_WORKER: has_workers,
        Fault.STORE_BURST: isinstance(run.setting.store, S3Store),
    }
    names = [fault for fault in Fault if possible[fault]]
    return chance.choices(names, [_WEIGHTS[fault] for fault in names])[0]


def strike(run: Run, fault: Fault, chance: random.Random) -> bool:
    """Do it; False if whom it was meant for had ended."""
    main = run.process.pid
    if fault is Fault.STORE_BURST:
        _burst(run, chance)
        return True
    if fault is Fault.KILL_GROUP:
        return any([send(process, signal.SIGKILL) for process in session_members(main)])
    if fault in (Fault.KILL_MAIN, Fault.STOP_MAIN):
        victim = main
    else:
        workers = run.workers()
        if not workers:
            return False
        victim = chance.choice(workers)
    if fault in KILLS:
        return not run.is_over() and send(victim, signal.SIGKILL)
    if run.is_over() or not send(victim, signal.SIGSTOP):
        return False
    time.sleep(chance.uniform(0.3, 5))
    send(victim, signal.SIGCONT)
    return True


def _burst(run: Run, chance: random.Random) -> None:
    """Let the store misbehave for some seconds; the command goes on meanwhile."""
    store = run.setting.store
    assert isinstance(store, S3Store)
    seconds = chance.uniform(1, 4)
    rate = chance.uniform(0.1, 0.8)
    store.disturb(run.setting.client, rate=rate, seconds=seconds, stall=chance.uniform(0.5, 3))
    end = time.monotonic() + seconds
    while not run.is_over() and time.monotonic() < end:
        time.sleep(0.1)
