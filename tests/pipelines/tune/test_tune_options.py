"""The options of `tune`: what cannot be computed is refused before anything is read."""

import pytest

from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_core.errors import ConfigError

NEEDED = {"judgements": "j.parquet", "output": "out", "score_column": "human"}


def options(**changes):
    return TuneOptions.from_mapping({**NEEDED, **changes}, "the test")


def test_layers_are_numbers_or_all():
    assert options().chosen_layers is None
    assert options(layers="all").chosen_layers is None
    assert options(layers=[5, "4,6", 5]).chosen_layers == (4, 5, 6)


def test_other_metrics_can_be_left_out():
    assert options().chosen_metrics == ("bleu", "chrf++", "rougel")
    assert options(metrics="all").chosen_metrics == ("bleu", "chrf", "chrf++", "ter", "rougel")
    assert options(metrics="none").chosen_metrics == ()


def test_labels_are_judged_by_their_own_statistic():
    assert options().statistic == "pearson"
    assert options(score_column=None, label_column="same").statistic == "auc"
    assert options(label_column="same").statistic == "pearson"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"score_column": None}, "--score-column is missing"),
        ({"layers": ["last"]}, "'layers' cannot be used"),
        ({"metrics": ["bleu", "none"]}, "'metrics' cannot be used"),
        ({"metrics": ["bleu", "all"]}, "or 'all' or 'none' alone"),
        ({"metrics": ["meteor"]}, "METEOR and CIDEr are not among them"),
        ({"metrics": ["bleu", "my-file:one"]}, "or functions as package.module:name"),
        ({"metrics": ["a:f1"]}, "names that no other metric or measure has"),
        ({"source_column": "source"}, "one only together with a function in --metrics"),
        ({"choose_by": "auc"}, "'choose_by' cannot be used"),
        ({"choose_by": "system_soft_accuracy", "system": "s"}, "Add --key"),
        ({"hybrids": 100}, "'hybrids' cannot be used"),
        ({"candidate_column": "reference"}, "'candidate_column' cannot be used"),
        ({"score_column": None, "label_column": "a", "lower_is_better": True}, "lower_is_better"),
        ({"system": " "}, "'system' cannot be used"),
        ({"min_rows": 2}, "at least 3"),
        ({"resamples": 5}, "at least 100"),
    ],
)
def test_options_that_contradict_each_other_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        options(**changes)
