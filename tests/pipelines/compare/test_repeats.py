"""Which rows repeat others: those whose texts do, whatever their scores."""

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.compare import keyed_rows
from bertscore_beam.compare.compare import compare_runs
from bertscore_beam.compare.compare_options import CompareOptions
from bertscore_beam.compare.comparison_tables import tables_of
from bertscore_beam.dump import columns
from bertscore_core.stats.caveats import CaveatKind
from tests.support.made_runs import made_run, scored, with_column

pytestmark = pytest.mark.usefixtures("few_resamples")

ITEMS, COPIES = 10, 4
ROWS = ITEMS * COPIES
ITEM = np.arange(ROWS) % ITEMS


def texts(what):
    """Return a text of each row, the same of all copies of an item."""
    return [f"{what} number {item}" for item in ITEM]


def night(seed, *, jitter=0.0, copies_differ=False, tokens=20, **given):
    """Return rows that repeat each other; scores of copies are equal but for jitter."""
    random = np.random.default_rng(seed)
    f1 = random.normal(0.8, 0.05, ITEMS)[ITEM] + jitter * random.normal(size=ROWS)
    own = random.normal(0.8, 0.05, ROWS) if copies_differ else f1
    rows = {"id": pa.array(range(ROWS)), "reference": texts("reference")}
    rows |= {"candidate": texts(f"answer of night {seed}"), **given}
    return scored(own, tokens=tokens, **rows)


def changed(rows, name, row, text):
    values = rows[name].to_pylist()
    return with_column(rows, name, [*values[:row], text, *values[row + 1 :]])


def compared(folder, now, before, **options):
    runs = [
        made_run(folder / name, {"a": rows}, part_rows=max(7, len(rows) // 5))
        for name, rows in (("now", now), ("before", before))
    ]
    chosen = {"key": ("id",), "fail_if_drop": 0.005, **options}
    return compare_runs(CompareOptions(run=str(runs[0]), against=(str(runs[1]),), **chosen))


def units(folder, now, before, **options):
    result = compared(folder, now, before, **options).comparisons[0].whole.result
    assert result.pairs == ROWS
    return result.units


def listed(*more):
    return pa.array([[f"reference {item}", *more] for item in ITEM])


SYSTEMS = pa.array([f"system-{row % 20 // 10}" for row in range(ROWS)])
"""Each has every item twice."""
BY_SYSTEM = [f"{name} {item}" for name, item in zip(SYSTEMS.to_pylist(), ITEM, strict=True)]


@pytest.mark.parametrize(
    ("both", "expected"),
    [
        ({}, ITEMS),
        ({"jitter": 1e-7}, ITEMS),
        ({"copies_differ": True}, ITEMS),  # the texts decide alone
        ({"tokens": 10}, ITEMS),
        ({"tokens": 9}, ROWS),
        ({"reference": listed("another")}, ITEMS),  # ten tokens each
        ({"reference": listed("another", "a third")}, ROWS),
        ({"reference": pa.array(texts("x")).dictionary_encode()}, ITEMS),
        ({"candidate": pa.array(texts("x"), pa.large_string())}, ITEMS),
        ({"candidate": pa.array(texts("x"), pa.binary())}, ITEMS),
        ({"reference": [f"number {row}" for row in range(ROWS)]}, ROWS),
        ({"candidate": [f"sample {row}" for row in range(ROWS)]}, ROWS),
        ({"source": texts("source")}, ITEMS),
        ({"source": [f"source {row // 20}" for row in range(ROWS)]}, 2 * ITEMS),
        ({"source": [f"source {row}" for row in range(ROWS)]}, ROWS),
        ({"system": SYSTEMS, "candidate": BY_SYSTEM}, ROWS),  # two candidates of an item
    ],
)
def test_rows_repeat_others_if_their_long_texts_are_equal(tmp_path, both, expected):
    assert units(tmp_path, night(1, **both), night(2, **both)) == expected


@pytest.mark.parametrize("side", [0, 1])
def test_a_set_with_a_second_candidate_on_either_side_has_no_repeats(tmp_path, side):
    nights = [night(1), night(2)]
    nights[side] = changed(nights[side], "candidate", 13, "another answer")
    assert units(tmp_path, *nights) == ITEMS + COPIES - 1


def test_rows_without_a_score_are_no_second_candidate(tmp_path):
    rows = night(1)
    f1 = rows[columns.F1].to_numpy().copy()
    f1[13] = np.nan
    given = {name: rows[name] for name in ("id", "reference")}
    candidates = changed(rows, "candidate", 13, None)["candidate"]
    result = compared(tmp_path, scored(f1, candidate=candidates, **given), night(2))
    (one,) = result.comparisons
    assert (one.whole.result.units, one.whole.result.pairs) == (ITEMS, ROWS - 1)


def test_groups_have_repeats_of_their_own_and_the_whole_has_theirs(tmp_path):
    given = {"system": SYSTEMS, "candidate": BY_SYSTEM}
    (one,) = compared(tmp_path, night(1, **given), night(2, **given), by=("system",)).comparisons
    assert [group.result.units for group in one.groups] == [ITEMS, ITEMS]
    assert one.whole.result.units == 2 * ITEMS
    assert one.whole.result.repeats == ROWS - 2 * ITEMS


@pytest.mark.parametrize("bucket_rows", [8, 10_000])
def test_repeats_are_as_clusters_of_the_same_rows(tmp_path, monkeypatch, bucket_rows):
    monkeypatch.setattr(keyed_rows, "BUCKET_ROWS", bucket_rows)
    given = {"item": pa.array(ITEM)}
    now, before = night(1, **given), night(2, **given)
    found = compared(tmp_path, now, before)
    (own,) = found.comparisons
    (named,) = compared(tmp_path / "2", now, before, cluster="item").comparisons
    (alone,) = compared(tmp_path / "3", now, before, cluster="id").comparisons
    mine, theirs, each = (one.whole.result for one in (own, named, alone))
    for name in ("error", "interval", "p_value", "randomization_p", "units", "moved_units"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-9), name
    assert (mine.clusters, mine.repeats) == (None, ROWS - ITEMS)
    assert (theirs.clusters, theirs.repeats, each.clusters) == (ITEMS, 0, ROWS)
    assert each.error == pytest.approx(mine.error / COPIES**0.5, rel=0.06)
    assert CaveatKind.REPEATED in [caveat.kind for caveat in own.whole.caveats]
    shown = [row for table in tables_of(found) for row in table.rows]
    assert ("repeats of other pairs, which count once", str(ROWS - ITEMS)) in shown


def test_rows_that_lose_their_scores_together_are_one_event(tmp_path):
    """One of ten items is gone: 4 of 40 rows, but only one thing has happened."""
    rows = night(1)
    f1 = np.where(ITEM == 3, np.nan, rows[columns.F1].to_numpy())
    given = {name: rows[name] for name in ("id", "candidate", "reference")}
    options = {"fail_if_drop": 0.5, "max_missing_fraction": 0.01}
    (one,) = compared(tmp_path, scored(f1, **given), night(2), **options).comparisons
    assert (one.whole.counts.missing, one.whole.lost_together) == (COPIES, COPIES)
    (each,) = compared(
        tmp_path / "2", scored(f1, **given), night(2), cluster="id", **options
    ).comparisons
    assert (each.whole.lost_together, len(each.failures)) == (1, 1)
    assert one.whole.missing_p_value(0.01) > 20 * each.whole.missing_p_value(0.01)


def test_too_few_rows_that_do_not_repeat_each_other_cannot_be_judged(tmp_path):
    item = np.arange(ROWS) % 4
    given = {"reference": [f"reference {one}" for one in item]}
    given["candidate"] = [f"answer {one}" for one in item]
    for seed, before in enumerate((night(2, **given), night(1, **given))):
        found = compared(tmp_path / str(seed), night(1, **given), before)
        assert found.passed is None
        said = (
            "got 4 rows (36 more repeat these); expected at least 5. To count each row, use "
            "--cluster id"
        )
        assert found.comparisons[0].not_judged == said


def yes_no(accuracy, rows, seed, **given):
    """Return answers to yes/no questions: one word each."""
    random = np.random.default_rng(seed)
    truth = np.where(np.random.default_rng(0).random(rows) < 0.5, "Yes", "No")
    right = random.random(rows) < accuracy
    said = np.where(right, truth, np.where(truth == "Yes", "No", "Yes"))
    f1 = np.where(right, 1.0, 0.8)
    return scored(f1, id=range(rows), candidate=said, reference=truth, tokens=3, **given)


def test_a_collapse_of_short_answers_is_found(tmp_path):
    found = compared(tmp_path, yes_no(0.1, 400, 1), yes_no(0.95, 400, 2))
    (one,) = found.comparisons
    assert found.passed is False
    assert one.whole.gate.p_value < 1e-20
    assert one.whole.result.moved_units == one.whole.counts.up + one.whole.counts.down > 300


def test_short_answers_rank_systems(tmp_path):
    tables = [
        yes_no(accuracy, 100, seed, system=[name] * 100)
        for seed, (name, accuracy) in enumerate((("bad", 0.05), ("good", 0.97)))
    ]
    run = made_run(tmp_path / "run", {"a": tables})
    (ranking,) = compare_runs(CompareOptions(run=str(run), systems=(), key=("id",))).rankings
    assert [(one.system, one.cluster) for one in ranking.systems] == [("good", 1), ("bad", 2)]
    assert ranking.pairs[0].p_value == pytest.approx(1 / 1000)  # of 999 swaps


def test_an_exact_match_of_one_s_own_has_the_error_of_its_rows(tmp_path):
    random = np.random.default_rng(3)
    values = [(random.random(2000) < share).astype(float) for share in (0.45, 0.5)]
    now, before = (
        scored(np.full(2000, 0.8), id=pa.array(range(2000)), metric_em=own) for own in values
    )
    (one,) = compared(tmp_path, now, before, measure=("metric_em",)).comparisons
    d = values[0] - values[1]
    assert one.whole.result.error == pytest.approx(d.std(ddof=1) / 2000**0.5, rel=1e-9)
    assert one.failures
