"""Publication under a scheduler: launchers that stage and publish, and what watches the folder.

    python -m tests.simulation.publishing 17          # the world of seed 17, step by step
    python -m tests.simulation.publishing 0 2000      # seeds 0 to 1999, and what each has found

Two kinds of histories: `suspended` stops a launcher before any one step, lets others run to their
ends, and wakes it; `drawn` lets several run at once while whatever can go wrong does. Settings A, B
and C cut the rows of the input in other ways, so that parts of two runs never make one whole.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bertscore_beam.files.checked import digest_of, from_json
from bertscore_beam.run import publication
from bertscore_beam.run.alone import FolderInUseError, alone
from bertscore_beam.run.folder import SUCCESS_FILE, OutputFolder
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.publication import HEAD_FILE, Entry, Head
from tests.simulation.places import placed
from tests.simulation.watch import is_part
from tests.simulation.world import Actor, Hazards, Process, World

CUTS = {
    "A": {0: (0, 1), 2: (2, 3), 4: (4, 5)},
    "B": {0: (0, 1, 2), 3: (3, 4, 5)},
    "C": {0: (0, 1, 2, 3, 4, 5)},
}
"""The rows of each part, by the first of them."""
ROWS = range(6)
SUMMARY = "_summary.json"
STORES = ("s3", "kms", "gs")
GUARDED = ("disk", *STORES)
"""Where nobody comes between a look and a change."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a launcher is told.

    Attributes:
        setting: One of `CUTS`.
        overwrite: Whether other scores are replaced.
        fails: Whether a gate fails.
        bits: What tells the workers of this run, whose last bits differ from those of others.
        repeated: Whether the runner does the publication twice.
    """

    setting: str
    overwrite: bool = False
    fails: bool = False
    bits: int = 0
    repeated: bool = False

    @classmethod
    def of(cls, words: str) -> "Order":
        """Read `A`, `Bo` to overwrite, `Cf` whose gate fails, `A1` other bits, `Ar` repeated."""
        return cls(words[0], "o" in words, "f" in words, int("1" in words), "r" in words)


@dataclass(eq=False)
class Launcher:
    """Does what the job will do, with parts of a few rows.

    Attributes:
        output: The folder.
        random: Draws what workers do.
        token: Returns a name that is new.
        note: Takes a line for the trace.
        repeat: Does the publication once more, as a runner may, at the same time.
        read: The epoch that was found before the work was planned; None before.
    """

    output: str
    random: Random
    token: Callable[[], str]
    note: Callable[[str], object] = lambda words: None
    repeat: Callable[[Callable[[], object]], object] = lambda publish: None
    read: int | None = None

    def part_token(self) -> str:
        """Return what makes a staged part one of its own."""
        return self.token()

    def run(self, order: Order) -> int:
        """Carry an order out; return the status that a command would end with.

        Raises:
            OSError: The store does not answer.
        """
        try:
            with alone(self.output):
                return self._run(order)
        except FolderInUseError:
            return 2
        except JobFailedError as error:
            self.note(str(error))
            return 1

    def _run(self, order: Order) -> int:
        folder = OutputFolder(self.output)
        head = publication.settled_head(folder)
        self.read = 0 if head is None else head.epoch
        self.note(f"has read epoch {self.read}: {order}")
        is_success = publication.is_success(folder, head)
        shards = publication.read_shards(folder, [] if head is None else head.shards)
        earlier = {entry.name: entry for shard in shards if shard for entry in shard.entries}
        settings = {entry.note["setting"] for entry in earlier.values()}
        if settings - {order.setting} and not order.overwrite:
            return 2
        if is_success and not (order.overwrite or order.fails):
            return 0
        # Also parts that no manifest names: of a head that was lost, where nothing guards it.
        known = {*earlier, *(name for name in folder.files() if is_part(name))}
        entries = self._scored(folder, head, order, {} if order.overwrite else earlier)
        if order.fails and is_success:
            return 3
        token = self.token()
        summary = f"_work/summary-{token}.json"
        parts = sorted(entry.name for entry in entries)
        folder.write(summary, json.dumps({"token": token, "parts": parts}).encode())
        note = {"setting": order.setting}
        entries.append(Entry(name=SUMMARY, staged=summary, note=note))
        success = None if order.fails else note
        given = folder, head, token, entries, sorted(known), success
        if order.repeated:
            self.repeat(lambda: self._publish(*given).state)
        ended = self._publish(*given)
        publication.sweep(folder)
        if not order.fails and not publication.is_success(folder, ended):
            return 1
        return 3 if order.fails else 0

    def _publish(self, folder: OutputFolder, head: Head | None, token: str, *more: Any) -> Head:
        """Publish at once or, every other time, as workers do it in a store."""
        if int(token, 16) % 2:
            return publication.publish(folder, head, token, *more)
        publication.publish(folder, head, token, *more, moves=False)
        shards = publication.shards_to_move(folder, token)
        moved = [publication.move_shard(folder, name) for name in shards]
        return publication.end_moves(folder, token, moved)

    def _scored(
        self, folder: OutputFolder, head: Head | None, order: Order, earlier: dict[str, Entry]
    ) -> list[Entry]:
        """Return the parts of an order: published, staged earlier, or staged now."""
        listed = dict(folder.each_stored())
        below = publication.staging(head, overwrite=order.overwrite)
        staged = publication.staged_parts(listed, below)
        entries = []
        for first, rows in CUTS[order.setting].items():
            name = f"in/part-{first:012d}.parquet"
            made_of = digest_of(f"{order.setting} {first}", 8)
            note = {"setting": order.setting}
            kept = earlier.get(name)
            if kept is not None and kept.is_there(listed.get(name)):
                entries.append(Entry(name=name, size=kept.size, content=kept.content, note=note))
                continue
            path = staged.get(made_of)
            if path is None:
                path = self._stage(folder, below, made_of, order, rows)
            entries.append(Entry(name=name, staged=path, note=note))
        return entries

    def _stage(
        self, folder: OutputFolder, below: str, made_of: str, order: Order, rows: tuple[int, ...]
    ) -> str:
        """Stage a part; now and then another worker of the same run does it, too."""
        paths = []
        for bits in (order.bits, *([7] if self.random.random() < 0.3 else [])):
            content = {"setting": order.setting, "rows": rows, "bits": bits}
            digest, token = digest_of(json.dumps(content), 4), self.part_token()
            data = json.dumps({**content, "token": token}).encode()
            path = publication.staged_name(below, made_of, digest, token)
            folder.write(path, data)
            paths.append(path)
        return self.random.choice(paths)


@dataclass(eq=False)
class Nights:
    """A world with an output folder, and the launchers on it.

    Attributes:
        world: The world.
        output: The folder.
        files: Returns what is in it, past all clocks.
        kind: Which store it is in.
        has_faults: Whether the store may answer with an error.
        found: What was wrong, each once.
        ended: The status of each launcher, or how else it has ended.
        launchers: All of them, by name.
    """

    world: World
    output: str
    files: Callable[[], Mapping[str, bytes]]
    kind: str
    has_faults: bool = False
    found: dict[str, None] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    launchers: dict[str, Launcher] = field(default_factory=dict)
    _heads: dict[int, str] = field(default_factory=dict)
    _last: int = 0
    _tokens: int = 0

    def launch(self, process: Process, order: Order) -> None:
        """Run an order; note how it ends."""
        world, name = self.world, process.name

        def note(words: str) -> None:
            world.note(f"{name} {words}")

        def repeat(publish: Callable[[], object]) -> None:
            again = world.process(f"{name} again", process.hazards)
            world.start(again, lambda: self._try(again.name, publish), world.random.uniform(0, 2))

        one = Launcher(self.output, world.random, self._token, note)
        if self.kind != "disk":  # who has stopped there, others would wait for without an end
            one.repeat = repeat
        self.launchers[name] = one
        self._try(name, lambda: one.run(order))

    def _try(self, name: str, work: Callable[[], object]) -> None:
        self.ended[name] = "killed"
        try:
            self.ended[name] = str(work())
        except (OSError, JobFailedError) as error:
            self.ended[name] = type(error).__name__
            if not self.has_faults and isinstance(error, OSError):
                self.found[f"an error without a cause: {type(error).__name__}: {error}"] = None
        self.world.note(f"{name} has ended: {self.ended[name]}")

    def _token(self) -> str:
        self._tokens += 1
        return f"{self._tokens:08d}"

    def lose(self, times: int) -> None:
        """Delete a staged file now and then, as a rule of a bucket does that is too strict."""
        folder = OutputFolder(self.output)
        for _ in range(times):
            self.world.sleep(self.world.random.uniform(0, 20))
            if staged := [f"_work/{name}" for name in folder.files("_work") if name != "lock"]:
                folder.delete(self.world.random.choice(sorted(staged)))

    def read_often(self, times: int) -> None:
        """Read all files again and again, one after the other, as readers of a success do."""
        folder = OutputFolder(self.output)
        for _ in range(times):
            self.world.sleep(self.world.random.uniform(0, 1))
            marker = folder.read_if_there(SUCCESS_FILE)
            if marker is None:
                continue
            names = [name for name in folder.files() if is_part(name) or name == SUMMARY]
            read = {name: folder.read_if_there(name) or b"{}" for name in names}
            if folder.read_if_there(SUCCESS_FILE) == marker:
                wrong = faults({**read, SUCCESS_FILE: marker})
                self.found |= dict.fromkeys(f"a reader: {words}" for words in wrong)

    # What watches the folder.

    def look(self) -> None:
        """Look at the folder once, as a reader does who takes all files, and at its head."""
        files = self.files()
        self.found |= dict.fromkeys(faults(files))
        if HEAD_FILE in files:
            head = from_json(files[HEAD_FILE])
            known = self._heads.setdefault(head["epoch"], head["token"])
            if self.kind in GUARDED and (head["epoch"] < self._last or known != head["token"]):
                self.found["an older publication replaces a newer one"] = None
            if self.kind in STORES and not files.keys() >= {*head["shards"]}:
                self.found["a shard of the head is gone"] = None
            self._last = head["epoch"]
        elif self._heads:
            self.found["the head is gone"] = None

    def marker(self) -> dict[str, Any]:
        """Return what `_SUCCESS` says; nothing without one."""
        data = self.files().get(SUCCESS_FILE)
        return {} if data is None else from_json(data)

    def start(self, name: str, words: str, hazards: Hazards, after: float = 0.0) -> Actor:
        """Let a launcher begin."""
        process = self.world.process(name, hazards)
        order = Order.of(words)
        return self.world.start(process, lambda: self.launch(process, order), after)

    def check_mended(self, name: str, words: str) -> None:
        """Give a last command, where nothing goes wrong: it must put everything right.

        In a store without conditions another writer may have come in between before: what that has
        left may be seen until then.
        """
        setting = Order.of(words).setting
        for number in "12":
            actor = self.start(f"{name}{number}", f"{setting}o", Hazards())
            self.world.run()
            assert actor.is_done
            if self.ended[f"{name}{number}"] == "0":
                break
        wrong = faults(self.files())
        if self.ended[f"{name}{number}"] != "0" or self.marker().get("setting") != setting:
            wrong.append(f"the next command ends otherwise: {self.ended[f'{name}{number}']}")
        if number != "1" and self.kind in GUARDED:
            wrong.append("the next command puts it right only the second time")
        if self.kind not in GUARDED:
            self.found.clear()
        self.found |= dict.fromkeys(wrong)


def faults(files: Mapping[str, bytes]) -> list[str]:
    """Return what keeps a folder with `_SUCCESS` from holding one whole run."""
    found = [name for name in files if "_work" in name and name.endswith(".parquet")]
    if SUCCESS_FILE not in files:
        return [f"a staged file looks like a part: {name}" for name in found]
    marker = from_json(files[SUCCESS_FILE])
    parts = {name: json.loads(data) for name, data in files.items() if is_part(name)}
    rows = [row for part in parts.values() for row in part["rows"]]
    summary = json.loads(files.get(SUMMARY, b"{}"))
    if len(set(rows)) < len(rows):
        found.append("rows twice under _SUCCESS")
    if set(rows) != set(ROWS):
        found.append("rows are missing under _SUCCESS")
    if {part["setting"] for part in parts.values()} != {marker["setting"]}:
        found.append("two runs are mixed under _SUCCESS")
    if summary.get("token") != marker["token"] or summary.get("parts") != sorted(parts):
        found.append("the summary under _SUCCESS is of another run")
    return found


# Histories.


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a history.

    Attributes:
        name: What was played.
        found: What was wrong.
        ended: How each launcher ended.
        trace: What happened.
        was_stopped: Whether every launcher that was to be stopped had a step left then.
    """

    name: str
    found: tuple[str, ...]
    ended: dict[str, str]
    trace: tuple[str, ...]
    was_stopped: bool = True


class StoppingWorld(World):
    """A world in which some processes are stopped before a step, until they are woken.

    Attributes:
        stops: How many steps each has left, by its name.
        stopped: The actors that stand still, by the name of their process.
        deadly: Names of processes that die where they are stopped.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stops: dict[str, int] = {}
        self.stopped: dict[str, Actor] = {}
        self.deadly: set[str] = set()

    def _befall(self, words: str) -> None:
        name = self.here().name
        if name in self.stops:
            self.stops[name] -= 1
            if self.stops[name] < 0:
                del self.stops[name]
                self.note(f"{name} stops before: {words}")
                if name in self.deadly:
                    self.kill(self.here())
                else:
                    self.stopped[name] = self.actor()
                    self.wait()
        super()._befall(words)


@contextmanager
def nights(world: World, kind: str) -> Any:
    """Yield a folder of a kind in a world."""
    with (
        TemporaryDirectory(prefix="bertscore-publishing-") as place,
        placed(world, kind, Path(place)) as (output, files),
    ):
        one = Nights(world, output, files, kind)
        world.after_change = one.look
        yield one


def suspended(
    kind: str,
    before: tuple[str, ...],
    stopped: Mapping[str, int],
    then: tuple[str, ...],
    deadly: tuple[str, ...] = (),
) -> Played:
    """Play runs, then some that are stopped before a step each, then others, then wake the first.

    Args:
        kind: Where the folder is.
        before: The orders that are carried out at first.
        stopped: How many steps each order takes before it is stopped.
        then: The orders that are carried out meanwhile.
        deadly: Orders that end where they are stopped.
    """
    world = StoppingWorld(1)
    with nights(world, kind) as one:
        for number, words in enumerate(before):
            one.start(f"before{number}", words, Hazards())
            world.run()
        names = {words: f"P{number} {words}" for number, words in enumerate(stopped)}
        for words, steps in stopped.items():
            world.stops[names[words]] = steps
            if words in deadly:
                world.deadly.add(names[words])
            one.start(names[words], words, Hazards())
            world.run()
        was_stopped = set(world.stopped)
        last = ""
        for number, words in enumerate(then):
            last = f"then{number}"
            one.start(last, words, Hazards())
            world.run()
        marker, epochs = one.marker(), max(one._heads, default=0)
        for name in (*world.stopped,):
            world.wake(world.stopped.pop(name))
            world.run()
        read = [one.launchers[name].read for name in was_stopped]
        has_read = all(epoch is not None and epoch < epochs for epoch in read)
        is_late = kind in GUARDED and has_read and one.ended.get(last) == "0"
        if is_late and one.marker() != marker:
            one.found["a late publisher undoes or replaces a success"] = None
        for words in dict.fromkeys((*then[-1:], *stopped)):
            one.check_mended(f"last {words} ", words)
        history = f"{kind}: {before}, {dict(stopped)} stopped{' for ever' * bool(deadly)}, {then}"
    found = tuple(f"{history}: {words}" for words in one.found)
    return Played(history, found, one.ended, tuple(world.trace), not world.stops)


_RATES = (0.0, 0.0, 0.0, 0.01, 0.03)
_PAUSES = (0.0, 0.01, 0.05)
KINDS = (*GUARDED, "az", "weak", "mounted")


def drawn(seed: int, kinds: tuple[str, ...] = KINDS) -> Played:
    """Play two or three launchers at once, each up to three times, while things go wrong."""
    draw = Random(seed)
    kind = draw.choice(kinds)
    hazards = Hazards(
        fails=draw.choice(_RATES),
        lost=draw.choice(_RATES),
        kills=draw.choice(_RATES),
        pauses=draw.choice(_PAUSES),
        late=draw.choice((0.0, 0.0, 0.02)),
    )
    world = World(seed)
    with nights(world, kind) as one:
        one.has_faults = any((hazards.fails, hazards.lost, hazards.late))
        world.note(f"seed {seed}, {kind}, {hazards}")
        orders = ("A", "A", "A1", "Ao", "Bor", "Co", "B", "Af", "Bo1", "Ar")
        given = [draw.choice(orders) for _ in range(draw.choice((2, 3, 3)))]
        for number, words in enumerate(given):
            for again in range(draw.choice((1, 2, 3))):
                after = draw.uniform(0, draw.choice((1, 10, 60))) + 20 * again
                one.start(f"L{number}{'abc'[again]} {words}", words, hazards, after)
        reader = world.process("reader", Hazards())
        world.start(reader, lambda: one.read_often(60))
        if draw.random() < 0.2:
            rule = world.process("rule", Hazards())
            world.start(rule, lambda: one.lose(8))
        world.run()
        one.check_mended("last", draw.choice(given))
    return Played(f"seed {seed}", tuple(one.found), one.ended, tuple(world.trace))


def main() -> int:
    """Play seeds."""
    first, number = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, failed, ended = time.monotonic(), 0, Counter[str]()
    for seed in range(first, first + max(1, number)):
        played = drawn(seed)
        if not number:
            print("\n".join(played.trace))
        for words in played.found:
            print(f"seed {seed}: {words}", flush=True)
        failed += bool(played.found)
        ended.update(played.ended.values())
    print(f"{failed} failed, {time.monotonic() - began:.1f} s, {dict(ended)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
