"""Statistics by group, and their mean over the groups."""

import numpy as np
import pytest

from bertscore_beam.tune import (
    GroupRows,
    TuneOptions,
    hybrids_of,
    languages_of_rows,
    mean_of,
    read_judgements,
    statistics_of,
)
from bertscore_core.stats import Resampled, pearson
from tests.support.judgements import judgement_rows, write_judgements

COLUMNS = {"system_column": "system", "item_column": "item", "label_column": "good"}


def options(**changes):
    return TuneOptions(judgements=("j",), output="out", score_column="human", **changes)


def judgements(tmp_path, rows=None, **changes):
    path = write_judgements(tmp_path / "j.parquet", rows)
    chosen = {"judgements": (str(path),), "output": "out", "score_column": "human", **changes}
    return read_judgements(TuneOptions(**chosen), "out")


def test_columns_decide_which_statistics_are_computed(tmp_path):
    plain = statistics_of(judgements(tmp_path), options())
    assert list(plain) == ["pearson", "spearman", "kendall"]
    more = statistics_of(judgements(tmp_path, **COLUMNS), options(**COLUMNS))
    assert set(more) - set(plain) == {
        "item_kendall", "item_accuracy", "system_pearson", "system_accuracy", "auc",
    }  # fmt: skip


@pytest.mark.parametrize("sign", [1, -1])
def test_raw_assessments_of_0_to_100_are_also_ranked(tmp_path, sign):
    rows = [{**row, "human": sign * min(max(row["human"], 0), 1) * 100} for row in judgement_rows()]
    assert "darr" in statistics_of(judgements(tmp_path, rows), options())


def test_a_score_that_repeats_people_agrees_fully(tmp_path):
    found = judgements(tmp_path, **COLUMNS)
    people, labels = found.people[None], found.labels[None]
    own = GroupRows.of(found, np.arange(len(found)), np.concatenate([people, labels]))
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
    parts = [
        Resampled(values=np.array([0.5, 0.4]), replicates=random.normal(size=(100, 2)))
        for _ in range(2)
    ]
    mean = mean_of(parts)
    assert mean.replicates == pytest.approx((parts[0].replicates + parts[1].replicates) / 2)


@pytest.mark.parametrize(
    ("name", "language"),
    [("zh", "zh"), ("en-zh", "zh"), ("et-en", "en"), ("newstest", ""), ("web-forum", "")],
)
def test_a_group_may_name_the_language_of_its_texts(tmp_path, name, language):
    rows = [{**row, "group": name} for row in judgement_rows()]
    found = judgements(tmp_path, rows, by="group")
    assert languages_of_rows(found, None) == (language,)
    assert languages_of_rows(found, "ja") == ("ja",)
