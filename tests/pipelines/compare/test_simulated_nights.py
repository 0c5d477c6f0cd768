"""The gate over thousands of simulated nights: how often it fires, and what it finds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.gate import judge
from bertscore_beam.compare.results import Compared, GroupComparison, PairCounts
from bertscore_beam.dump.census import WHOLE
from bertscore_core.stats.caveats import FEW_CLUSTERS, CaveatKind, caveats_of_difference
from bertscore_core.stats.paired import POWER, PairedSums, compare_paired, paired_result
from bertscore_core.stats.score_statistics import UnknownTokens
from tests.benchmarks import season
from tests.support import nights, seasons

NIGHTS = 2000
NO_ROWS = PairCounts(**dict.fromkeys(PairCounts.__dataclass_fields__, 0))
CLUSTERS = {
    "rows": None,
    "40 clusters": nights.equal_clusters(40),
    "10 clusters": nights.equal_clusters(10),
    "unequal clusters": nights.unequal_clusters(),
}

UNEQUAL = {
    **{f"{count} equal": nights.clusters_of(np.full(count, 10)) for count in (2, 3, 5, 10, 18, 40)},
    "40 of 2 to 18": nights.unequal_clusters(),
    "100 lognormal, s = 1": nights.lognormal(100, 1.0, seed=9),
    "60 lognormal, s = 1.3": nights.lognormal(60, 1.3, seed=2),
    "60 lognormal, s = 1.3, one with a quarter": nights.lognormal(60, 1.3, seed=18),
    "40 Zipf": nights.zipf(40),
    "200 Zipf": nights.zipf(200),
    "1000 Zipf": nights.zipf(1000),
    "5 of 80, 35 of 2": nights.clusters_of(np.repeat([80, 2], [5, 35])),
}


def thousands(*values):
    """Return parameters of a test over thousands of nights."""
    return pytest.param(NIGHTS, *values, marks=pytest.mark.long)


def near(rate, expected, count=NIGHTS):
    """Tell whether a share of nights is that expected, within 3.3 errors of sampling."""
    return abs(rate - expected) < 3.3 * math.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize("clusters", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize(("count", "level"), [(400, 0.05), thousands(0.05), thousands(0.01)])
def test_a_true_change_of_the_drop_fires_at_the_nominal_rate(clusters, count, level):
    drop = 0.004
    rate = nights.firing_rate(nights.nights(count, -drop, clusters, seed=7), drop, level)
    assert near(rate, level, count)


@pytest.mark.parametrize("name", ["rows", "10 clusters", "unequal clusters"])
def test_the_smallest_difference_that_rows_show_is_seen_on_four_of_five_nights(name):
    """The error of a night is an estimate, so the size is taken as the mean over others."""
    clusters = CLUSTERS[name]
    size = float(np.mean([one.detectable for one in nights.nights(300, 0, clusters, seed=31)]))
    seen = [one.interval[1] < 0 for one in nights.nights(NIGHTS, -size, clusters, seed=32)]
    assert POWER - 0.04 < float(np.mean(seen)) < POWER + 0.02


def warned(result):
    """Return whether a difference has the caveat that there are few clusters."""
    return CaveatKind.FEW_CLUSTERS in caveats_of(result)


@pytest.mark.long
@pytest.mark.parametrize("shared", [0, 0.5, 1])
@pytest.mark.parametrize("clusters", UNEQUAL.values(), ids=UNEQUAL)
def test_the_gate_keeps_its_rate_with_unequal_clusters_or_a_warning_says_they_are_few(
    clusters, shared
):
    change = -0.004
    found = nights.nights(10_000, change, clusters, shared=shared, seed=20)
    rate = nights.firing_rate(found, -change)
    inside = float(np.mean([one.interval[0] <= change <= one.interval[1] for one in found]))
    if found[0].effective_clusters >= FEW_CLUSTERS:
        assert not warned(found[0])
        assert 0.04 <= rate <= 0.065
        assert 0.94 <= inside <= 0.965
    else:
        assert warned(found[0])
        assert rate <= 0.07
        assert inside >= 0.935


@pytest.mark.parametrize("by_cluster", [False, True])
def test_a_difference_that_few_pairs_or_clusters_decide_has_a_caveat(by_cluster):
    d = np.random.default_rng(3).normal(0, nights.SPREAD, nights.ROWS)
    clusters = nights.equal_clusters(40) if by_cluster else None
    kind = CaveatKind.FEW_CLUSTERS_CARRY if by_cluster else CaveatKind.FEW_ROWS_CARRY
    for changed, expected in ((0, []), (3, [kind])):
        d[:changed] = 2.0
        whole, tied = (caveats_of(compare_paired(x, clusters, resamples=0)) for x in (d, d * 0))
        assert (whole, tied) == (expected, [])


def compared(result):
    """Return a result as the comparison of a group of which no row has lost its score."""
    counts = replace(NO_ROWS, pairs=result.pairs)
    values = dict.fromkeys(("mean", "against_mean", "p_adjusted"))
    return GroupComparison(group=WHOLE, counts=counts, result=result, **values)


def caveats_of(result):
    """Return the kinds of caveats of a difference."""
    return [caveat.kind for caveat in caveats_of_difference(result, 0, UnknownTokens())]


def gated(results, *, drop=0.004, groups=False):
    """Return which of these fail: each a whole by itself, or a whole and then its groups."""
    whole, *others = map(compared, results)
    names = [replace(one, group=(str(at),)) for at, one in enumerate(others)]
    sides = [(whole, tuple(names))] if groups else [(compared(one), ()) for one in results]
    options = CompareOptions(run="run", against=("against",), fail_if_drop=drop)
    failed = []
    for first, rest in sides:
        (judged,) = judge([seasons.comparison(first, rest, options)], options)
        failed += [bool(one.gate.failures) for one in (judged.whole, *judged.groups)]
    return failed


@pytest.mark.parametrize(("count", "seed"), [(300, 12), thousands(13)])
def test_the_whole_and_all_groups_have_half_of_the_level_each(count, seed):
    """All ten groups change by exactly the drop: the worst that is no failure."""
    random, fired = np.random.default_rng(seed), []
    for _ in range(count):
        rows = -0.004 + random.normal(0, nights.SPREAD, (10, 100))
        sums = [PairedSums.of(rows.ravel()), *(PairedSums.of(row) for row in rows)]
        whole, *groups = gated([paired_result(one, resamples=0) for one in sums], groups=True)
        fired.append((whole, any(groups)))
    whole, groups = np.mean(fired, axis=0)
    assert near(whole, 0.025, count)
    assert near(groups, 0.025, count)


@pytest.mark.parametrize(("errors", "power"), [(2, 0.64), (3, 0.91)])
def test_one_test_alone_sees_drops_of_two_and_three_errors_as_often_as_the_page_says(errors, power):
    change = -0.004 - errors * nights.SPREAD / nights.ROWS**0.5
    rate = float(np.mean(gated(nights.nights(NIGHTS, change, seed=41))))
    assert abs(rate - power) < 0.02


SEASONS = {
    "small groups, nulls": seasons.Family(groups=12, rows=(20, 60), nulls=0.002),
    "repeated rows": seasons.Family(groups=12, rows=(2, 6), repeats=6, repeated=0.1),
    "documents": seasons.Family(groups=8, rows=(50, 50), document=5, cluster=True, nulls=0.005),
    "two runs": seasons.Family(groups=8, rows=(2, 30), pinned=True),
    "four measures": seasons.Family(groups=2, rows=(10, 40), measures=4),
    "reused rows": seasons.Family(groups=8, rows=(20, 20), reused=0.9),
    **{
        f"{shape}, 20 rows": seasons.Family(groups=0, rows=(20, 20), shape=shape)
        for shape in ("yes/no .8", "exact match .8", "TER", "four labels", "half tied")
    },
    "yes/no .8, 50 rows": seasons.Family(groups=0, rows=(50, 50), shape="yes/no .8"),
    "20 items in 40 copies": seasons.Family(groups=0, rows=(800, 800), repeats=40, nulls=0.002),
}


def check_nights(family, nights):
    rates = seasons.failure_rates(family, nights)[0]
    for rate, level in zip(rates, (0.05, 0.01), strict=True):
        assert rate < level + 2 * math.sqrt(level * (1 - level) / nights)


@pytest.mark.parametrize("family", SEASONS.values(), ids=SEASONS)
def test_nights_without_a_change_seldom_fail(family):
    """A quick look: tests/benchmarks/season.py has the whole."""
    check_nights(family, 240)


ALONE = {name: one for name, one in season.FAMILIES.items() if not one.groups}
"""Wholes are cheap."""


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ALONE if "outside" not in name])
def test_wholes_of_every_family_seldom_fail_without_a_change(name):
    check_nights(ALONE[name], 1800)


@pytest.mark.long
def test_groups_of_long_repeats_seldom_fail_without_a_change():
    check_nights(season.FAMILIES["24 of 10 to 200, rows five times"], 600)


OUTSIDE = {
    "documents that are not named": seasons.Family(rows=(100, 100), groups=6, document=5),
    "short repeats": seasons.Family(groups=0, rows=(800, 800), repeats=40, found=False),
    "samples": seasons.Family(groups=0, rows=(800, 800), repeats=40, found=False, sampled=0.5),
}


@pytest.mark.parametrize("family", OUTSIDE.values(), ids=OUTSIDE)
def test_a_season_finds_a_gate_that_fails_too_often(family):
    rates, low, _ = seasons.failure_rates(family, 240)
    assert (low > (0.05, 0.01)).all()
    assert rates[0] > 0.1


GOOD, FALLEN = seasons.answers(0.95, 0.8), seasons.answers(0.1, 0.8)


@pytest.mark.parametrize(("rows", "groups"), [(20, 0), (400, 0), (66, 5), (66, 24)])
def test_a_collapse_of_short_answers_is_always_found(rows, groups):
    assert seasons.found_rate(GOOD, FALLEN, rows, 50, groups=groups) == 1


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("wrong", [0.8, 0.0])
def test_ten_points_of_accuracy_are_found_in_a_thousand_short_answers(wrong, pinned):
    usual, fallen = seasons.answers(0.8, wrong), seasons.answers(0.7, wrong)
    assert seasons.found_rate(usual, fallen, 1000, 200, pinned=pinned) >= 0.9


def judged(*results, counts=None, **options):
    """Return a whole, and its groups, with their gates."""
    given = {"run": "run", "against": ("against",), "fail_if_drop": 0.005, **options}
    chosen = CompareOptions(**given)
    whole, *groups = (
        replace(compared(one), group=(str(at),) if at else (), counts=own)
        for at, (one, own) in enumerate(
            zip(results, counts or [replace(NO_ROWS, pairs=x.pairs) for x in results], strict=True)
        )
    )
    (one,) = judge([seasons.comparison(whole, tuple(groups), chosen)], chosen)
    return one


def results_of(*differences):
    """Return paired results without resampling."""
    return [compare_paired(d, resamples=0) for d in differences]


@pytest.mark.parametrize(("errors", "fails"), [(1.9, False), (2.0, True)])
def test_a_drop_counts_from_a_margin_on_since_the_run_that_passed_was_lucky(errors, fails):
    """By .3 of its errors: alone, 1.65 and 1.95 have p values of .05 here."""
    d = np.random.default_rng(6).normal(size=1000)
    d = (d - d.mean()) / (d.std(ddof=1) / len(d) ** 0.5) - errors
    assert bool(judged(*results_of(d), fail_if_drop=0.0).whole.gate.failures) is fails


def test_groups_that_cannot_fail_are_named_and_take_nothing_from_the_others():
    random = np.random.default_rng(2)
    fell = random.normal(-0.03, 0.03, 40)
    few, same = np.full(3, -0.4), np.append(np.full(3, -0.9), np.zeros(57))
    all_rows = np.concatenate([fell, few, same])
    one = judged(*results_of(all_rows, fell, few, same, *[few] * 20))
    alone = judged(*results_of(all_rows, fell))
    assert one.groups[0].gate.failures
    assert one.groups[0].gate.p_value == alone.groups[0].gate.p_value
    assert [group.gate.judged for group in one.groups[:3]] == [True, False, True]
    assert not any(group.gate.failures for group in one.groups[1:])
    assert "got 3 rows; expected at least 7" in one.groups[1].gate.not_judged
    said = one.groups[2].gate.notice
    assert "it is lower by more than 0.005, but only 3 of its 60 rows have moved" in said
    assert "the difference is -0.045000, with a p value of 0.12" in said


@pytest.mark.parametrize("moved", [0, 2, 40])
def test_whether_it_can_be_judged_depends_on_the_number_of_rows_alone(moved):
    for rows, clusters, can in ((4, None, False), (5, None, True), (50, [1] * 50, False)):
        d = np.where(np.arange(rows) < moved, -0.9, 0.0)
        one = judged(compare_paired(d, clusters, resamples=0))
        assert one.whole.gate.judged is can
        if not can:
            assert (one.whole.gate.failures, one.whole.gate.p_value) == ((), None)
            assert Compared(comparisons=(one,)).passed is None
    # Rows of several groups, or for several runs: a group of seven has too few, whatever moves.
    group = np.where(np.arange(7) < moved, -0.9, 0.0)
    (whole,) = results_of(np.zeros(500))
    many = judged(whole, *results_of(*[group] * 20))
    assert not any(one.gate.judged for one in many.groups)
    assert Compared(comparisons=(many,)).passed is True


@pytest.mark.parametrize("rows", [[7] * 20, [6, 6], [7, 200, 200, 200, 200, 200], [3, 8, 9]])
def test_as_many_rows_as_a_message_expects_are_just_enough(rows):
    def first_of(own):
        sizes = (500, own, *rows[1:])
        return judged(*results_of(*map(np.zeros, sizes))).groups[0].gate

    expected = int(first_of(rows[0]).not_judged.partition("expected at least ")[2])
    assert [first_of(own).judged for own in (expected - 1, expected)] == [False, True]


def test_worse_goes_before_what_cannot_be_judged():
    few, fell = compare_paired([0.1] * 3, resamples=0), compare_paired([-0.1] * 30, resamples=0)
    one, other = judged(few), judged(fell)
    assert Compared(comparisons=(one, other)).passed is False
    assert Compared(comparisons=(other,)).passed is False
    still = judged(*results_of(np.zeros(50)))
    assert (still.whole.gate.failures, Compared(comparisons=(still,)).passed) == ((), True)


def test_lower_with_too_few_moved_for_a_proof_passes_with_a_notice_of_its_numbers():
    gate = judged(*results_of(np.append(np.full(4, -0.9), np.zeros(96)))).whole.gate
    assert (gate.judged, gate.failures) == (True, ())
    assert gate.notice == (
        "it is lower by more than 0.005, but only 4 of its 100 rows have moved, too few "
        "to prove it: the difference is -0.036000, with a p value of 0.062"
    )
    five = judged(*results_of(np.append(np.full(5, -0.9), np.zeros(95)))).whole.gate
    assert five.failures  # 2^-5 is below .05


@pytest.mark.parametrize(
    ("pairs", "missing", "limit", "together", "fails"),
    [
        (199, 1, 0.01, 1, False),
        (97, 3, 0.01, 1, False),
        (95, 5, 0.01, 1, True),
        (0, 2, 0.01, 1, True),  # all of them
        (999, 1, 0.0, 1, True),  # any
        (0, 2, 1.0, 1, False),
        (95, 5, 0.01, 5, False),  # one document
        (75, 25, 0.01, 5, True),
    ],
)
def test_lost_rows_fail_if_their_share_is_more_than_chance(pairs, missing, limit, together, fails):
    counts = replace(NO_ROWS, pairs=pairs, lost=missing)
    d = np.random.default_rng(4).normal(0, 0.001, pairs)
    chosen = CompareOptions(
        run="run", against=("against",), fail_if_drop=0.5, max_missing_fraction=limit, by=("x",)
    )
    group = replace(
        compared(compare_paired(d, resamples=0)),
        group=("a",),
        counts=counts,
        lost_together=float(together),
    )
    whole = compared(compare_paired(np.zeros(5000), resamples=0))
    (one,) = judge([seasons.comparison(whole, (group,), chosen)], chosen)
    assert bool(one.groups[0].gate.failures) == fails
