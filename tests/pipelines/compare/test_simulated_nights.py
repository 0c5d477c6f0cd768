"""The gate over thousands of simulated nights: how often it fires, and what it finds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bertscore_beam import compare
from bertscore_core.stats import (
    FEW_CLUSTERS,
    POWER,
    CaveatKind,
    PairedSums,
    caveats_of_difference,
    compare_paired,
    paired_result,
)
from tests.support import nights

NIGHTS = 2000
NO_ROWS = compare.PairCounts(**dict.fromkeys(compare.PairCounts.__dataclass_fields__, 0))
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


@pytest.mark.parametrize("clusters", CLUSTERS.values(), ids=CLUSTERS)
def test_the_smallest_difference_that_rows_show_is_seen_on_four_of_five_nights(clusters):
    """The error of a night is an estimate, so the size is taken as the mean over others."""
    size = float(np.mean([one.detectable for one in nights.nights(NIGHTS, 0, clusters, seed=31)]))
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
    return compare.GroupComparison(group=compare.WHOLE, counts=counts, result=result, **values)


def caveats_of(result):
    """Return the kinds of caveats of a difference."""
    return [caveat.kind for caveat in caveats_of_difference(result, 0)]


def family(change, count, *, groups=10, seed=0):
    """Return whether the gate fired on each night for the whole, and for any of its groups."""
    random = np.random.default_rng(seed)
    options = compare.CompareOptions(run="run", against=("against",), fail_if_drop=0.004)
    fired = []
    for _ in range(count):
        changes = np.full(groups, change)
        rows = changes[:, None] + random.normal(0, nights.SPREAD, (groups, 100))
        sums = [PairedSums.of(rows.ravel()), *(PairedSums.of(row) for row in rows)]
        judged = compare.judge([compared(paired_result(one, resamples=0)) for one in sums], options)
        failed = [bool(one.gate.failures) for one in judged]
        fired.append((failed[0], any(failed[1:])))
    return np.mean(fired, axis=0)


@pytest.mark.parametrize(("count", "seed"), [(300, 12), thousands(13)])
def test_groups_together_raise_no_more_false_alarms_than_one(count, seed):
    """All ten groups change by exactly the drop: the worst that is no failure."""
    whole, groups = family(-0.004, count, seed=seed)
    assert near(whole, 0.05, count)
    assert near(groups, 0.05, count)  # Holm's first step is 1 - (1 - .005) ** 10 = .049
