"""What readers see is one whole run, whoever publishes, dies, stands still or comes late."""

import json
import multiprocessing
import os
import random
import signal
import time
import uuid
from collections import Counter
from contextlib import nullcontext, suppress
from itertools import count, product
from pathlib import Path

import pytest

from bertscore_beam.files.paths import is_remote
from bertscore_beam.files.write import delete
from bertscore_beam.run import publication
from bertscore_beam.run.alone import FolderInUseError, alone
from bertscore_beam.run.folder import SUCCESS_FILE, OutputFolder
from bertscore_beam.run.output import JobFailedError
from bertscore_beam.run.publication import (
    HEAD_FILE,
    INCOMPLETE,
    MOVING,
    PUBLISHED,
    Entry,
    Head,
    OvertakenError,
    begin,
    end_moves,
    is_success,
    move_shard,
    publish,
    read_head,
    read_shards,
    readable_head,
    settled_head,
    shards_to_move,
    staged_name,
    staged_parts,
    staging,
)
from tests.simulation import publishing
from tests.simulation.publishing import KINDS, SUMMARY, Launcher, Order, faults
from tests.simulation.watch import is_part
from tests.support.cloud_storage import cloud_storage
from tests.support.faults import Faults
from tests.support.s3 import s3_bucket

PART = "in/part-000000000000.parquet"
OF_A_PUBLICATION = 40
"""Requests whatever the number of its parts, at most; each further thousand takes a few more."""


# Simulated histories.

FEW = 50
"""Worlds that are drawn in `make test`."""
MEANWHILE = ((), ("Ao",), ("Bo",), ("Ao", "Bo", "Ao"), ("A",), ("Bo", "Ao", "Bo", "Ao"), ("A", "A"))
BEFORE = ((), ("A",), ("B",), ("Af",))
STOPPED = ("Ao", "Bo", "A", "Af", "Co", "A1o", "Bor")
SAMPLED = {"s3": 15, "gs": 15, "kms": 40, "disk": 200}
"""Of how many histories one is played where all would take too long: every step of each is."""


def check(histories):
    wrong = [words for played in histories for words in played.found]
    assert not wrong, "\n".join(wrong)


def stopped_at_each_step(kind, before, order, then, **more):
    """Play a history for each step of a launcher, which is stopped before it."""
    for step in count():
        played = publishing.suspended(kind, before, {order: step}, then, **more)
        yield played
        if not played.was_stopped:
            return


@pytest.mark.parametrize("kind", ["s3", pytest.param("gs", marks=pytest.mark.long)])
def test_a_publisher_that_is_woken_late_changes_nothing_whatever_its_next_step(kind):
    check(stopped_at_each_step(kind, ("A",), "Bo", ("Ao",)))


@pytest.fixture(scope="module")
def worlds():
    return [publishing.drawn(seed) for seed in range(FEW)]


def test_some_drawn_worlds_show_whole_runs_alone(worlds):
    check(worlds)


def test_the_same_seed_draws_the_same_world(worlds):
    assert [publishing.drawn(seed).trace for seed in range(4)] == [one.trace for one in worlds[:4]]


def test_everything_that_can_happen_has_happened(worlds):
    told = "\n".join(line for world in worlds for line in world.trace)
    for words in (
        "is killed",
        "stands still",
        " fails",
        " late",
        "another run has published",
        "nothing can be published",
        "copy to",
        "delete if out/_SUCCESS",
        "rule: delete",
        "again has ended: published",
    ):
        assert words in told, words
    assert {kind for kind in KINDS if f", {kind}, Hazards" in told} == {*KINDS}
    ended = {how for world in worlds for how in world.ended.values()}
    assert ended >= {"0", "1", "2", "3", "killed", "ConnectionError", "published"}


@pytest.mark.long
@pytest.mark.parametrize("kind", SAMPLED)
def test_a_publisher_may_stand_still_before_any_step_and_wake_after_any_runs(kind):
    histories = list(product(BEFORE, STOPPED, MEANWHILE))
    every = SAMPLED[kind]

    def some():
        for number, (before, order, then) in enumerate(histories):
            for step in range(number % every, 120, every):
                played = publishing.suspended(kind, before, {order: step}, then)
                yield played
                if not played.was_stopped:
                    break

    check(some())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_two_publishers_may_stand_still_or_die_at_once(kind):
    draw = random.Random(kind)

    def one():
        first, second = draw.sample([*STOPPED, "A1", "B"], 2)
        steps = {first: draw.randrange(1, 60), second: draw.randrange(1, 60)}
        deadly = (second,) if draw.random() < 0.4 else ()
        then = tuple(draw.choice(["Ao", "Bo", "A", "B", "Co"]) for _ in range(draw.randrange(4)))
        return publishing.suspended(kind, draw.choice(BEFORE), steps, then, deadly)

    check(one() for _ in range(800))


@pytest.mark.long
@pytest.mark.parametrize("first", range(FEW, FEW + 2000, 500))
def test_thousands_of_drawn_worlds_show_whole_runs_alone(first):
    check(map(publishing.drawn, range(first, first + 500)))


@pytest.mark.long
def test_the_next_run_mends_what_a_death_before_any_step_leaves_on_a_disk():
    check(stopped_at_each_step("disk", ("A",), "Bo", ("Bo",), deadly=("Bo",)))


# A protocol with a hole, and a history that it does not survive.

DELETE = OutputFolder.delete


def replace_any(folder, name, data, version):
    folder.write(name, data)
    return True


def keep_staged(folder, *names):
    DELETE(folder, *(name for name in names if not name.startswith("_work/")))


HOLES = {
    "a head that is replaced in any version": (
        (OutputFolder, "replace_version", replace_any),
        ((), "Ao", ("Ao", "Bo")),
    ),
    "deletes in any version": (
        (OutputFolder, "delete_version", lambda folder, name, version: folder.delete(name)),
        (("A",), "Co", ("Ao", "Bo", "Ao")),
    ),
    "staged files that stay": ((OutputFolder, "delete", keep_staged), ((), "Ao", ("Ao", "Bo"))),
    "names and contents that come back": (
        (Launcher, "part_token", lambda launcher: "x"),
        (("A",), "Co", ("Ao",)),
    ),
    "a success that stays": (
        (publication, "hide_success", lambda *_: None),
        (("A",), "Bo", ("Ao",)),
    ),
    "a move that nobody finishes": (
        (publication, "settled_head", publication.read_head),
        ((), "Ao", ("Ao", "Bo")),
    ),
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_protocol_with_a_hole_is_caught(hole, monkeypatch):
    change, history = HOLES[hole]
    monkeypatch.setattr(*change)
    assert any(played.found for played in stopped_at_each_step("s3", *history))


def test_launchers_on_a_disk_that_do_not_wait_for_each_other_are_caught(monkeypatch):
    for module, name in ((publishing, "alone"), (publication, "publishing")):
        monkeypatch.setattr(module, name, lambda output: nullcontext())
    steps = range(24, 60, 3)
    histories = (("disk", ("A",), {"Co": step}, ("Ao", "Bo", "Ao")) for step in steps)
    assert any(publishing.suspended(*history).found for history in histories)


def test_a_publisher_that_replaces_a_newer_head_is_caught(monkeypatch):
    begin = publication.begin

    def overtaking(folder, _, *given):
        """Take the place of whichever head is there."""
        return begin(folder, publication.read_head(folder), *given)

    monkeypatch.setattr(publication, "begin", overtaking)
    assert any(publishing.drawn(seed).found for seed in range(150))


def test_a_publication_without_a_listing_is_caught(monkeypatch):
    monkeypatch.setattr(publication, "_check", lambda *_: True)
    assert any(publishing.drawn(seed, ("s3", "gs")).found for seed in (62, *range(300)))


# Real stores, disks and processes.


@pytest.fixture(scope="module")
def served():
    faults: list[Faults] = []
    with s3_bucket(faults) as url, cloud_storage("bucket") as (_, of_google):
        yield {"s3": (url, faults[0]), "gs": ("gs://bucket", of_google)}


STORES = [pytest.param(kind, marks=pytest.mark.process) for kind in ("s3", "gs")]


@pytest.fixture(params=["disk", *STORES])
def output(request, tmp_path):
    if request.param == "disk":
        return str(tmp_path / "out")
    return f"{request.getfixturevalue('served')[request.param][0]}/{uuid.uuid4().hex}"


def launcher(output, seed=0):
    draw = random.Random(seed)
    return Launcher(output, draw, lambda: uuid.UUID(int=draw.getrandbits(128)).hex)


def run(output, words, seed=0):
    return launcher(output, seed).run(Order.of(words))


def contents(output):
    folder = OutputFolder(output)
    names = [name for name in folder.files() if is_part(name) or name in (SUMMARY, SUCCESS_FILE)]
    return {name: folder.read(name) for name in names}


def begun(output, words, seed):
    """Let a launcher replace the head, and do no more."""
    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(publication, "hide_success", raise_interrupt)
        run(output, words, seed)


def raise_interrupt(*_):
    raise KeyboardInterrupt


def test_runs_are_published_kept_replaced_and_left_alone(output):
    folder = OutputFolder(output)
    assert run(output, "Af", 1) == 3
    assert settled_head(folder).state == INCOMPLETE
    assert SUCCESS_FILE not in contents(output)
    parts = {name: data for name, data in contents(output).items() if is_part(name)}
    assert run(output, "A", 2) == 0
    first = contents(output)
    assert faults(first) == []
    assert {name: first[name] for name in parts} == parts
    assert (run(output, "A", 3), run(output, "B", 4), run(output, "Af", 5)) == (0, 2, 3)
    assert contents(output) == first
    assert run(output, "Bo", 6) == 0
    assert faults(contents(output)) == []
    head = settled_head(folder)
    assert (head.epoch, head.state, is_success(folder, head)) == (3, PUBLISHED, True)
    assert json.loads(contents(output)[SUCCESS_FILE])["epoch"] == 3
    assert {f"_manifest/{name}" for name in folder.files("_manifest")} == {*head.shards}
    assert not [name for name in folder.files("_work") if name.endswith(".parquet")]


def test_what_a_dead_publisher_has_begun_is_finished_by_the_next_run(output):
    assert run(output, "A", 1) == 0
    begun(output, "Bo", 2)
    folder = OutputFolder(output)
    assert read_head(folder).state == MOVING
    before = contents(output)
    with pytest.raises(JobFailedError, match="cannot be read now: got scores that are being"):
        readable_head(folder)
    assert contents(output) == before
    assert run(output, "A", 3) == 2  # these are scores of another setting
    assert readable_head(folder).state == PUBLISHED
    assert faults(contents(output)) == []
    assert json.loads(contents(output)[SUCCESS_FILE])["setting"] == "B"


def test_a_publisher_on_a_disk_that_is_repeated_ends_what_it_has_begun(tmp_path):
    output = str(tmp_path / "out")
    begun(output, "A", 1)
    folder = OutputFolder(output)
    head = read_head(folder)
    assert (head.state, shards_to_move(folder, head.token)) == (MOVING, [])
    assert readable_head(folder).state == PUBLISHED
    assert faults(contents(output)) == []


def test_a_run_that_was_overtaken_changes_nothing(output):
    with alone(output):
        folder = OutputFolder(output)
        for word in (b"one", b"two"):
            folder.write(f"_work/{word.decode()}.pq", word)
        entries = {word: [Entry(PART, f"_work/{word}.pq")] for word in ("one", "two")}
        head = publish(folder, None, "one", entries["one"], (), {})
        names = {*folder.files()}
        other = Head(epoch=7, token="other", state=PUBLISHED, shards=[], version="1")
        for before in (None, other):
            with pytest.raises(OvertakenError, match="another run has published in"):
                publish(folder, before, "two", entries["two"], (), {})
        with pytest.raises(OvertakenError):  # not told that a part is missing: "one" has moved it
            publish(folder, None, "two", entries["one"], (), {})
        assert {*folder.files()} == names
        assert folder.read(PART) == b"one"
        again = publish(folder, None, "one", entries["one"], (), {})  # as a runner repeats it
        assert again == head == read_head(folder)
        with pytest.raises(JobFailedError, match=r"got no '_work/one.pq' as it was; expected it"):
            publish(folder, head, "three", entries["one"], (), {})
        kept = [Entry(PART, size=3, content="of another time")]
        with pytest.raises(JobFailedError, match=rf"got no '{PART}' as it was; expected it"):
            publish(folder, head, "three", kept, (), {})
        assert read_head(folder) == head


def test_workers_move_the_shards_of_a_store_once_or_twice_and_none_too_late(output, monkeypatch):
    monkeypatch.setattr(publication, "_SHARD_FILES", 2)
    names = [f"in/part-{number:012d}.parquet" for number in range(5)]

    def begun(word, before):
        folder.write_all({f"_work/{word}{name[8:20]}.pq": word.encode() for name in names})
        entries = [Entry(name, f"_work/{word}{name[8:20]}.pq") for name in names]
        publish(folder, before, word, entries, (), {}, moves=False)
        return shards_to_move(folder, word)

    with alone(output):
        folder = OutputFolder(output)
        shards = begun("one", None)
        assert len(shards) == (3 if is_remote(output) else 0)
        for _ in range(2):
            moved = [move_shard(folder, name) for name in reversed(shards)]
        assert (read_head(folder).state, folder.exists(SUCCESS_FILE)) == (
            (MOVING, False) if shards else (PUBLISHED, True)
        )
        first = end_moves(folder, "one", moved if shards else [])
        assert is_success(folder, first)
        assert [
            entry.name for shard in read_shards(folder, first.shards) for entry in shard.entries
        ] == names
        assert (end_moves(folder, "one", first.shards), shards_to_move(folder, "one")) == (
            first,
            [],
        )
        begun("two", first)
        second = settled_head(folder)  # by the next command
        late = [move_shard(folder, name) for name in shards]
        with pytest.raises(OvertakenError):
            end_moves(folder, "one", late)
        assert read_head(folder) == second
        assert {folder.read(name) for name in names} == {b"two"}


def test_who_is_refused_finishes_what_another_has_begun(output):
    with alone(output):
        folder = OutputFolder(output)
        folder.write("_work/one.pq", b"one")
        folder.write("_work/two.pq", b"two")
        begin(folder, None, "two", [Entry(PART, "_work/two.pq")], (), {})
        with pytest.raises(OvertakenError):
            publish(folder, None, "one", [Entry(PART, "_work/one.pq")], (), {})
        head = readable_head(folder)
        assert (head.token, head.state, is_success(folder, head)) == ("two", PUBLISHED, True)
        assert folder.read(PART) == b"two"


def test_a_published_file_that_another_program_has_changed_is_deleted_and_no_success(output):
    other = "in/part-000000000009.parquet"
    with alone(output):
        folder = OutputFolder(output)
        folder.write_all({PART: b"kept", other: b"old"})
        kept = dict(folder.each_stored())[PART]
        entries = [Entry(PART, size=kept.size, content=kept.content)]
        begin(folder, None, "one", entries, [PART, other], {})
        time.sleep(0.02)
        folder.write(other, b"changed")
        head = settled_head(folder)
        assert (head.state, folder.exists(other), folder.exists(PART)) == (INCOMPLETE, False, True)
        assert not folder.exists(SUCCESS_FILE)
        head = publish(folder, head, "two", entries, [PART, other], {})
        assert is_success(folder, head)


def test_a_part_that_was_lost_meanwhile_is_no_success(output):
    assert run(output, "A", 1) == 0
    begun(output, "Bo", 2)
    folder = OutputFolder(output)
    lost = next(f"_work/{name}" for name in folder.files("_work") if name.startswith("over-1/"))
    delete(folder.path(lost))
    with alone(output):
        head = settled_head(folder)
    assert (head.state, is_success(folder, head)) == (INCOMPLETE, False)
    assert SUCCESS_FILE not in contents(output)
    assert run(output, "Bo", 3) == 0
    assert faults(contents(output)) == []


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", None])
@pytest.mark.parametrize("what", ["head", "shard"])
def test_a_damaged_manifest_is_replaced_by_the_next_run(tmp_path, what, damage):
    output = str(tmp_path / "out")
    assert run(output, "A", 1) == 0
    folder = OutputFolder(output)
    path = Path(output, HEAD_FILE if what == "head" else read_head(folder).shards[0])
    data = path.read_bytes()
    flipped = (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    )
    path.write_bytes(flipped if damage is None else damage)
    head = read_head(folder)
    assert list(read_shards(folder, head.shards)) == ([] if what == "head" else [None])
    assert is_success(folder, head) == (what == "shard")
    assert run(output, "Ao", 2) == 0
    assert faults(contents(output)) == []
    assert is_success(folder, read_head(folder))


def test_a_shard_that_is_damaged_while_it_is_moved_is_no_success(tmp_path):
    output = str(tmp_path / "out")
    begun(output, "A", 1)
    folder = OutputFolder(output)
    Path(output, read_head(folder).shards[0]).write_bytes(b"")
    assert settled_head(folder).state == INCOMPLETE
    assert SUCCESS_FILE not in contents(output)
    assert run(output, "A", 2) == 0
    assert faults(contents(output)) == []


@pytest.mark.parametrize("kind", STORES)
def test_requests_of_a_publication(served, kind):
    url, faults = served[kind]
    folder, number = OutputFolder(f"{url}/{uuid.uuid4().hex}"), 40
    names = [f"in/part-{place:012d}.parquet" for place in range(number)]
    staged = [staged_name("_work", f"{place:08d}", "d", "t") for place in range(number)]
    folder.write_all(dict.fromkeys(staged, b"part"))
    faults.requests = []
    head = publish(folder, settled_head(folder), "first", map(Entry, names, staged), (), {})
    first, faults.requests = Counter(method for method, _ in faults.requests), []
    head = publish(folder, head, "again", [], names, {})
    again, faults.requests = Counter(method for method, _ in faults.requests), None
    assert (head.epoch, head.state) == (2, PUBLISHED)
    assert not [name for name in folder.files() if is_part(name)]
    # A copy of each; S3 deletes what is staged together, but what is published one by one.
    each = number if kind == "s3" else 2 * number
    assert number <= first["PUT" if kind == "s3" else "POST"]
    assert first.total() - each <= OF_A_PUBLICATION
    assert number <= again["DELETE"]
    assert again.total() - number <= OF_A_PUBLICATION


def test_the_part_with_the_smallest_digest_counts():
    names = ["_work/aa-2-x.pq", "_work/aa-1-y.pq", "_work/bb-3-z.pq", "_work/over-2/aa-0-w.pq"]
    names += ["_work/idf-aa.npz", "_work/aa.pq", "in/aa-0-x.pq"]
    assert staged_parts(names, "_work") == {"aa": "_work/aa-1-y.pq", "bb": "_work/bb-3-z.pq"}
    assert staged_parts(names, "_work/over-2") == {"aa": "_work/over-2/aa-0-w.pq"}
    assert (staging(None, overwrite=True), staging(None, overwrite=False)) == (
        "_work/over-0",
        "_work",
    )


def test_a_second_launcher_on_a_disk_ends_at_once(tmp_path):
    output = tmp_path / "out"
    with alone(str(output)):
        for _ in range(2):
            began = time.monotonic()
            with (
                pytest.raises(FolderInUseError, match=rf"got a lock of process {os.getpid()} on"),
                alone(str(output)),
            ):
                pass
            assert time.monotonic() - began < 1
        (output / "_work" / "left").touch()
    assert [path.name for path in output.rglob("*")] == ["_work", "left"]
    with alone(str(output)):
        pass
    (output / "_work" / "left").unlink()
    with alone(str(output)):
        pass
    assert [*output.rglob("*")] == []


FORK = multiprocessing.get_context("fork")


@pytest.mark.process
@pytest.mark.long
def test_real_processes_that_die_or_stand_still_leave_what_the_next_run_mends(tmp_path):
    output, draw, looks = str(tmp_path / "out"), random.Random(1), Counter()
    for number in range(120):
        orders = draw.choices(["A", "Ao", "Bo", "Co", "Af", "A1o"], k=3)
        started = [
            FORK.Process(target=run, args=(output, words, 10 * number + place))
            for place, words in enumerate(orders)
        ]
        for process in started:
            process.start()
            time.sleep(draw.uniform(0, 0.05))
        for process in started:
            if (fate := draw.random()) < 0.5:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL if fate < 0.3 else signal.SIGSTOP)
        until = time.monotonic() + 0.15
        while time.monotonic() < until:
            looks[look(output)] += 1
        for process in started:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.join()
        looks[f"ended {[process.exitcode for process in started].count(-9)} times by a kill"] += 1
        if number % 5 == 4:
            assert run(output, "Bo", 10 * number + 9) == 0
            assert faults(contents(output)) == []
    assert looks["whole"] > 100
    assert {words for words in looks if "ended" not in words} <= {"whole", "none", "replaced"}


def look(output):
    """Read all files of a success, one after the other, as readers do; say what was seen."""
    folder = OutputFolder(output)
    marker = folder.read_if_there(SUCCESS_FILE)
    if marker is None:
        return "none"
    names = [name for name in folder.files() if is_part(name) or name == SUMMARY]
    read = {name: folder.read_if_there(name) or b"{}" for name in names}
    if folder.read_if_there(SUCCESS_FILE) != marker:
        return "replaced"
    return ", ".join(faults({**read, SUCCESS_FILE: marker})) or "whole"
