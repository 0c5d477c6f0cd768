"""Thousands of simulated nights: launchers, workers, a store, and whatever can go wrong."""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace

import pytest

from bertscore_beam.dump import write_part
from bertscore_beam.records import standing_of
from bertscore_beam.run import OutputFolder, RunLock, lock
from bertscore_beam.score import finish, job, prepare
from tests.simulation import commands
from tests.simulation.play import Played, play
from tests.simulation.world import Hazards

pytestmark = [pytest.mark.model, pytest.mark.job]

FEW, MANY, AT_ONCE = 100, 2000, 250
"""Seeds in `make test` and in `make engines`, and of one test there."""

CURED = (
    "rows are missing in a folder that is a success",
    "rows are doubled in a folder that is a success",
)
"""What a write that comes much too late may leave until the same command is given again."""


def words_of(played: Played) -> str:
    late = " --late" if played.late else ""
    found = "\n  ".join(played.found)
    return f"on {played.kind}:\n  {found}\nagain: python -m tests.simulation {played.seed}{late}"


@pytest.fixture(scope="module")
def nights():
    return [play(seed) for seed in range(FEW)]


def check(nights: Iterable[Played]) -> None:
    wrong = [words_of(played) for played in nights if played.found]
    assert not wrong, "\n".join(wrong)


def test_a_hundred_simulated_nights_lose_nothing(nights):
    check(nights)


@pytest.mark.long
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, AT_ONCE))
def test_thousands_of_simulated_nights_lose_nothing(first):
    check(map(play, range(first, first + AT_ONCE)))


def test_the_same_seed_plays_the_same_night(nights):
    assert [play(seed).trace for seed in range(6)] == [night.trace for night in nights[:6]]


def test_everything_that_can_happen_has_happened(nights):
    """The nights that find nothing are no quiet ones."""
    told = "\n".join(line for night in nights for line in night.trace)
    for words in (
        "is killed",
        "stands still",
        "is declared dead",
        " fails",
        "belongs to another run now",
        "was interrupted or has died",
        "watching for 30 s",
        "may still be valid",
        "did not fit the input",
        "detached",
    ):
        assert words in told, words
    assert {night.kind for night in nights} == {"disk", "s3", "gs", "az", "weak", "mounted"}
    ended = {how for night in nights for how in night.ended.values()}
    assert ended >= {"status 0", "killed", "FolderInUseError", "SignatureError", "RuntimeError"}
    assert all(any(getattr(night.hazards, one.name) for night in nights) for one in _but_late())


def _but_late():
    return [one for one in fields(Hazards) if one.name != "late"]


@pytest.mark.usefixtures("nights")
def test_sizes_give_no_part_of_another_setting_or_input_away():
    found = {
        (digest, digests.rows): len(write_part(scored.table))
        for (digest, name, digests), scored in commands.scored_so_far().items()
        if name.endswith("part-000000000002.parquet")  # where the inputs differ
    }
    assert len({digest for digest, _ in found}) == 2
    assert len({rows for _, rows in found}) > 1
    assert len(set(found.values())) == 1


def without_checks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunLock, "check", lambda lock: None)


def with_looks_that_last_too_long(patch: pytest.MonkeyPatch) -> None:
    """As if the wait after a take-over were too short for them."""
    patch.setattr(lock, "LOOK_SECONDS", 3600.0)


def with_rare_heartbeats(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lock, "BEAT_SECONDS", 60.0)


def without_time_for_workers_to_begin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lock, "START_SECONDS", lock.STALE_SECONDS)


def with_records_before_parts(patch: pytest.MonkeyPatch) -> None:
    write_all = OutputFolder.write_all

    def reversed_order(folder, contents):
        write_all(folder, dict(reversed(contents.items())))

    patch.setattr(OutputFolder, "write_all", reversed_order)


def with_parts_that_stay_in_packs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job, "keep_records", lambda *_, **__: None)


def with_stale_parts_that_stay(patch: pytest.MonkeyPatch) -> None:
    def blind(*given, **named):
        return replace(standing_of(*given, **named), stale=())

    for module in (prepare, finish):
        patch.setattr(module, "standing_of", blind)


@pytest.mark.parametrize(
    ("change", "seeds"),
    [
        pytest.param(without_checks, range(600), marks=pytest.mark.long),
        (with_looks_that_last_too_long, range(155, 165)),
        (with_rare_heartbeats, range(200, 260)),
        (without_time_for_workers_to_begin, range(60)),
        (with_records_before_parts, range(60)),
        (with_parts_that_stay_in_packs, range(60)),
        (with_stale_parts_that_stay, range(60)),
    ],
)
def test_a_protocol_with_a_hole_is_caught(
    change: Callable[[pytest.MonkeyPatch], None], seeds: range, monkeypatch
):
    change(monkeypatch)
    assert any(play(seed).found for seed in seeds)


@pytest.mark.long
def test_the_same_command_cures_what_a_very_late_write_has_done():
    """No lock can stop a request that is on its way: docs/resume.md says what it may do."""
    nights = [play(seed, late=True) for seed in range(300, 600)]
    hurt = [night for night in nights if night.found]
    assert [words_of(night) for night in hurt if not set(night.found) <= set(CURED)] == []
    assert [words_of(night) for night in hurt if night.left] == []
