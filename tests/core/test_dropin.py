"""The bert-score interface: same calls, same shapes, same hash; never a silent substitute."""

import pytest
import torch

import bertscore_core
from bertscore_core import (
    BaselineNotFoundError,
    BERTScorer,
    ConfigError,
    IdfError,
    UnknownLanguageError,
)

pytestmark = pytest.mark.model

MODEL = "all-MiniLM-L6-v2"
CANDIDATES = ["the cat sat", "rain tomorrow"]
REFERENCES = ["a cat was sitting", "it will rain tomorrow"]


@pytest.fixture(scope="module")
def plain():
    return BERTScorer(MODEL, idf_sents=REFERENCES)


def test_returns_three_float_tensors_and_the_hash(plain):
    (precision, recall, f1), text = bertscore_core.score(
        CANDIDATES, REFERENCES, model_type=MODEL, return_hash=True
    )
    for tensor in (precision, recall, f1):
        assert tensor.shape == (2,)
        assert tensor.dtype == torch.float32
    assert text.startswith("all-MiniLM-L6-v2_L6_no-idf_version=0.3.12(hug_trans=")
    torch.testing.assert_close(plain.score(CANDIDATES, REFERENCES)[2], f1)
    assert plain.hash == text
    assert repr(plain) == f"BERTScorer(hash={text}, batch_size=64, nthreads=4)"


def test_idf_of_the_object_comes_from_the_texts_given():
    scorer = BERTScorer(MODEL, idf=True, idf_sents=REFERENCES)
    expected = bertscore_core.score(CANDIDATES, REFERENCES, model_type=MODEL, idf=True)
    for actual, wanted in zip(scorer.score(CANDIDATES, REFERENCES), expected, strict=True):
        torch.testing.assert_close(actual, wanted)
    with pytest.warns(UserWarning, match="Overwriting the previous importance weights"):
        scorer.compute_idf(CANDIDATES)
    assert scorer.hash.startswith("all-MiniLM-L6-v2_L6_idf_")


def test_idf_without_texts_is_an_error():
    with pytest.raises(ConfigError, match="idf weights are not computed"):
        BERTScorer(MODEL, idf=True).score(CANDIDATES, REFERENCES)


def test_idf_mapping_must_have_a_weight_for_every_token():
    with pytest.raises(IdfError, match="have no weight"):
        bertscore_core.score(CANDIDATES, REFERENCES, model_type=MODEL, idf={101: 0.0})


def test_several_references_and_all_layers_work_together():
    groups = [[text, "something else"] for text in REFERENCES]
    scores = bertscore_core.score(CANDIDATES, groups, model_type=MODEL, all_layers=True)
    single = bertscore_core.score(CANDIDATES, groups, model_type=MODEL)
    assert scores[2].shape == (7, 2)
    torch.testing.assert_close(scores[2][6], single[2], atol=1e-6, rtol=0)


def test_fast_tokenizer_takes_away_the_prefix_space_and_marks_the_hash():
    scorer = BERTScorer(MODEL, use_fast_tokenizer=True)
    assert scorer.hash.endswith("_fast-tokenizer")
    assert scorer.use_fast_tokenizer


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ConfigError, "neither lang nor model_type"),
        ({"lang": "english"}, UnknownLanguageError, "no default model"),
        (
            {"model_type": MODEL, "lang": "en", "rescale_with_baseline": True},
            BaselineNotFoundError,
            "no published baseline",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_said_before_scoring(arguments, error, message):
    with pytest.raises(error, match=message):
        bertscore_core.score(CANDIDATES, REFERENCES, **arguments)


def test_own_baseline_is_shown(tmp_path):
    table = tmp_path / "baseline.tsv"
    table.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.5,0.5,0.5\n" for n in range(7)))
    options = {"lang": "en", "rescale_with_baseline": True, "baseline_path": str(table)}
    scorer = BERTScorer(MODEL, **options)
    assert scorer.baseline_vals.tolist() == [0.5, 0.5, 0.5]
    assert scorer.hash.endswith("-custom-rescaled")
