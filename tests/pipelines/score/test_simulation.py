"""Thousands of simulated nights: launchers, workers, a store, and whatever can go wrong."""

from dataclasses import fields

import pytest

from bertscore_beam.records.records import FoundParts
from bertscore_beam.run import lock
from bertscore_beam.run.lock import RunLock
from tests.simulation.play import play
from tests.simulation.world import Hazards

pytestmark = [pytest.mark.model, pytest.mark.job]

FEW, MANY, AT_ONCE = 60, 2000, 250
"""Seeds in `make test` and in `make engines`, and of one test there."""

CURED = (
    "rows are missing in a folder that is a success",
    "rows are doubled in a folder that is a success",
)
"""What a write that comes much too late may leave until the same command is given again."""


def words_of(played):
    late = " --late" if played.late else ""
    found = "\n  ".join(played.found)
    return f"on {played.kind}:\n  {found}\nagain: python -m tests.simulation {played.seed}{late}"


@pytest.fixture(scope="module")
def nights():
    return [play(seed) for seed in range(FEW)]


def check(nights):
    wrong = [words_of(played) for played in nights if played.found]
    assert not wrong, "\n".join(wrong)


def test_sixty_simulated_nights_lose_nothing(nights):
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
        "do not fit the input",
        "detached",
    ):
        assert words in told, words
    assert {night.kind for night in nights} == {"disk", "s3", "gs", "az", "weak", "mounted"}
    ended = {how for night in nights for how in night.ended.values()}
    expected = {"status 0", "killed", "FolderInUseError", "JobStillRunsError", "SignatureError"}
    assert ended >= expected | {"RuntimeError"}
    assert all(any(getattr(night.hazards, one.name) for night in nights) for one in _but_late())


def _but_late():
    return [one for one in fields(Hazards) if one.name != "late"]


# Looks that last too long are as if the wait after a take-over were too short for them.
HOLES = {
    "looks that last too long": (lock, "LOOK_SECONDS", 3600.0),
    "rare heartbeats": (lock, "BEAT_SECONDS", 60.0),
    "no time for workers to begin": (lock, "START_SECONDS", lock.STALE_SECONDS),
    "stale parts that stay": (FoundParts, "earlier", ()),
}
SEEDS = {
    "looks that last too long": 414,
    "rare heartbeats": 230,
    "no time for workers to begin": 11,
    "stale parts that stay": 10,
}
"""A seed that finds each; others are tried after it, since a change of the code moves all."""


@pytest.mark.parametrize("hole", HOLES)
def test_a_protocol_with_a_hole_is_caught(hole, monkeypatch):
    monkeypatch.setattr(*HOLES[hole])
    assert any(play(seed).found for seed in (SEEDS[hole], *range(60), *range(155, 260)))


@pytest.mark.long
def test_a_protocol_without_checks_is_caught(monkeypatch):
    monkeypatch.setattr(RunLock, "check", lambda lock: None)
    assert any(play(seed).found for seed in range(600))


@pytest.mark.long
def test_the_same_command_cures_what_a_very_late_write_has_done():
    """No lock stops a request that is on its way: docs/resume-and-reuse.md says what it may do."""
    nights = [play(seed, late=True) for seed in range(300, 600)]
    hurt = [night for night in nights if night.found]
    assert [words_of(night) for night in hurt if not set(night.found) <= set(CURED)] == []
    assert [words_of(night) for night in hurt if night.left] == []
