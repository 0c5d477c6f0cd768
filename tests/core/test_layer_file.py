"""The file of layers that `tune` writes and `score --registry` reads."""

import pytest

from bertscore_core.errors import ConfigError
from bertscore_core.registry import TunedLayer, find_layer, format_layers, parse_layers, with_layers

ROBERTA = TunedLayer(
    model="FacebookAI/roberta-large", weights="aa", num_layers=18, source={"statistic": "pearson"}
)
OWN = TunedLayer(model="mine", weights="bb", num_layers=3)


def test_rows_are_read_as_they_were_written():
    assert parse_layers(format_layers([OWN, ROBERTA]), "the file") == [OWN, ROBERTA]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format": "bertscore-layers/9", "models": []}',
        b'{"format": "bertscore-layers/1"}',
        b'{"format": "bertscore-layers/1", "models": [{"model": "a", "num_layers": 1}]}',
        b'{"format": "bertscore-layers/1",'
        b' "models": [{"model": "a", "weights": "b", "num_layers": true}]}',
        b'{"format": "bertscore-layers/1",'
        b' "models": [{"model": "a", "weights": "b", "num_layers": -1}]}',
    ],
)
def test_another_file_is_refused(data):
    with pytest.raises(ConfigError, match=r"x\.json is no file of layers"):
        parse_layers(data, "x.json")


def test_a_new_row_replaces_the_old_one_of_the_same_weights():
    new = TunedLayer(model="roberta-large", weights="aa", num_layers=17)
    assert with_layers([ROBERTA, OWN], [new]) == [new, OWN]


def test_a_model_is_found_by_any_of_its_names():
    assert find_layer([OWN, ROBERTA], "roberta-large", "aa", "x") is ROBERTA


def test_a_layer_of_other_weights_or_another_model_is_never_taken():
    with pytest.raises(ConfigError, match=r"other weights: got bb; expected cc"):
        find_layer([OWN], "mine", "cc", "x")
    with pytest.raises(ConfigError, match=r"no layer for yours: got rows for mine"):
        find_layer([OWN], "yours", "bb", "x")
