"""The registry: the reference's tables, no silent fallback; and the file of layers."""

from pathlib import Path

import numpy as np
import pytest

from bertscore_core import errors, find_baseline, published_baselines, registry


@pytest.mark.filterwarnings("ignore")  # its imports
def test_layers_languages_and_baselines_are_those_of_the_reference():
    reference = pytest.importorskip("bert_score.utils", reason="extra test")
    specs, languages = registry.known_models(), registry.known_languages()
    layers = {spec.name: spec.num_layers for spec in specs if spec.num_layers is not None}
    assert layers == {**reference.model2layers, registry.EMBEDDED_MODEL: 6}
    assert all(reference.lang2model[name] == model for name, model in languages.items())
    root = Path(reference.__file__).with_name("rescale_baseline")
    files = {
        path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.tsv")
    }
    assert files.keys() == {"/".join(key) for key in published_baselines()}
    for name, path in files.items():
        expected = np.loadtxt(path, delimiter=",", skiprows=1)[:, 1:]
        np.testing.assert_array_equal(find_baseline(*name.split("/", 1)).rows, expected)


def test_every_model_of_the_reference_and_the_embedded_one_is_there():
    names = [spec.name for spec in registry.known_models()]
    assert len(names) == len(set(names)) == 188
    assert sum(spec.num_layers is not None for spec in registry.known_models()) == 141
    assert registry.EMBEDDED_MODEL in names


def test_unknown_model_names_the_nearest():
    with pytest.raises(errors.UnknownModelError, match="near it: roberta-large"):
        registry.get_model_spec("roberta-lage")


@pytest.mark.parametrize(
    ("language", "model"),
    [
        ("en", "roberta-large"),
        ("EN", "roberta-large"),
        ("zh", "bert-base-chinese"),
        ("tr", "dbmdz/bert-base-turkish-cased"),
        ("en-sci", "allenai/scibert_scivocab_uncased"),
        ("ru", "bert-base-multilingual-cased"),
    ],
)
def test_default_models(language, model):
    assert registry.model_for_language(language) == model


@pytest.mark.parametrize("language", ["english", "en-us", "xx", ""])
def test_unknown_language_is_an_error_that_lists_the_known(language):
    with pytest.raises(errors.UnknownLanguageError, match=r"Known: af, an, ar, .*, zh\."):
        registry.model_for_language(language)
    assert language not in registry.known_languages()


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("google-bert/bert-base-cased", "bert-base-cased"),
        ("microsoft/deberta-base", "microsoft/deberta-base"),
        ("roberta-large", "roberta-large"),
        ("FacebookAI/", "FacebookAI/"),
    ],
)
def test_names_with_a_later_organisation_are_the_old_ones(name, canonical):
    assert registry.canonical_name(name) == canonical


# The file of layers that `tune` writes and `score --registry` reads.

ROBERTA = registry.TunedLayer(
    model="FacebookAI/roberta-large", weights="aa", num_layers=18, source={"statistic": "pearson"}
)
OWN = registry.TunedLayer(model="mine", weights="bb", num_layers=3)


def test_rows_are_read_as_they_were_written():
    assert registry.parse_layers(registry.format_layers([OWN, ROBERTA]), "the file") == [
        OWN,
        ROBERTA,
    ]


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
    with pytest.raises(errors.ConfigError, match=r"x\.json is not a file of layers"):
        registry.parse_layers(data, "x.json")


def test_a_new_row_replaces_the_old_one_of_the_same_weights():
    new = registry.TunedLayer(model="roberta-large", weights="aa", num_layers=17)
    assert registry.with_layers([ROBERTA, OWN], [new]) == [new, OWN]


def test_a_model_is_found_by_any_of_its_names():
    assert registry.find_layer([OWN, ROBERTA], "roberta-large", "aa", "x") is ROBERTA


def test_a_layer_of_other_weights_or_another_model_is_never_taken():
    with pytest.raises(errors.ConfigError, match=r"other weights: got bb; expected cc"):
        registry.find_layer([OWN], "mine", "cc", "x")
    with pytest.raises(errors.ConfigError, match=r"no layer for yours: got rows for mine"):
        registry.find_layer([OWN], "yours", "bb", "x")
