"""One cycle: a command started, disturbed and started again until it is done, then judged."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tests.soak.commands import (
    KILLS,
    RESTARTS,
    Fault,
    Moment,
    Run,
    Setting,
    choose_fault,
    start_command,
    strike,
)
from tests.soak.proof import Snapshot, Verdict, judge
from tests.soak.stages import STAGES, Stage, part_names, stages_ahead
from tests.support.processes import kill_session, wait_until_gone

LIMIT_SECONDS = 300
"""A command that takes longer than this after the last fault hangs."""

ORPHAN_SECONDS = 60
"""Workers whose command is gone must have ended after this."""

_DONE, _BROKEN = 0, 1
_MAX_COMMANDS = 14
_CUT_SHORT = 0.5
"""Share of a stage's seconds that moments are drawn from: the next run may be faster."""

_IMPORTED = 0.7
"""Share of the planning stage that is over when the imports are: faults come later."""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run that nothing befell.

    Attributes:
        snapshot: Its output.
        num_parts: Parts in it.
        seconds: How long it was in each stage.
    """

    snapshot: Snapshot
    num_parts: int
    seconds: Mapping[Stage, float]


@dataclass
class Outcome:
    """What happened in a cycle.

    Attributes:
        struck: Faults that were inflicted, by stage and kind.
        commands: How often the command was started.
        verdict: How the output differs from what it should be.
    """

    struck: Counter[tuple[Stage, Fault]] = field(default_factory=Counter)
    commands: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    def kills(self) -> int:
        """Return how many of the faults were kills."""
        return sum(count for (_, fault), count in self.struck.items() if fault in KILLS)


def run_undisturbed(setting: Setting, num_parts: int) -> Undisturbed:
    """Run the command once and measure its stages.

    Raises:
        RuntimeError: it does not end with status 0, or has another number of parts.
    """
    run = start_command(setting, 0)
    try:
        entered = {Stage.PLANNING: run.started}
        while not run.is_over():
            entered.setdefault(run.stage(num_parts), time.monotonic())
            time.sleep(setting.store.poll_seconds)
        ended = time.monotonic()
    finally:
        _end(run)
    snapshot = Snapshot.take(setting.store, setting.output)
    found = len(part_names(dict.fromkeys(snapshot.names, "")))
    if run.process.returncode != _DONE or found != num_parts:
        raise RuntimeError(
            f"an undisturbed run ended with status {run.process.returncode} and {found} parts; "
            f"expected 0 and {num_parts}. See {run.log}."
        )
    moments = [entered.get(stage) for stage in STAGES] + [ended]
    # A stage too short to be seen took no time.
    for position in reversed(range(len(STAGES))):
        if moments[position] is None:
            moments[position] = moments[position + 1]
    seconds = {stage: moments[n + 1] - moments[n] for n, stage in enumerate(STAGES)}
    return Undisturbed(snapshot, num_parts, seconds)


class Cycle:
    """Runs the command on a fresh output until it is done, whatever happens to it."""

    def __init__(
        self,
        setting: Setting,
        expected: Undisturbed,
        dump: Mapping[str, pa.Table],
        chance: random.Random,
        more_wanted: Callable[[int], bool],
    ) -> None:
        """Keep what is needed.

        Args:
            setting: What to run.
            expected: The same, undisturbed.
            dump: The input tables by file name.
            chance: Where all randomness comes from.
            more_wanted: Asked, with the kills of this cycle so far, whether to go on with faults.
        """
        self._setting = setting
        self._expected = expected
        self._dump = dump
        self._chance = chance
        self._more_wanted = more_wanted
        self._outcome = Outcome()
        self._sessions: list[int] = []

    def run(self) -> Outcome:
        """Go through the cycle; the outcome says what went wrong, if anything did."""
        outcome = self._outcome
        try:
            while self._command():
                pass
            if not outcome.verdict.violations:
                left = self._orphans()
                found = Snapshot.take(self._setting.store, self._setting.output)
                outcome.verdict = judge(found, self._expected.snapshot, self._dump)
                if left:
                    outcome.verdict.violations.append(f"processes {left} are left running")
        finally:
            for leader in self._sessions:
                kill_session(leader)
        return outcome

    def _command(self) -> bool:
        """Start the command once; True if it has to be started again."""
        last = self._outcome.commands >= _MAX_COMMANDS
        restarts = self._chance.choice(RESTARTS)
        run = start_command(self._setting, self._outcome.commands, restarts)
        self._outcome.commands += 1
        self._sessions.append(run.process.pid)
        done: list[Fault] = []
        while not last and self._more_wanted(self._outcome.kills()):
            fault = self._disturb(run)
            if fault is None:
                break
            done.append(fault)
            if fault in (Fault.KILL_MAIN, Fault.KILL_GROUP):
                break
        status = self._wait(run)
        allowed = _allowed_statuses(done, run.restarts)
        if status is None:
            self._complain(run, f"still runs {LIMIT_SECONDS} s after {done or 'its start'}")
        elif status not in allowed:
            words = done or "nothing"
            self._complain(run, f"ended with {status} after {words}; expected one of {allowed}")
        elif last and status != _DONE:
            self._complain(run, f"ended with {status} though nothing was done to it")
        return status != _DONE and not self._outcome.verdict.violations

    def _disturb(self, run: Run) -> Fault | None:
        """Wait for a random moment and do something; None if the command ended before."""
        if not run.wait_for(self._moment(run), self._expected.num_parts):
            return None
        fault = choose_fault(run, self._chance)
        # What the output holds at that moment says which stage it is, not what was aimed at.
        stage = run.stage(self._expected.num_parts)
        if not strike(run, fault, self._chance):
            return None
        self._outcome.struck[stage, fault] += 1
        return fault

    def _moment(self, run: Run) -> Moment:
        """Draw a stage that lies ahead, half by how long it takes and half evenly, and a moment.

        Moments are even over a stage: over its parts while there are parts to wait for, over its
        seconds otherwise. Those are cut short, since a run that ends too early has to be done anew.
        """
        num_parts = self._expected.num_parts
        now = run.stage(num_parts)
        ahead = [
            stage
            for stage in stages_ahead(run.before, num_parts)
            if STAGES.index(stage) >= STAGES.index(now)
        ]
        num_done = len(part_names(run.before))
        seconds = dict(self._expected.seconds)
        seconds[Stage.PLANNING] *= 1 - _IMPORTED
        seconds[Stage.SCORING] *= 1 - num_done / num_parts
        total = sum(seconds[stage] for stage in ahead)
        weights = [seconds[stage] / total + 1 / len(ahead) for stage in ahead]
        stage = self._chance.choices(ahead, weights)[0]
        if stage is Stage.SCORING:
            parts = self._chance.randint(num_done, num_parts - 1)
            return Moment(stage, self._chance.uniform(0, seconds[stage] / num_parts), parts)
        if stage is Stage.PLANNING:
            whole = self._expected.seconds[stage]
            return Moment(stage, whole * self._chance.uniform(_IMPORTED, 1))
        return Moment(stage, _CUT_SHORT * self._chance.uniform(0, seconds[stage]))

    def _wait(self, run: Run) -> int | None:
        """Return the command's status, None if it does not end."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not run.is_over() and time.monotonic() < deadline:
            time.sleep(0.05)
        return run.process.poll()

    def _orphans(self) -> list[int]:
        """Return the processes that are left, of this command or of one before it."""
        return [p for leader in self._sessions for p in wait_until_gone(leader, ORPHAN_SECONDS)]

    def _complain(self, run: Run, words: str) -> None:
        self._outcome.verdict.violations.append(f"command {run.log.stem} {words}; see {run.log}")


def _allowed_statuses(done: list[Fault], restarts: int | None) -> tuple[int, ...]:
    """Return the statuses a command may end with after these faults.

    A worker that is killed without work costs nothing, so the run may also go on after more deaths
    than `restarts`.
    """
    deaths = done.count(Fault.KILL_WORKER)
    harmless = {Fault.STOP_MAIN, Fault.STOP_WORKER}
    if deaths <= (1 if restarts is None else restarts):
        harmless.add(Fault.KILL_WORKER)
    if set(done) <= harmless:
        return (_DONE,)
    if done[-1] in (Fault.KILL_MAIN, Fault.KILL_GROUP):
        # A command that has just ended by itself still takes the signal.
        return (-9, _DONE, _BROKEN) if Fault.STORE_BURST in done else (-9, _DONE)
    return (_DONE, _BROKEN)


def _end(run: Run) -> None:
    """Leave nothing running."""
    kill_session(run.process.pid)
    run.process.wait()
