"""Statistics by group, and their mean over the groups."""

import numpy as np
import pytest

from bertscore_beam.tune import tune_results
from bertscore_beam.tune.other_metrics import languages_of_rows
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_beam.tune.tune_results import JudgedGroup, hybrids_of, mean_of, statistics_of
from bertscore_core.stats.agreement import pearson
from bertscore_core.stats.estimates import Resampled
from tests.support.judgements import judgement_rows, read, write_judgements

COLUMNS = {"system_column": "system", "item_column": "item", "label_column": "good"}


def options(**changes):
    return TuneOptions(judgements=("j",), output="out", score_column="human", **changes)


def judgements(tmp_path, rows=None, **changes):
    return read(write_judgements(tmp_path / "j.parquet", rows), **changes)


def test_columns_decide_which_statistics_are_computed(tmp_path):
    plain = statistics_of(judgements(tmp_path), options())
    assert list(plain) == ["pearson", "spearman", "kendall"]
    more = statistics_of(judgements(tmp_path, **COLUMNS), options(**COLUMNS))
    assert set(more) - set(plain) == {
        "item_kendall", "item_accuracy", "auc",
        "system_pearson", "system_accuracy", "system_soft_accuracy",
    }  # fmt: skip


@pytest.mark.parametrize("sign", [1, -1])
def test_raw_assessments_of_0_to_100_are_also_ranked(tmp_path, sign):
    rows = [{**row, "human": sign * min(max(row["human"], 0), 1) * 100} for row in judgement_rows()]
    assert "darr" in statistics_of(judgements(tmp_path, rows), options())


def test_a_score_that_repeats_people_agrees_fully(tmp_path):
    found = judgements(tmp_path, **COLUMNS)
    people, labels = found.people[None], found.labels[None]
    own = JudgedGroup.of(found, np.arange(len(found)), np.concatenate([people, labels]))
    values = {
        name: statistic(own).values
        for name, statistic in statistics_of(found, options(**COLUMNS)).items()
    }
    assert values.pop("auc")[1] == pytest.approx(1)
    for name, value in values.items():
        assert value[0] == pytest.approx(1), name
    hybrids = hybrids_of(own, options(hybrids=200, **COLUMNS))
    assert hybrids["hybrid_hits_at_1"][0] == pytest.approx(1)
    assert hybrids["hybrid_difference"][0] == pytest.approx(0)
    assert hybrids["hybrid_hits_at_1"][1] < 1


@pytest.mark.parametrize("noise", [2 * np.finfo(np.float32).eps, 5e-7])
def test_equal_texts_and_perfect_scores_tie_whatever_the_noise(tmp_path, noise):
    """Of the same texts in other chunks, float32 scores differ by up to 5e-7."""
    rng = np.random.default_rng(11)
    rows = judgement_rows()
    for row in rows[::2]:  # half repeat the output of another system
        row["candidate"] = rows[rows.index(row) + 1]["candidate"]
    for row in rows[::5]:
        row["candidate"] = row["reference"]
    found = judgements(tmp_path, rows, by="language", **COLUMNS)
    made: dict[object, float] = {}
    true = np.array([
        made.setdefault((group, own, other), 1.0 if own == other else rng.uniform())
        for group, own, (other,) in zip(
            found.groups.tolist(), found.candidates, found.references, strict=True
        )
    ])  # fmt: skip
    assert len(set(true.tolist())) < 0.7 * len(true)
    noisy = (true + rng.uniform(-noise, noise, (8, len(true)))).astype(np.float32)
    everything = np.arange(len(found))
    wanted, own, bare = (
        JudgedGroup.of(found, everything, np.float64(scores))
        for scores in (true[None], tune_results.with_ties(found, noisy), noisy)
    )
    names = {"kendall", "auc", "item_kendall", "item_accuracy", "system_accuracy"}
    statistics = statistics_of(found, options(**COLUMNS))
    for name in names:
        expected = statistics[name](wanted).values[0]
        assert statistics[name](own).values.tolist() == [expected] * 8, name
    assert np.ptp(statistics["kendall"](bare).values) > 0


def made_rows(people, scores, items=None):
    return JudgedGroup(people=people, labels=None, systems=None, items=items, scores=scores)


def test_halves_hold_each_row_once_and_keep_items_whole():
    numbers = np.arange(90.0)
    for items in (None, np.repeat([f"item {n}" for n in range(30)], 3)):
        rows = made_rows(numbers, np.array([numbers, -numbers]), items)
        first, second = (rows.half(side, [1], 4) for side in (0, 1))
        assert sorted([*first.people, *second.people]) == numbers.tolist()
        assert len(first.people) == len(second.people)
        assert first.scores.tolist() == [(-first.people).tolist()]
        assert rows.half(0, [1], 4).people.tolist() == first.people.tolist()
        if items is not None:
            assert not {*first.items} & {*second.items}


def test_what_is_held_out_does_not_profit_from_the_choice():
    """Of seven equally good layers the best looks better than any is."""
    best, apart, seven = [], [], range(7)

    def held_out(rows):
        return tune_results.held_out(lambda own: pearson(own.people, own.scores), [rows], seven, 0)

    for seed in range(200):
        random = np.random.default_rng(seed)
        people = random.normal(size=120)
        rows = made_rows(people, people + 1.5 * random.normal(size=(7, 120)))
        best.append(pearson(people, rows.scores).values.max())
        apart.append(held_out(rows))
    halves = [rows.half(side, seven, 0) for side in (0, 1)]
    one, other = (pearson(half.people, half.scores).values for half in halves)
    both_ways = (other[one.argmax()] + one[other.argmax()]) / 2
    assert apart[-1] == pytest.approx(both_ways, abs=1e-12)
    truth = 1 / np.sqrt(1 + 1.5**2)
    error = np.std(apart) / np.sqrt(200)
    assert np.mean(apart) == pytest.approx(truth, abs=4 * error)
    assert np.mean(best) > truth + 10 * error
    assert held_out(made_rows(people, np.ones((7, 120)))) is None


def test_the_error_of_a_mean_over_groups_is_that_of_independent_groups():
    random = np.random.default_rng(3)
    parts = []
    for rows in (40, 90, 200):
        people = random.normal(size=rows)
        parts.append(pearson(people, people + random.normal(size=(2, rows))))
    mean = mean_of(parts)
    assert mean.values == pytest.approx(np.mean([part.values for part in parts], axis=0))
    expected = np.sqrt(np.sum([part.errors**2 for part in parts], axis=0)) / 3
    assert mean.errors == pytest.approx(expected, rel=0.02)


def test_the_mean_of_resampled_statistics_keeps_their_pairs():
    random = np.random.default_rng(4)
    both = random.normal(size=(2, 100, 2))
    mean = mean_of([Resampled(values=np.array([0.5, 0.4]), replicates=own) for own in both])
    assert mean.replicates == pytest.approx(both.mean(axis=0))


@pytest.mark.parametrize(
    ("name", "language"),
    [("zh", "zh"), ("en-zh", "zh"), ("et-en", "en"), ("newstest", ""), ("web-forum", "")],
)
def test_a_group_may_name_the_language_of_its_texts(tmp_path, name, language):
    rows = [{**row, "group": name} for row in judgement_rows()]
    found = judgements(tmp_path, rows, by="group")
    assert languages_of_rows(found, None) == (language,)
    assert languages_of_rows(found, "ja") == ("ja",)
