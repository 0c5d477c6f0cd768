"""The registry: the reference's tables, no silent fallback."""

import pytest

from bertscore_core import (
    EMBEDDED_MODEL,
    UnknownLanguageError,
    UnknownModelError,
    get_model_spec,
    known_languages,
    known_models,
    model_for_language,
)
from bertscore_core.registry import canonical_name


def test_every_model_of_the_reference_and_the_embedded_one_is_there():
    names = [spec.name for spec in known_models()]
    assert len(names) == len(set(names)) == 188
    assert sum(spec.num_layers is not None for spec in known_models()) == 141
    assert EMBEDDED_MODEL in names


def test_untuned_models_have_no_layer_and_state_their_depth():
    for spec in known_models():
        assert (spec.num_layers is None) == (spec.depth is not None), spec.name
    spec = get_model_spec("intfloat/multilingual-e5-base")
    assert (spec.num_layers, spec.depth, spec.max_length) == (None, 12, None)
    assert get_model_spec("Alibaba-NLP/gte-multilingual-base").own_code


@pytest.mark.parametrize(
    ("name", "num_layers", "adds_prefix_space"),
    [
        ("roberta-large", 17, True),
        ("FacebookAI/roberta-large", 17, True),
        ("bert-base-multilingual-cased", 9, False),
        ("microsoft/deberta-xlarge-mnli", 40, False),
        ("xlm-roberta-large", 17, False),
        ("facebook/bart-large", 10, False),
        ("princeton-nlp/sup-simcse-roberta-base", 10, True),
    ],
)
def test_tuned_layers_and_prefix_space(name, num_layers, adds_prefix_space):
    spec = get_model_spec(name)
    assert (spec.num_layers, spec.adds_prefix_space) == (num_layers, adds_prefix_space)


def test_unknown_model_names_the_nearest():
    with pytest.raises(UnknownModelError, match="near it: roberta-large"):
        get_model_spec("roberta-lage")


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
    assert model_for_language(language) == model


@pytest.mark.parametrize("language", ["english", "en-us", "xx", ""])
def test_unknown_language_is_an_error_that_lists_the_known(language):
    with pytest.raises(UnknownLanguageError, match=r"Known: af, an, ar, .*, zh\."):
        model_for_language(language)
    assert language not in known_languages()


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
    assert canonical_name(name) == canonical
