"""Thousands of simulated nights: launchers, workers, a store, and whatever can go wrong."""

from dataclasses import fields

import pytest

from bertscore_beam.score import finish
from tests.simulation.play import play
from tests.simulation.publishing import GUARDED
from tests.simulation.world import Hazards

pytestmark = [pytest.mark.model, pytest.mark.job]

FEW, MANY, AT_ONCE = 30, 2000, 250
"""Seeds in `make test` and in `make engines`, and of one test there."""


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


def test_some_simulated_nights_lose_nothing(nights):
    check(nights)


@pytest.mark.long
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, AT_ONCE))
def test_thousands_of_simulated_nights_lose_nothing(first):
    check(map(play, range(first, first + AT_ONCE)))


def test_the_same_seed_plays_the_same_night(nights):
    assert [play(seed).trace for seed in range(4)] == [night.trace for night in nights[:4]]


def test_everything_that_can_happen_has_happened(nights):
    """The nights that find nothing are no quiet ones."""
    told = "\n".join(line for night in nights for line in night.trace)
    for words in (
        "is killed",
        "stands still",
        "is declared dead",
        " fails",
        "another run has published",
        "another run is at work on output",
        "rows of other earlier parts: scores are kept",
        "detached",
    ):
        assert words in told, words
    assert {night.kind for night in nights} == {"disk", "s3", "gs", "az", "weak", "mounted"}
    ended = {how for night in nights for how in night.ended.values()}
    assert ended >= {"status 0", "killed", "FolderInUseError", "SignatureError", "RuntimeError"}
    assert all(any(getattr(night.hazards, one.name) for night in nights) for one in _but_late())


def _but_late():
    return [one for one in fields(Hazards) if one.name != "late"]


def test_stale_parts_that_stay_are_found(monkeypatch):
    publish = finish.publish

    def forgetting(folder, before, run, entries, earlier, *given, **how):
        """Delete no file of an earlier run."""
        publish(folder, before, run, entries, (), *given, **how)

    monkeypatch.setattr(finish, "publish", forgetting)
    assert any(play(seed).found for seed in range(60))


@pytest.mark.long
def test_very_late_writes_undo_no_success_where_nobody_comes_between_a_look_and_a_change():
    nights = [play(seed, late=True) for seed in range(300, 600)]
    assert sum(night.kind in GUARDED for night in nights) > 100
    check(night for night in nights if night.kind in GUARDED)
    assert [words_of(night) for night in nights if night.left] == []
