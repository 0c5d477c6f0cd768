"""Launchers in a simulated world. What they do is the project's own code."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bertscore_beam.dump.plan_file import OtherPlanError
from bertscore_beam.run.alone import FolderInUseError, alone
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.publication import settled_head
from bertscore_beam.score.job import begin_score, conclude_score
from bertscore_core.errors import SignatureError
from tests.simulation import commands
from tests.simulation.commands import Command
from tests.simulation.pool import DETACHED, Pool, WorkerDiedError
from tests.simulation.watch import Watch, head_of
from tests.simulation.world import Hazards, Process, World

EXPLAINED = (FolderInUseError, SignatureError, OtherPlanError, JobFailedError, WorkerDiedError)
"""How a command may end in a world without faults of its store."""


@dataclass(eq=False)
class Fleet:
    """The launchers of a world and their output folder.

    Attributes:
        world: The world.
        output: The folder.
        watch: What looks at it.
        declared_dead: How often a worker is declared dead that goes on.
        leaves: How often a launcher dies, or stands still, while its workers work.
        score_seconds: How long the model takes for a part, on average.
        start_seconds: How long a worker of a detached job takes to begin, at most.
        is_late: Whether writes may come so late that runs without a fault of their own fail.
        inherit: Sends another command to the machine of a launcher that has just died.
        has_faults: Whether the store may answer with an error.
        ended: How each launcher has ended, by its name.
        detached: The launchers that did not wait for their jobs.
    """

    world: World
    output: str
    watch: Watch
    declared_dead: float = 0.0
    leaves: float = 0.0
    score_seconds: float = 3.0
    start_seconds: float = 0.0
    has_faults: bool = False
    is_late: bool = False
    inherit: Callable[[Process], None] = lambda dead: None
    ended: dict[str, str] = field(default_factory=dict)
    detached: set[str] = field(default_factory=set)

    def launch(self, process: Process, command: Command, manner: str, hazards: Hazards) -> None:
        """Run a command, as `run.job.run_job` does."""
        world, name = self.world, process.name
        self.ended[name] = "killed"
        try:
            self.ended[name] = self._run(process, command, manner, hazards)
        except Exception as error:
            self.ended[name] = type(error).__name__
            world.note(f"{name} ends: {type(error).__name__}: {error}")
            cause = error.__cause__ if isinstance(error, RuntimeError) else None
            self.check_error(cause if isinstance(cause, Exception) else error)
        world.note(f"{name} has ended: {self.ended[name]}")

    def _run(self, process: Process, command: Command, manner: str, hazards: Hazards) -> str:
        world, detached = self.world, manner == DETACHED
        pool: Pool | None = None
        if detached:
            self.detached.add(process.name)
        try:
            with alone(self.output):
                folder = OutputFolder(self.output)
                settled_head(folder)
                planned = world.outside(lambda: commands.planned(command, self.output))
                spec, diff = begin_score(planned, folder, world.note)
                spec = replace(spec, detached=detached)
                self.watch.begun[spec.run] = command
                world.note(f"{process.name} has begun run {spec.run}: {command}, {manner}")
                if diff.to_do or detached:
                    pool = Pool(self, spec, manner, hazards, process.name)
                    pool.start()
                    if world.random.random() < self.leaves:
                        self._leave(process)
                    if not detached:
                        pool.wait()
                return f"status {conclude_score(spec).status}"
        except BaseException:
            if pool is not None:
                pool.abandon()
            raise

    def _leave(self, process: Process) -> None:
        """Let a launcher die, or stand still, at some moment."""
        world = self.world
        seconds, stands = world.random.uniform(0, 20), world.random.uniform(40, 120)
        if world.random.random() < 0.5:
            world.later(seconds, lambda: world.kill(process))
            world.later(seconds + world.random.uniform(0, 2), lambda: self.inherit(process))
        else:
            world.later(seconds, lambda: world.pause(process, stands))

    def check_error(self, error: Exception) -> None:
        """Note an error that nothing in this world explains.

        A run may find files gone that it was about to read: another one has published since.
        """
        is_race = isinstance(error, FileNotFoundError) and head_of(self.watch.files()) is not None
        if self.is_late or is_race or isinstance(error, EXPLAINED):
            return
        if not (self.has_faults and isinstance(error, OSError)):
            self.watch.found[f"an error without a cause: {type(error).__name__}: {error}"] = None
