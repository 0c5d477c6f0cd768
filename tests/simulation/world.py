"""Threads that run one at a time, in the order of a simulated clock, and processes that may die.

An actor is a thread of a simulated process. It runs until its next step: an operation of the store
or a wait. The scheduler draws how long the step takes, and goes on with whoever
comes next by the clock. All draws come from one seed, so the same seed gives the same run.
"""

import heapq
import random
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

LONGEST_STEP = 0.3
"""Most seconds that an answer of the store takes on its way, and as much on its way back."""


class Stopped(BaseException):
    """The process of this actor has ended: it is killed, and does nothing more, not even clean up.

    No `except Exception` and no `suppress(Exception)` holds it up.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazards:
    """What may happen to a step, each with its probability.

    Attributes:
        fails: The store answers with an error and has done nothing.
        lost: The store has done it, and its answer is lost: an error, too.
        kills: The process is killed, before the step, or while its request is on the way.
        pauses: The process stands still for up to two minutes.
        late: A write or deletion happens up to two minutes later than it was sent. The process
            waits for it, or has an error, or stands still meanwhile.
    """

    fails: float = 0.0
    lost: float = 0.0
    kills: float = 0.0
    pauses: float = 0.0
    late: float = 0.0


@dataclass(eq=False)
class Process:
    """A simulated process.

    Attributes:
        name: What the trace calls it.
        alive: Whether it runs.
        paused_until: It stands still until then.
        hazards: What may happen to its steps.
        actors: Its threads.
    """

    name: str
    hazards: Hazards
    alive: bool = True
    paused_until: float = 0.0
    actors: list["Actor"] = field(default_factory=list)


class Actor:
    """A thread of a simulated process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.turn = threading.Semaphore(0)
        self.waits = 0  # how often it has waited: a later call for an earlier wait means nothing
        self.is_done = False
        self.joining: list[Actor] = []


class World:
    """A clock, a schedule and the processes under it.

    Attributes:
        now: Seconds since the world began.
        random: All draws come from it.
        processes: All processes that ever were.
        trace: The steps that changed something, and what befell them.
        after_change: Is called after each change of the store.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self._names = random.Random(seed)
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.after_change: Callable[[], None] = lambda: None
        self.errors: list[BaseException] = []
        self._events: list[tuple[float, int, Callable[[], Actor | None]]] = []
        self._count = 0
        self._actors: dict[int, Actor] = {}
        self._outside = threading.Semaphore(0)

    # Processes and their threads.

    def process(self, name: str, hazards: Hazards) -> Process:
        """Add a process."""
        made = Process(name, hazards)
        self.processes.append(made)
        return made

    def start(self, process: Process, work: Callable[[], object], after: float = 0.0) -> Actor:
        """Start a thread of a process, some seconds from now."""
        actor = Actor(process)
        process.actors.append(actor)

        def run() -> None:
            actor.turn.acquire()
            self._actors[threading.get_ident()] = actor
            try:
                if process.alive:
                    work()
            except Stopped:
                pass
            except BaseException as error:
                self.errors.append(error)
            del self._actors[threading.get_ident()]
            actor.is_done = True
            for waiting in actor.joining:
                self.wake(waiting)
            self._hand_over()

        threading.Thread(target=run, daemon=True).start()
        self._wake_at(actor, self.now + after)
        return actor

    def run(self) -> None:
        """Let everything happen until nobody has anything to do; raise what an actor has raised."""
        self._hand_over()
        self._outside.acquire()
        if self.errors:
            raise self.errors[0]

    @property
    def me(self) -> Actor | None:
        """The actor that runs; None outside the world."""
        return self._actors.get(threading.get_ident())

    def here(self) -> Process:
        """Return the process of the actor that runs."""
        return self.actor().process

    def actor(self) -> Actor:
        """Return the actor that runs."""
        assert self.me is not None
        return self.me

    def kill(self, process: Process) -> None:
        """End a process; its threads find out at their next step."""
        if process.alive:
            self.note(f"{process.name} is killed")
            process.alive = False
            for actor in process.actors:
                if not actor.is_done:
                    self._wake_at(actor, self.now)

    def pause(self, process: Process, seconds: float) -> None:
        """Let a process stand still."""
        self.note(f"{process.name} stands still for {seconds:.0f} s")
        process.paused_until = self.now + seconds

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do something that nobody waits for."""

        def happen() -> None:
            act()

        self._push(self.now + seconds, happen)

    def note(self, words: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now:8.2f} {words}")

    # Waiting.

    def sleep(self, seconds: float) -> None:
        """Wait."""
        actor = self.actor()
        self._check()
        self._wake_at(actor, self.now + seconds)
        self._wait(actor)

    def wake(self, actor: Actor) -> None:
        """End a wait that has no end of its own."""
        self._wake_at(actor, self.now)

    def wait(self) -> None:
        """Wait until somebody calls `wake`."""
        self._check()
        self._wait(self.actor())

    def _check(self) -> None:
        if not self.here().alive:
            raise Stopped

    def _wait(self, actor: Actor) -> None:
        following = self._following()
        if following is not actor:
            (self._outside if following is None else following.turn).release()
            actor.turn.acquire()
        actor.waits += 1
        self._check()

    def _wake_at(self, actor: Actor, moment: float) -> None:
        number = actor.waits

        def wake() -> Actor | None:
            if actor.is_done or actor.waits != number:
                return None
            if actor.process.alive and actor.process.paused_until > self.now:
                self._push(actor.process.paused_until + self.random.uniform(0, 0.1), wake)
                return None
            return actor

        self._push(moment, wake)

    def _push(self, moment: float, event: Callable[[], Actor | None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, event))

    def _following(self) -> Actor | None:
        """Let events happen until one wakes an actor, and return it; None if there is none."""
        while self._events:
            moment, _, event = heapq.heappop(self._events)
            self.now = max(self.now, moment)
            try:
                actor = event()
            except Exception as error:  # not of the actor whose thread this is
                self.errors.append(error)
                continue
            if actor is not None:
                return actor
        return None

    def _hand_over(self) -> None:
        following = self._following()
        (self._outside if following is None else following.turn).release()

    # Steps.

    def read(self, words: str, act: Callable[[], Any]) -> Any:
        """Read from the store: a step of the actor that runs."""
        if self.me is None:
            return act()
        self._befall(words)
        self.sleep(self._latency())
        self._fail(self.here().hazards.fails, words)
        return act()

    def change(self, words: str, act: Callable[[], Any]) -> Any:
        """Change the store: a step of the actor that runs. Its effect comes before its answer."""
        actor = self.me
        if actor is None:
            return act()
        process = actor.process
        self._befall(words)
        self._fail(process.hazards.fails, words)
        sent, answer = self._latency(), Future[Any]()
        is_late = self._happens(process.hazards.late)
        if is_late:
            sent = self.random.uniform(1, 120)
            self.note(f"{process.name}: {words} comes {sent:.0f} s late")

        def happen() -> None:
            if not process.alive and self._happens(0.5):
                return  # its request was not sent any more
            try:
                answer.set_result(act())
            except OSError as error:
                answer.set_exception(error)
            self.note(f"{process.name}: {words}{_said(answer)}")
            self.after_change()

        self.later(sent, happen)
        if is_late and (way := self.random.choice(["waits", "stands", "errs"])) != "waits":
            if way == "stands":
                self.pause(process, sent)
            else:
                self.sleep(1.0)
                raise TimeoutError(f"no answer: {words}")
        if self._happens(process.hazards.kills):
            self.kill(process)
        self.sleep(sent + self._latency())
        self._fail(process.hazards.lost, words)
        return answer.result(0)

    def _befall(self, words: str) -> None:
        """Let the process stand still or die before a step."""
        process = self.here()
        self._check()
        if self._happens(process.hazards.pauses):
            self.pause(process, self.random.uniform(5, 120))
        if self._happens(process.hazards.kills):
            self.note(f"{process.name}: not {words}")
            self.kill(process)
            raise Stopped

    def _fail(self, probability: float, words: str) -> None:
        if self._happens(probability):
            self.note(f"{self.here().name}: {words} fails")
            raise ConnectionError(f"made up by the simulation: {words}")

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def _latency(self) -> float:
        return min(LONGEST_STEP, self.random.expovariate(20))

    def uuid4(self) -> uuid.UUID:
        """Return a name that is new in this world."""
        return uuid.UUID(int=self._names.getrandbits(128), version=4)

    def outside(self, work: Callable[[], Any]) -> Any:
        """Do something that is no step and takes no time, in a thread that is no actor."""
        done = Future[Any]()

        def do() -> None:
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        thread = threading.Thread(target=do)
        thread.start()
        thread.join()
        return done.result(0)


def _said(answer: "Future[Any]") -> str:
    error = answer.exception(0)
    return "" if error is None else f": {type(error).__name__}"
