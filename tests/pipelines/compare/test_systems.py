"""Systems of one run: two compared, all ranked."""

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.compare import keyed_rows, paired_sides
from bertscore_beam.compare.compare import compare_runs
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison_tables import warnings_in
from bertscore_beam.compare.ranking import rank
from bertscore_beam.compare.results import GroupComparison
from bertscore_beam.dump.census import WHOLE
from bertscore_core.errors import ConfigError
from bertscore_core.stats.paired import PairedResult
from tests.support.made_runs import made_run, scored

SEGMENTS = 300


pytestmark = pytest.mark.usefixtures("few_resamples")


SHIFTS = {"good": 0.0, "same": 0.0, "worse": -0.02, "worst": -0.05}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run of four systems, of which one lacks some segments and one has a null."""
    random = np.random.default_rng(0)
    hardness = random.normal(0.7, 0.1, SEGMENTS)
    tables = []
    for name, shift in SHIFTS.items():
        f1 = hardness + shift + random.normal(0, 0.02, SEGMENTS)
        if name == "same":
            f1[7] = np.nan
        rows = scored(
            f1,
            segment=pa.array(range(SEGMENTS)),
            pair=pa.array(["de-en", "zh-en"]).take(pa.array(np.arange(SEGMENTS) % 2)),
            system=pa.array([name] * SEGMENTS).dictionary_encode(),
        )
        tables.append(rows.slice(20 if name == "worse" else 0).unify_dictionaries())
    return made_run(tmp_path_factory.mktemp("systems") / "run", {"a": tables})


def compared(run, systems, **options):
    chosen = {"key": ("segment",), **options}
    return compare_runs(CompareOptions(run=str(run), systems=systems, **chosen))


def test_two_systems_are_compared_on_the_segments_that_both_have(run):
    (found,) = compared(run, ("worse", "good"), by=("pair",)).comparisons
    assert (found.run, found.against) == ("worse", "good")
    assert found.whole.counts.pairs == SEGMENTS - 20
    assert found.whole.counts.only_against_scored == 20
    assert found.whole.result.difference == pytest.approx(-0.02, abs=0.006)
    assert [one.group for one in found.groups] == [("de-en",), ("zh-en",)]
    gated = compared(run, ("worst", "good"), fail_if_drop=0.03).comparisons[0]
    assert len(gated.failures) == 1
    (other,) = compared(run, ("good", "worst")).comparisons
    assert other.whole.result.difference == -gated.whole.result.difference


def test_all_systems_are_ranked_in_clusters(run):
    result = compared(run, (), by=("pair",))
    assert len(result.comparisons) == 6
    whole, *groups = result.rankings
    assert [one.group for one in (whole, *groups)] == [WHOLE, ("de-en",), ("zh-en",)]
    # Rows that all have scored: neither the 20 that one lacks nor the one without a score.
    assert whole.rows == SEGMENTS - 20
    assert {one.system for one in whole.systems[:2]} == {"good", "same"}
    found = [(one.first, one.last, one.cluster, one.wins) for one in whole.systems]
    assert found == [(1, 2, 1, 2), (1, 2, 1, 2), (3, 3, 2, 1), (4, 4, 3, 0)]
    assert len(whole.pairs) == 6
    assert all(one.p_adjusted >= one.p_value for one in whole.pairs)


@pytest.mark.parametrize(
    ("confidence", "test"),
    # The least p value of 999 swaps is .001, and six pairs of systems make it .006.
    [(0.95, "randomization"), (0.993, "randomization"), (0.995, "t test"), (0.9999, "t test")],
)
def test_very_different_systems_are_in_different_clusters_at_any_confidence(
    tmp_path, confidence, test
):
    random = np.random.default_rng(5)
    tables = [
        scored(
            0.3 + 0.1 * number + random.normal(0, 0.004, 100),
            segment=pa.array(range(100)),
            system=pa.array([f"system-{number}"] * 100),
        )
        for number in range(4)
    ]
    result = compared(made_run(tmp_path / "run", {"a": tables}), (), confidence=confidence)
    (ranking,) = result.rankings
    assert ranking.test == test
    assert [one.cluster for one in ranking.systems] == [1, 2, 3, 4]
    said = " ".join(warnings_in(result))
    assert ("The p values of all rows come from the t test" in said) == (test == "t test")


def test_systems_that_are_not_there_are_named(run):
    with pytest.raises(ConfigError, match=r"got 'god'.*expected from 2 to 100.*'good', 'same'"):
        compared(run, ("god", "worse"))
    with pytest.raises(ConfigError, match="two or more different systems"):
        compared(run, ("good", "good"))
    with pytest.raises(ConfigError, match="got more than two systems"):
        compared(run, (), fail_if_drop=0.01)
    with pytest.raises(ConfigError, match="no system column 'model'"):
        compared(run, (), system_column="model")


def test_too_many_systems_are_refused(run, monkeypatch):
    monkeypatch.setattr(paired_sides, "MOST_SYSTEMS", 3)
    with pytest.raises(ConfigError, match=r"got 'good', .*'worst'; expected from 2 to 3 of those"):
        compared(run, ())
    monkeypatch.setattr(keyed_rows, "MOST_GROUPS", 3)
    with pytest.raises(ConfigError, match=r"got more than 3; expected names .* with --system\."):
        compared(run, ())


def test_systems_without_a_key_are_left_out_and_those_without_common_rows_are_said(tmp_path):
    random = np.random.default_rng(1)

    def rows(name, segments):
        f1 = random.normal(0.7, 0.1, len(segments))
        return scored(f1, segment=pa.array(segments, pa.int64()), system=pa.array([name] * len(f1)))

    odd = rows("odd", [None] * 4)
    two = [rows("a", range(20)), rows("b", range(20))]
    result = compared(made_run(tmp_path / "odd", {"x": [*two, odd]}), ())
    assert {one.system for one in result.rankings[0].systems} == {"a", "b"}
    assert "4 rows have a null or NaN in a column of the key" in result.comparisons[0].warnings[0]
    apart = made_run(tmp_path / "apart", {"x": [*two, rows("c", range(90, 99))]})
    with pytest.raises(ConfigError, match="3 systems cannot be ranked: got no row that all"):
        compared(apart, ())


def test_clusters_need_every_system_above_to_be_better_than_every_one_below():
    """A is better than C alone, so there is no line; then C is also worse than B."""

    def pair(difference, p_value):
        values = dict.fromkeys(("counts", "mean", "against_mean", "p_adjusted"))
        result = PairedResult(
            pairs=9, confidence=0.95, difference=difference, randomization_p=p_value
        )
        return GroupComparison(group=WHOLE, result=result, **values)

    means = (9, np.array([0.9, 0.8, 0.7]))
    compared = {(0, 1): pair(0.1, 0.5), (0, 2): pair(0.2, 0.001), (1, 2): pair(0.1, 0.3)}
    found = rank(WHOLE, "f1", "ABC", means, compared, 0.95)
    assert [one.cluster for one in found.systems] == [1, 1, 1]
    assert [(one.first, one.last) for one in found.systems] == [(1, 2), (1, 3), (2, 3)]
    found = rank(WHOLE, "f1", "ABC", means, {**compared, (1, 2): pair(0.1, 0.02)}, 0.95)
    assert [one.cluster for one in found.systems] == [1, 1, 2]
    # .03 would do alone, and does not among three tests.
    assert [one.p_adjusted for one in found.pairs] == pytest.approx([0.5, 0.003, 0.04])
