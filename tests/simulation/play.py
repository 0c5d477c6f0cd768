"""One seed: a world is drawn, played to its end, and a last command must put everything right."""

import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from bertscore_beam.dump import parquet
from bertscore_beam.run.alone import LOCK_FILE
from bertscore_beam.run.publication import MOVING
from tests.simulation import store
from tests.simulation.commands import VERSIONS, Command, know
from tests.simulation.places import placed
from tests.simulation.pool import DETACHED, LOCAL, SERVICE
from tests.simulation.publishing import GUARDED
from tests.simulation.runs import Fleet
from tests.simulation.watch import Watch, faults, head_of, successful, vouching
from tests.simulation.world import Hazards, Process, World

_RATES = (0.0, 0.0, 0.0, 0.002, 0.006)
_PAUSES = (0.0, 0.005, 0.03)
_AGAIN_AFTER = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a seed.

    Attributes:
        seed: The seed.
        late: Whether writes could come late.
        hazards: What could happen to a step.
        kind: Where the output folder was.
        found: What was wrong at any time; nothing if all is well.
        left: What was still wrong after the last command.
        ended: How each launcher has ended.
        trace: What happened.
    """

    seed: int
    late: bool
    hazards: Hazards
    kind: str
    found: tuple[str, ...]
    left: tuple[str, ...]
    ended: dict[str, str]
    trace: tuple[str, ...]


def play(seed: int, *, late: bool = False) -> Played:
    """Play the world of a seed.

    Args:
        seed: The seed.
        late: Whether writes and deletions may come long after they were sent. All commands have the
            same input and settings then, and may differ in the rows of a part.
    """
    draw = Random(f"{seed}{late}")
    kind = draw.choice(("disk", *store.KINDS))
    hazards = Hazards(
        fails=draw.choice(_RATES),
        lost=draw.choice(_RATES),
        kills=draw.choice(_RATES),
        pauses=draw.choice(_PAUSES),
        late=draw.choice((0.005, 0.02, 0.05)) if late else 0.0,
    )
    drawn = _draw_commands(draw, alike=late)
    know(drawn)
    parquet._footers.clear()  # of a world before, whose stores counted from one as well
    world = World(seed)
    with (
        tempfile.TemporaryDirectory(prefix="bertscore-simulation-") as folder,
        placed(world, kind, Path(folder)) as (output, files),
    ):
        watch = Watch(files, is_guarded=kind in GUARDED)
        world.after_change = watch.look
        fleet = Fleet(world, output, watch)
        fleet.declared_dead = draw.choice((0.0, 0.0, 0.2))
        fleet.leaves = draw.choice((0.0, 0.0, 0.7))
        fleet.score_seconds = draw.choice((1.0, 5.0, 20.0, 100.0))
        fleet.start_seconds = draw.choice((0.0, 0.0, 300.0))
        fleet.has_faults = hazards.fails > 0 or hazards.lost > 0
        fleet.is_late = late
        heir = draw.choice(drawn)
        fleet.inherit = lambda dead: _inherit(fleet, heir, dead)
        world.note(f"seed {seed}, {kind}, {hazards}")
        for number, command in enumerate(drawn):
            _send(fleet, draw, f"L{number + 1}", command, hazards)
        world.run()
        left = _close(fleet, drawn[0], is_guarded=kind in GUARDED)
        watch.found |= dict.fromkeys(left)
    return Played(
        seed=seed,
        late=late,
        hazards=hazards,
        kind=kind,
        found=tuple(watch.found),
        left=tuple(left),
        ended=fleet.ended,
        trace=tuple(world.trace),
    )


def _draw_commands(draw: Random, *, alike: bool) -> list[Command]:
    """Draw two or three commands on one folder; each may differ from the first in one way."""
    first = Command()
    if alike:
        rows = [draw.choice((2, 2, 3)) for _ in range(3)]
        return [replace(first, split_rows=number) for number in rows]
    changes = (
        {},
        {},
        {"layers": 2, "overwrite": True},
        {"layers": 2, "overwrite": True},
        {"layers": 2},
        {"version": draw.choice(VERSIONS[1:])},
        {"split_rows": 3},
        {"split_rows": 3, "overwrite": True, "layers": 2},
    )
    return [first, *(replace(first, **draw.choice(changes)) for _ in range(draw.choice((1, 2))))]


def _send(fleet: Fleet, draw: Random, name: str, command: Command, hazards: Hazards) -> None:
    """Give a command somewhere at some moment, and up to twice again, as a scheduler does."""
    manner = draw.choice((LOCAL, LOCAL, SERVICE, DETACHED))
    after, most = draw.uniform(0, draw.choice((60, 60, 300))), draw.choice((1, 3))
    world = fleet.world

    def try_again(number: int) -> None:
        one = f"{name}{'abc'[number]}"
        process = world.process(one, hazards)

        def work() -> None:
            try:
                fleet.launch(process, command, manner, hazards)
            finally:
                if number + 1 < most and fleet.ended[one] != "status 0":
                    world.later(draw.uniform(0, _AGAIN_AFTER), lambda: try_again(number + 1))

        world.start(process, work)

    world.later(after, lambda: try_again(0))


def _inherit(fleet: Fleet, command: Command, dead: Process) -> None:
    """Let another command take the folder over while workers of a dead one may still write."""
    world = fleet.world
    process = world.process(f"heir of {dead.name}", dead.hazards)
    world.start(process, lambda: fleet.launch(process, command, LOCAL, dead.hazards))


def _close(fleet: Fleet, first: Command, *, is_guarded: bool) -> list[str]:
    """Give a last command, where nothing goes wrong any more; return what is wrong then.

    In a store without conditions another writer may have come in between before: what that has
    left may be seen until then.
    """
    world, watch = fleet.world, fleet.watch
    stuck = [
        other.name for other in world.processes if not all(actor.is_done for actor in other.actors)
    ]
    left = [f"{name} waits for ever" for name in stuck]
    files = watch.files()
    head = head_of(files)
    is_moving = head is not None and head["state"] == MOVING
    if is_guarded and "status 0" in _of_jobs(fleet) and not (successful(files) or is_moving):
        left.append("a success was undone")
    command = watch.begun.get(head["token"] if head else "", replace(first, overwrite=True))
    fleet.has_faults, fleet.is_late = False, False
    fleet.declared_dead = fleet.leaves = 0.0
    if not is_guarded:
        watch.found.clear()
    for number in range(1 if is_guarded else 2):
        process = world.process(f"last{number}", Hazards())
        world.start(process, partial(fleet.launch, process, command, LOCAL, Hazards()))
        world.run()
    files, ended = watch.files(), fleet.ended[process.name]
    if ended != "status 0" or successful(files) is None:
        left.append(f"the last command ends otherwise: {ended}")
    if LOCK_FILE in files:
        left.append("a lock is left at the end")
    return [*left, *vouching(files), *faults(files, command)]


def _of_jobs(fleet: Fleet) -> set[str]:
    """Return how launchers have ended that waited for their jobs."""
    return {how for name, how in fleet.ended.items() if name not in fleet.detached}
