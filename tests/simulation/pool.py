"""Workers that take a job through its stages, as a runner does. The steps are the project's own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bertscore_beam.dump.plan_file import plan_from_bytes
from bertscore_beam.dump.splits import RowGroupSplits, Split, split_chunks
from bertscore_beam.dump.texts import Rows
from bertscore_beam.records.records import own_file
from bertscore_beam.run.publication import move_shard
from bertscore_beam.score import conclude
from bertscore_beam.score.finish import judge_run
from bertscore_beam.score.scored_table import ScoredTable
from bertscore_beam.score.spec import PENDING, ScoreSpec
from bertscore_beam.score.steps import SplitScorer, SplitsWithIdf, TriedSplits
from tests.simulation import commands
from tests.simulation.world import Hazards, Process, Stopped

if TYPE_CHECKING:
    from tests.simulation.runs import Fleet

LOCAL, SERVICE, DETACHED = "local", "service", "detached"
"""Workers that end with their launcher, in a moment, and try a task once or twice; workers of a
service, which go on without it and try a task four times; and those of a job whose launcher has
left."""


class WorkerDiedError(Exception):
    """A task has cost the lives of too many workers."""


@dataclass(eq=False)
class Task:
    """Something for one worker to do.

    Attributes:
        work: Does it; takes the worker.
        tries: How often it was begun.
        is_done: Whether its result counts already.
    """

    work: Callable[["Worker"], Any]
    tries: int = 0
    is_done: bool = False
    result: Any = None


@dataclass(eq=False)
class Worker:
    """A worker process, and what it keeps between splits."""

    process: Process
    counts: bool = True
    task: Task | None = None


@dataclass(eq=False)
class Pool:
    """Takes a job through its stages, as a runner does: splits, the end.

    Attributes:
        fleet: The world and what is in it.
        spec: The job, begun.
        manner: How workers live and die.
        hazards: What may happen to them.
        error: Why the job has failed.
        is_over: Whether no task is begun any more.
    """

    fleet: "Fleet"
    spec: ScoreSpec
    manner: str
    hazards: Hazards
    name: str
    error: Exception | None = None
    is_over: bool = False
    workers: list[Worker] = field(default_factory=list)
    waiting: list[Any] = field(default_factory=list)

    def start(self) -> None:
        # Without a draw: the nights stay those that are known to find each hole.
        self.most_tries = 2 - len(self.fleet.watch.begun) % 2 if self.manner == LOCAL else 4
        self.stages = [self._end]
        try:
            name = own_file(self.spec.run, PENDING)
            plan = self.fleet.world.outside(lambda: self.spec.folder.read(name))
        except OSError as error:
            self.fleet.check_error(error)
            self._fail(error)
            return
        splits = list(plan_from_bytes(plan, PENDING).splits)
        chunks = split_chunks(splits, 2)  # two, as a rule
        self.tasks = [Task(self._scores(chunk)) for chunk in chunks]
        self._step()
        for _ in range(2):
            self._hire()

    def wait(self) -> None:
        """Wait for the end of the job, as its launcher does."""
        while not self.is_over:
            self._wait()
        if self.error is not None:
            raise RuntimeError("the job has failed") from self.error

    def abandon(self) -> None:
        """Let the workers end, in a moment, after the launcher has failed or died."""
        if self.manner == LOCAL:
            for worker in self.workers:
                seconds = self.fleet.world.random.uniform(0, 40)
                self.fleet.world.later(seconds, lambda one=worker: self._end_of(one))

    def _end_of(self, worker: Worker) -> None:
        worker.counts = False
        self.fleet.world.kill(worker.process)
        if all(not one.process.alive for one in self.workers):
            self.is_over = True

    def _hire(self) -> None:
        world = self.fleet.world
        name = f"{self.name}.{len(self.workers) + 1}"
        process = world.process(name, self.hazards)
        worker = Worker(process)
        self.workers.append(worker)
        after = 0.0
        if self.manner == DETACHED:
            after = world.random.uniform(0, self.fleet.start_seconds)
        world.start(process, lambda: self._work(worker), after=after)

    def _work(self, worker: Worker) -> None:
        world = self.fleet.world
        try:
            while (task := self._take(worker)) is not None:
                if world.random.random() < self.fleet.declared_dead:
                    seconds = world.random.uniform(0.1, 20)
                    world.later(seconds, lambda one=task: self._declare_dead(worker, one))
                try:
                    result = task.work(worker)
                except Exception as error:
                    self._failed(worker, task, error)
                else:
                    self._done(worker, task, result)
        except Stopped:
            self._lose(worker)
            raise

    def _take(self, worker: Worker) -> Task | None:
        worker.task = None
        while worker.counts and not self.is_over:
            for task in self.tasks:
                doing = [one.task for one in self.workers if one.counts]
                if not task.is_done and task not in doing:
                    worker.task = task
                    task.tries += 1
                    return task
            self._wait()
        return None

    def _declare_dead(self, worker: Worker, task: Task) -> None:
        """Let another worker do what this one may still do."""
        if worker.task is task and worker.counts and not self.is_over and not task.is_done:
            self.fleet.world.note(f"{worker.process.name} is declared dead")
            self._lose(worker)

    def _lose(self, worker: Worker) -> None:
        if worker.counts and not self.is_over:
            worker.counts = False
            if worker.task is not None and worker.task.tries >= self.most_tries + 1:
                self._fail(WorkerDiedError(worker.process.name))
            else:
                self._hire()
        self._wake()

    def _failed(self, worker: Worker, task: Task, error: Exception) -> None:
        self.fleet.world.note(f"{worker.process.name} fails: {type(error).__name__}: {error}")
        if worker.counts:  # what another worker does too may be done already, and cleared away
            self.fleet.check_error(error)
        if worker.counts and not task.is_done and task.tries >= self.most_tries:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.error, self.is_over = error, True
        self._wake()

    def _done(self, worker: Worker, task: Task, result: Any) -> None:
        if worker.counts and not task.is_done:
            task.is_done, task.result = True, result
            self._step()
            self._wake()

    def _step(self) -> None:
        """Begin the next stage when all tasks are done."""
        while not self.is_over and all(task.is_done for task in self.tasks):
            if self.stages:
                self.tasks += self.stages.pop(0)()
            else:
                self.is_over = True

    def _wait(self) -> None:
        self.waiting.append(self.fleet.world.me)
        self.fleet.world.wait()

    def _wake(self) -> None:
        if self.is_over and self.manner == DETACHED:  # a service ends its workers with their job
            for worker in self.workers:
                seconds = self.fleet.world.random.uniform(0, 20)
                self.fleet.world.later(seconds, lambda one=worker: self._end_of(one))
        waiting, self.waiting = self.waiting, []
        for actor in waiting:
            self.fleet.world.wake(actor)

    # What the tasks are.

    def _scores(self, chunk: RowGroupSplits) -> Callable[[Worker], Any]:
        chosen = SplitsWithIdf(chunk)
        return lambda _: list(SplitScorer(self.spec, self._model).run(chosen))

    def _model(self, split: Split, rows: Rows) -> ScoredTable:
        """Score rows, which takes its time; `places` puts it in the place of the scorers."""
        world = self.fleet.world
        world.sleep(world.random.expovariate(1 / self.fleet.score_seconds))
        scored: ScoredTable = world.outside(lambda: commands.score_once(self.spec, split, rows))
        return scored

    def _results(self) -> list[Any]:
        """The results of all splits."""
        return [
            result for task in self.tasks if isinstance(task.result, list) for result in task.result
        ]

    def _end(self) -> list[Task]:
        tried, spec = TriedSplits.merge(self._results()), self.spec
        assert spec.shares == 1

        def end(_: Worker) -> None:
            conclude._note(spec, (0, tried))
            names = conclude._judged(spec, judge_run, None)
            moved = [move_shard(spec.folder, name) for name in names]
            conclude._end(spec, moved)

        return [Task(end)]
