"""Every way to a score comes to what the specification says, under every setting.

tests/core/test_parity.py compares the specification itself with bert-score. Paths without an
encoder are compared with it in tests/core/match, test_windows.py and test_idf.py.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bertscore_core import Baseline, BertScorer, ScorerConfig, rescale, specification
from bertscore_core.model.memory import Budget
from tests.support.encoders import shared_encoder
from tests.support.specified import SPECIAL_TOKENS, Specified
from tests.support.tolerances import PARITY_ATOL

LAYERS = 3
LONG = "the cat sat on a mat while rain fell in north and dogs slept by old doors " * 2
GROUPS = [
    ("the cat sat on a mat", ["a cat sat on the mat"]),
    # Precision and recall may come from different references.
    ("rain fell in north", ["rain", "while rain fell in north dogs slept by doors", "a cat"]),
    ("old doors", ["the mat", "old doors", "old doors"]),
    ("", ["a cat"]),
    ("a cat", ["\u00a0"]),
    ("", ["", " "]),
    ("a cat", ["", "the cat sat"]),
    # With T5's mark of the end these are two tokens, which bert-score takes for empty.
    ("a", ["the cat", "a mat"]),
    # BERT's separator, and so nothing but special tokens.
    ("[SEP] [SEP]", ["the cat"]),
    ("the cat", ["[SEP] [CLS]", "a cat"]),
    (LONG, ["the cat sat", LONG[9:]]),
]
CANDIDATES, REFERENCES = map(list, zip(*GROUPS, strict=True))
TABLE = Baseline(name="custom", rows=np.outer(np.arange(1, LAYERS + 2), [0.1, 0.15, 0.12]))
SETTINGS = {
    "bert_score": {},
    "idf": {"idf": True},
    "zero": {"empty": "zero"},
    "null": {"empty": "null", "idf": True},
    "rescaled": {"rescale": True, "baseline": TABLE, "empty": "zero", "num_layers": 1},
    # The last layer, where the output of the encoder is what is scored in every family.
    "windows": {"long_text": "windows", "idf": True, "num_layers": LAYERS},
    "embeddings": {"num_layers": 0},
    "all_layers": {
        **{"all_layers": True, "rescale": True, "baseline": TABLE, "empty": "zero"},
        "long_text": "windows",
    },
    "all_layers_cut": {"all_layers": True, "layer_semantics": "cut", "empty": "null"},
}
WAYS = [
    *(("bert", way) for way in ("padded", "piecewise", "packed", "openvino")),
    *(("t5", way) for way in ("padded", "openvino")),
    ("prophetnet", "padded"),  # an empty text is a separator alone, without weight
]
"""Families, and ways to their scores. The fused kernel is compared in test_matching_triton.py."""

CASES = [
    *((*way, setting) for way in WAYS for setting in SETTINGS),
    ("xlnet", "padded", "windows"),
    *(
        pytest.param(family, "padded", "windows", marks=pytest.mark.long)
        for family in sorted(SPECIAL_TOKENS.keys() - {"xlnet", *(family for family, _ in WAYS)})
    ),
]
"""Every family in windows: their special tokens lie elsewhere."""


@pytest.fixture(scope="module")
def specified(tiny_folder):
    """Return what scores the texts of a family by the specification."""
    norms = {"t5": "encoder.final_layer_norm"}
    return cache(lambda family: Specified(tiny_folder(family), family, norms.get(family)))


def scorer_of(folder, way="padded", **changes) -> BertScorer:
    config = {"model": str(folder), "num_layers": 2, "max_length": 12, "device": "cpu"}
    config |= {"backend": "openvino" if way == "openvino" else "torch"}
    scorer = BertScorer(ScorerConfig(**config | changes))
    if way == "piecewise":  # each text, each pair and each tile of 3 by 3 alone
        budget = Budget(batch_tokens=1, block_bytes=1, match_elements=9, pair_elements=1)
        scorer._engine = replace(scorer._engine, budget=budget)
    if way == "packed":
        settings = scorer.settings
        encoder = shared_encoder(settings.files, settings.config, packs=True)
        scorer._engine = replace(scorer._engine, encoder=encoder)
    return scorer


@pytest.mark.model
@pytest.mark.parametrize(("family", "way", "setting"), CASES)
def test_scores_are_those_of_the_specification(tiny_folder, specified, family, way, setting):
    if way == "openvino":
        pytest.importorskip("openvino")
    scorer = scorer_of(tiny_folder(family), way, **SETTINGS[setting])
    scores = scorer.score(CANDIDATES, REFERENCES)
    if (shape := scorer.tokenizer.windows) is not None:
        assert (shape.leading, shape.trailing) == SPECIAL_TOKENS[family]
        assert scores.windows.max() > 3
        assert not scores.truncated.any()
    layers = range(LAYERS + 1) if scorer.config.all_layers else [scorer.settings.num_layers]
    actual = np.stack([scores.precision, scores.recall, scores.f1], axis=-1)
    for layer, rows, numbers in zip(
        layers,
        actual.reshape(len(layers), len(GROUPS), 3),
        scores.best_reference.reshape(len(layers), len(GROUPS)),
        strict=True,
    ):
        expected, best = specified(family).scores(scorer, CANDIDATES, REFERENCES, num_layers=layer)
        np.testing.assert_allclose(rows, expected, rtol=0, atol=PARITY_ATOL)
        assert numbers.tolist() == best


def test_the_texts_show_every_rule(tiny_folder):
    bert, t5 = (
        scorer_of(tiny_folder(family)).score(CANDIDATES, REFERENCES) for family in ("bert", "t5")
    )
    assert bert.only_special.any()
    assert t5.counted_as_empty.any()
    assert bert.truncated.any()
    assert bert.empty_candidate.any()
    precision, recall = bert.precision[1], bert.recall[1]
    assert bert.f1[1] < 2 * precision * recall / (precision + recall) - 0.01  # of two references


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), st.floats(0, 0.96875, width=32)
)
def test_rescaling_is_that_of_the_specification(score, baseline):
    expected = specification.rescale(np.array(score), np.full(3, baseline))
    actual = rescale(np.float32(score), np.full(3, baseline, np.float32))
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6 / (1 - baseline))
