"""The processes of this machine that run steps, with a pipe to each.

    launcher: `submit` --> a thread for each child --pipe--> child: `bertscore_beam.run.child`

A child works on one element at a time, or on a few if it has a GPU: while the GPU computes for one,
others are read and written. Each result is sent as it comes. If a child dies, only what it has not
sent is lost. Its elements are named, and tried again in a new child, which sends what is missing. A
run survives `restarts` deaths. Beside an `Answer` a child sends its `Activity` now and then, a line
of the log as name, level and text, and as a text why it is about to end.

No child outlives the launcher: its pipe ends then, and on Linux it gets SIGKILL at once. A thread
starts its child and every replacement, and lives as long as the pool, since that signal is sent
when the thread that has started a child ends. A child is a process group: Ctrl-C does not reach it,
and all that it has started is killed with it, its own pools too. Only a launcher that is killed
leaves what has no pipe to it.

No port is opened, and no socket that another process could find.
"""

import itertools
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from bertscore_beam.run import activity
from bertscore_beam.run.activity import Activity
from bertscore_beam.run.gpus import VISIBLE
from bertscore_beam.run.output import DEVICE_LOST, JobFailedError, is_death

# A step that opens files or handles rows: a plain function of an element that yields results.
#
# A step knows nothing of Beam, so that a process without Beam can run it. Only its elements and
# results can cross a stage boundary; texts and scores stay inside the function.


class Step(Protocol):
    """What is done with each element of a collection. It is pickled and sent to workers."""

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Load what the step needs, and return its function.

        Threads share the function. It may be called with the same element again, and then yields as
        many results in the same order: what has been sent before is not sent again.
        """

    def name(self, element: Any, /) -> str:
        """Return the name that people know an element by."""


@dataclass(frozen=True, slots=True)
class Each:
    """A step that loads nothing.

    Attributes:
        name: Returns the name that people know an element by.
    """

    function: Callable[[Any], Iterable[Any]]
    name: Callable[[Any], str]

    def open(self) -> Callable[[Any], Iterable[Any]]:
        """Return the function."""
        return self.function


logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_LAST_CALL_SECONDS = 10.0
"""How long to wait for the last file operations of killed children."""

_CLOSED = "the pool of processes is closed"

_NO_PROCESS = (
    "no worker process can be started: got {}; expected room for one more. Close other programs, "
    "or use fewer --workers."
)

_PROGRAM = (sys.executable, "-P", "-m", "bertscore_beam.run.child")

_IN_CHILD = _PROGRAM[-1] in sys.orig_argv
"""Whether this process is a child: what it starts belongs to its process group."""

_LOCK_SECONDS = 1.0
"""How long to wait for another thread before children are killed all the same."""

_ALIVE_SECONDS = 1.0
"""How often to look whether a child that says nothing lives."""

_LOOK_SECONDS = 0.05
"""How often to look for another element while a child has room for it."""

_MOST_LOGGED = 100
"""Log lines that are remembered: the children of a pool say the same at their start."""

_MOST_NAMED = 5
"""Most elements that are named as those on which children died."""


class WorkersDiedError(RuntimeError):
    """Processes died more often than elements may be tried again; `death` says how the last did."""

    def __init__(self, message: str, death: str = "") -> None:
        """Make it, of a message that begins with the death."""
        super().__init__(message)
        self.death = death


@dataclass(frozen=True, slots=True)
class Answer:
    """Some results of an element, or what became of it.

    Attributes:
        number: The element's number in the child.
    """

    number: int = 0
    results: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    is_last: bool = True


@dataclass(slots=True)
class Task:
    """An element to be worked on; `received` of its results have come, `on_answer` takes more."""

    step: bytes
    element: bytes
    name: str
    on_answer: Callable[[Answer], None]
    received: int = 0


class Pool:
    """Children that run steps. They are started when there is work for them."""

    def __init__(
        self,
        processes: int,
        *,
        restarts: int,
        at_once: int = 1,
        threads: int | None = None,
        gpus: Sequence[str] = (),
    ) -> None:
        """Make a pool without children.

        Args:
            processes: Most children.
            restarts: How many deaths of children the run survives.
            at_once: How many elements a child works on at the same time, each in a thread.
            threads: Threads of each child, those of the tokenizers included; None for their choice.
            gpus: The GPUs that children are spread over, as `gpus_to_share` returns them.
        """
        self._processes = processes
        self._restarts = restarts
        self.at_once = at_once
        self._threads = threads
        self._gpus = gpus
        self.tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._children: list[_Child] = []
        self._deaths: list[Sequence[str]] = []  # the names of what was in hand
        self.log_once = lru_cache(_MOST_LOGGED)(_log)
        self._outstanding = 0
        self._begun = self._loaded = False
        # Reentrant, since a signal handler may need it while this thread has it.
        self.lock = threading.RLock()
        self.closing = False
        self.failure: BaseException | None = None

    @property
    def most_in_flight(self) -> int:
        """How many elements to submit before an answer is waited for."""
        return 2 * self._processes * self.at_once

    @property
    def restarts(self) -> int:
        """How many deaths of children the run has survived."""
        return min(len(self._deaths), self._restarts)

    def begin_stage(self, *, loads: bool = True) -> None:
        """Begin a stage, when no element is in the pool.

        Children of an earlier stage that loads anything end: it would lie in memory, or on a GPU,
        beside what this one loads.
        """
        if self._loaded:
            for child in self._children:
                child.end()
        if not self._begun:  # what happened in planning has cost no work
            self._deaths.clear()
        self._begun, self._loaded = True, loads
        activity.reset()

    def submit(
        self, step: bytes, name: str, element: Any, on_answer: Callable[[Answer], None]
    ) -> None:
        """Hand over an element, with its name and the step, pickled once; returns at once."""
        if self.closing:
            raise RuntimeError(_CLOSED)
        task = Task(
            step=step,
            element=pickle.dumps(element, pickle.HIGHEST_PROTOCOL),
            name=name,
            on_answer=on_answer,
        )
        with self.lock:
            self._outstanding += 1
            if len(self._children) < min(self._outstanding, self._processes):
                self._children.append(_Child(self, len(self._children)))
        self.tasks.put(task)

    def take(self, answer: Answer) -> list[Any]:
        """Return the results of an answer."""
        with self.lock:
            self._outstanding -= answer.is_last
            if answer.error is not None:
                self.failure = self.failure or answer.error
                raise answer.error
        return answer.results

    def results(self, step: Step, elements: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of elements, one element after the other; nobody counts."""
        pickled = pickle.dumps(step, pickle.HIGHEST_PROTOCOL)
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        for element in elements:
            self.submit(pickled, step.name(element), element, answers.put)
            is_done = False
            while not is_done:
                answer = answers.get()
                is_done = answer.is_last
                yield from self.take(answer)

    def begin(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Begin to call a function in a child; the future gets what it returns."""
        future: Future[Result] = Future()
        found: list[Result] = []

        def receive(answer: Answer) -> None:
            try:
                found.extend(self.take(answer))
            except BaseException as error:
                self.failure = None  # the caller may go on
                future.set_exception(error)
            else:
                if answer.is_last:
                    future.set_result(found[0])

        step = pickle.dumps(_CALL, pickle.HIGHEST_PROTOCOL)
        asked = function, arguments
        self.submit(step, _CALL.name(asked), asked, receive)
        return future

    def ask(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function in a child and return what it returns."""
        return self.begin(function, *arguments).result()

    def environment(self, number: int) -> dict[str, str]:
        """Return the environment variables of a child."""
        variables = {**os.environ, "PYTHONSAFEPATH": "1"}  # no modules of the current folder
        if self._threads is not None:
            variables.setdefault("RAYON_NUM_THREADS", str(self._threads))
            variables.setdefault("OMP_NUM_THREADS", str(self._threads))
        if self._gpus:
            variables[VISIBLE] = self._gpus[number % len(self._gpus)]
        return variables

    def died(self, names: Sequence[str], code: int, cause: str) -> WorkersDiedError | None:
        """Take note of a death.

        Returns:
            None if the elements may be tried again.
        """
        cause = cause or f"return code {code}"
        death = f"a worker process died ({cause})"
        message = f"{death} while working on {_listed(names)}. {_advice(code)}"
        if not is_death(code):  # a new one would end in the same way
            return WorkersDiedError(message, death)
        with self.lock:
            self._deaths.append(names)
            deaths = list(self._deaths)
        if len(deaths) > self._restarts:
            words = f"{message}{_earlier_deaths(deaths, self._restarts)}"
            return WorkersDiedError(words, death)
        logger.warning(
            "%s A new process tries again (restart %d of %d).", message, len(deaths), self._restarts
        )
        return None

    def kill(self) -> None:
        """Kill all children, and wait until their last file operations have ended.

        Waiting makes sure that a run that has ended no longer changes its folder.
        """
        # Without the lock after a while: its owner may wait for what a signal has interrupted.
        is_held = self.lock.acquire(timeout=_LOCK_SECONDS)
        try:
            self.closing = True
            children = list(self._children)
            for child in children:
                child.kill()
        finally:
            if is_held:
                self.lock.release()
        for _ in children:
            self.tasks.put(None)
        end = time.monotonic() + _LAST_CALL_SECONDS
        for child in children:
            child.join(max(end - time.monotonic(), 0))
        with suppress(queue.Empty):
            while True:
                if (task := self.tasks.get(block=False)) is not None:
                    task.on_answer(Answer(error=RuntimeError(_CLOSED)))


class _Child(threading.Thread):
    def __init__(self, pool: Pool, number: int) -> None:
        super().__init__(name=f"child-{number}", daemon=True)
        self._pool = pool
        self._number = number
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._cause = ""  # why the child is about to end, if it has reported that
        self._numbers = itertools.count()
        self._hand: dict[int, Task] = {}
        self._sent: set[int] = set()  # those of them that the child has
        self.start()

    def kill(self) -> None:
        child = self._child
        if child is not None:
            with suppress(OSError):
                if _IN_CHILD:
                    child[0].kill()
                else:  # also a group whose first process is dead
                    os.killpg(child[0].pid, signal.SIGKILL)

    def run(self) -> None:
        while self._fill():
            try:
                self._work()
            except Exception as error:  # whatever it is, no element may stay without an answer
                self.end()  # its own answers would come later
                self._answer_all(error)
        self.end()
        self._answer_all(RuntimeError(_CLOSED))

    def _fill(self) -> bool:
        """Take elements, and wait for one if there is none in hand; False if the pool is closed."""
        while len(self._hand) < self._pool.at_once and not self._pool.closing:
            try:
                task = self._pool.tasks.get(block=not self._hand)
            except queue.Empty:
                break
            if task is None:
                return False
            self._hand[next(self._numbers)] = task
        return not self._pool.closing

    def _work(self) -> None:
        code = None if self._child is None or self._sent else self._child[0].poll()
        if code is not None:
            logger.warning("a worker process died while it had no work (return code %d)", code)
            self.end()
        if self._child is None:
            try:
                self._start()
            except OSError as error:
                raise JobFailedError(_NO_PROCESS.format(error)) from error
        try:
            lives = self._child is None or self._talk(*self._child)
        except (EOFError, ConnectionError):
            lives = False
        if not lives:
            names = [task.name for number, task in self._hand.items() if number in self._sent]
            code = self.end()
            died = None if self._pool.closing else self._pool.died(names, code, self._cause)
            if died is not None:
                self._answer_all(died)

    def _talk(self, process: "subprocess.Popen[bytes]", pipe: Connection) -> bool:
        """Send new elements and take one message; False if the child has died."""
        for number in self._hand.keys() - self._sent:
            task = self._hand[number]
            self._sent.add(number)
            pipe.send((number, task.step, task.element, task.received))
        # What a child has started may keep the pipe open when the child is dead.
        is_full = len(self._hand) == self._pool.at_once
        if not pipe.poll(_ALIVE_SECONDS if is_full else _LOOK_SECONDS):
            return process.poll() is None or pipe.poll(0)
        match pickle.loads(pipe.recv_bytes()):  # noqa: S301 - from our own child
            case Answer() as answer:
                task = self._hand[answer.number]
                if answer.is_last:
                    self._sent.discard(answer.number)
                    del self._hand[answer.number]
                else:
                    task.received += len(answer.results)
                task.on_answer(answer)
            case Activity() as state:
                activity.update_child(process.pid, state)
            case str() as cause:  # why it is about to end
                self._cause = cause
            case line:
                with self._pool.lock:  # two threads may say the same
                    self._pool.log_once(*line)
        return True

    def _answer_all(self, error: Exception) -> None:
        for number in list(self._hand):
            self._hand.pop(number).on_answer(Answer(error=error))

    def _start(self) -> None:
        ours, its = Pipe()
        self._cause = ""
        with its, self._pool.lock:  # only the child keeps its end, so the pipe closes when it ends
            if self._pool.closing:
                return
            process = subprocess.Popen(  # noqa: S603 - this program itself
                [*_PROGRAM, *map(str, (its.fileno(), os.getpid(), self._pool.at_once))],
                env=self._pool.environment(self._number),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what a library prints is not a result
                pass_fds=[its.fileno()],
                process_group=None if _IN_CHILD else 0,
            )
            self._child = process, ours

    def end(self) -> int:
        child = self._child
        if child is None:
            return 0
        process, pipe = child
        self.kill()
        code = process.wait()
        self._child = None
        self._sent.clear()
        pipe.close()
        activity.drop_child(process.pid)
        return code


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _earlier_deaths(deaths: Sequence[Sequence[str]], restarts: int) -> str:
    *before, last = deaths
    limit = f" --restarts allows {restarts}."
    if not before:
        return limit
    common = set(last).intersection(*before)
    earlier = [name for names in before for name in names]
    if not common:
        where = f"while working on {_listed(list(dict.fromkeys(earlier)))}"
    elif common == {*last, *earlier}:
        where = "while working on the same"
    else:
        where = f"each time while working on {_listed(sorted(common))}"
    times = "once" if len(before) == 1 else f"{len(before)} times"
    return f" It had happened {times} before in this run, {where}.{limit}"


def _advice(code: int) -> str:
    if code == DEVICE_LOST:
        return "The driver's log (dmesg) says more about a GPU that fails again and again."
    if code == -signal.SIGKILL:
        return (
            "It was killed, most often for lack of memory: try fewer --workers or a smaller "
            "--split-rows."
        )
    return "Its output above may say more."


def _log(name: str, level: int, message: str) -> None:
    logging.getLogger(name).log(level, "%s", message)


def _call(asked: tuple[Callable[..., Any], Sequence[Any]]) -> Iterator[Any]:
    function, arguments = asked
    yield function(*arguments)


def _called(asked: tuple[Callable[..., Any], Sequence[Any]]) -> str:
    return asked[0].__name__.replace("_", " ")


_CALL = Each(_call, _called)

# Of the process, since Beam makes its own copy of each step, and a pool cannot be pickled: a step
# looks for it where it runs. A process has one run at a time.
_opened: Pool | None = None


def opened() -> Pool | None:
    """Return the pool of the run that is under way; None if steps run in this process."""
    return _opened


def ask(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a child of the open pool, or here without one."""
    return function(*arguments) if _opened is None else _opened.ask(function, *arguments)


def results(step: Step, elements: Iterable[Any]) -> Iterator[Any]:
    """Yield the results of elements from children of the open pool, or from here without one."""
    if _opened is not None:
        yield from _opened.results(step, elements)
        return
    run = None
    for element in elements:
        run = run or step.open()
        yield from run(element)


def restarts() -> int:
    """Return how many deaths of children the run that is under way has survived."""
    return 0 if _opened is None else _opened.restarts


@contextmanager
def opening(pool: Pool | None) -> Iterator[None]:
    """Run steps in a pool while the body runs; None for this process."""
    global _opened
    before, _opened = _opened, pool
    try:
        yield
    finally:
        _opened = before
        if pool is not None:
            pool.kill()


def kill_opened() -> None:
    """Kill the children of the open pool, before this process ends."""
    if _opened is not None:
        _opened.kill()
