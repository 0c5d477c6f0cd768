"""BertScorer on the embedded model: order, duplicates, references, idf, layers, invariance."""

import collections
import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from bertscore_core import BERTScorer, BertScorer, ConfigError, InputError, ScorerConfig, explain
from bertscore_core.model.memory import Budget
from tests.support.tolerances import INVARIANCE_ATOL

CANDIDATES = [
    "The cat sat on the mat.",
    "Rain is expected in the north tomorrow.",
    "",
    "one",
    "The cat sat on the mat.",
    "кошка сидит на коврике",
]
REFERENCES = [
    "A cat was sitting on the mat.",
    "Tomorrow it will rain in the north.",
    "something",
    "one",
    "A dog slept by the door.",
    "кот сидел на ковре",
]


def stack(scores):
    return np.stack([scores.precision, scores.recall, scores.f1])


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    """Return a scorer with a tiny model whose cosines are often negative."""
    return BertScorer(ScorerConfig(model=str(tiny_folder("bert")), num_layers=2, device="cpu"))


def test_scores_come_in_input_order_and_look_right(scorer):
    scores = scorer.score(CANDIDATES, REFERENCES)
    assert len(scores) == 6
    assert scores.f1.dtype == scores.precision.dtype == np.float32
    assert scores.f1[0] > scores.f1[4] > 0.3
    assert scores.f1[3] == pytest.approx(1.0, abs=INVARIANCE_ATOL)
    assert scores.f1[2] == scores.precision[2] == scores.recall[2] == 0.0
    assert scores.empty_candidate.tolist() == [False, False, True, False, False, False]
    assert not scores.empty_reference.any()
    assert repr(scores).startswith("Scores(6 pairs, precision=0.")


@settings(max_examples=20)
@given(
    order=st.permutations(range(12)),
    batch_tokens=st.integers(1, 200),
    block_bytes=st.integers(1, 1 << 16),
    match_elements=st.integers(1, 1 << 16),
)
def test_scores_do_not_depend_on_order_batches_or_blocks(
    tiny, order, batch_tokens, block_bytes, match_elements
):
    words = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st"]
    texts = [" ".join(words[(i * k) % 10] for k in range(1, 2 + i % 7)) for i in range(24)]
    candidates, references = texts[:12], texts[12:]
    expected = stack(tiny.score(candidates, references))
    squeezed = copy.copy(tiny)
    budget = Budget(
        batch_tokens=batch_tokens, block_bytes=block_bytes, match_elements=match_elements
    )
    squeezed._engine = replace(tiny._engine, budget=budget)
    actual = stack(squeezed.score([candidates[i] for i in order], [references[i] for i in order]))
    np.testing.assert_allclose(actual, expected[:, list(order)], atol=INVARIANCE_ATOL, rtol=0)


@pytest.mark.model
@pytest.mark.parametrize(
    ("backend", "all_layers"), [("torch", True), ("openvino", True), ("openvino", False)]
)
def test_threads_do_not_move_a_bit(backend, all_layers):
    """Parts and baselines must come out the same on workers with more threads or fewer."""
    before = torch.get_num_threads()
    texts = [" ".join(["a", "cat", "sat", "down"][: 1 + n % 4] * (1 + n % 9)) for n in range(80)]
    try:
        single, several = (
            BertScorer(
                ScorerConfig(
                    all_layers=all_layers,
                    layer_semantics="cut" if all_layers else "hidden",
                    device="cpu",
                    backend=backend,
                    num_threads=threads,
                )
            ).score(texts[:40], texts[40:])
            for threads in (1, 2)
        )
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(stack(single), stack(several))


def test_idf_is_counted_from_the_references_of_the_call(scorer):
    weighted = BertScorer(ScorerConfig(idf=True, device="cpu"))
    counted = weighted.count_idf(REFERENCES)
    assert counted.frequencies.num_documents == 6
    own = stack(weighted.score(CANDIDATES, REFERENCES))
    np.testing.assert_array_equal(own, stack(weighted.score(CANDIDATES, REFERENCES, idf=counted)))
    assert np.abs(own - stack(scorer.score(CANDIDATES, REFERENCES))).max() > 1e-3
    with pytest.raises(ConfigError, match="without idf"):
        scorer.score(CANDIDATES, REFERENCES, idf=counted)


SPECIAL = ["[SEP]", "the cat", "[CLS] [SEP]", "[SEP]", "the [SEP] cat", "[SEP]"]
AGAINST = [["the cat"], ["[SEP] [SEP]"], ["[SEP]"], [""], ["the cat"], ["the cat", "a cat"]]


def test_text_of_nothing_but_special_tokens_scores_0_where_bert_score_has_nan(scorer):
    drop_in = BERTScorer(model_type="all-MiniLM-L6-v2", device="cpu")
    theirs = np.stack([part.numpy() for part in drop_in.score(SPECIAL, AGAINST)])
    scores = scorer.score(SPECIAL, AGAINST)
    assert np.isnan(theirs).sum(axis=1).tolist() == [3, 2, 0]
    np.testing.assert_allclose(stack(scores), np.nan_to_num(theirs), atol=INVARIANCE_ATOL)
    assert stack(scores)[2][:4].tolist() == [0.0] * 4
    assert scores.scored.all()
    assert not scores.unweighted.any()
    # An empty text is that, whatever the other side is.
    assert scores.only_special.tolist() == [True, True, True, False, False, True]
    assert scores.empty_reference.tolist() == [False, False, False, True, False, False]


def test_text_without_any_token_scores_zero(tiny_folder):
    """Blenderbot-small adds no special tokens, so that an empty text has none."""
    folder = str(tiny_folder("blenderbot_small"))
    scorer = BertScorer(ScorerConfig(model=folder, num_layers=2, device="cpu"))
    scores = scorer.score(["", "one two", "one two"], ["one two", "", "one two"])
    assert scores.f1[:2].tolist() == [0.0, 0.0]
    assert scores.f1[2] == pytest.approx(1.0, abs=INVARIANCE_ATOL)
    assert scores.empty_candidate.tolist() == [True, False, False]


def test_no_pairs_give_no_scores(scorer):
    scores = scorer.score([], [])
    assert len(scores) == 0
    assert scores.f1.shape == scores.truncated.shape == scores.best_reference.shape == (0,)
    assert repr(scores) == "Scores(0 pairs)"  # numpy warns of means of nothing


@pytest.mark.parametrize(
    ("candidates", "references", "message"),
    [
        (["a"], ["b", "c"], "got 1 candidates and 2 references"),
        ("a", "b", "candidates is one text"),
        (["a"], [[]], "pair 0 has an empty list of references"),
        ("a", ["b"], "candidates is one text"),
        (["a"], "b", "references is one text"),
        (["a"], [(text for text in "b")], "got a reference of type generator"),
        (b"a", ["b"], "candidates is a bytes, whose texts have no positions"),
    ],
)
def test_what_is_no_pair_is_refused(scorer, candidates, references, message):
    with pytest.raises(InputError, match=message):
        scorer.score(candidates, references)


def one_column(module, *path):
    """Return what makes a column of texts, or of lists of texts, with a package."""

    def make(texts):
        made = pytest.importorskip(module)
        for name in path:
            made = getattr(made, name)
        return made(texts)

    return make


BY_POSITION = {
    "tuple": tuple,
    "deque": collections.deque,
    "numpy": lambda texts: np.array(texts),
    "numpy, objects": lambda texts: np.array([*texts, None], dtype=object)[:-1],
    "pandas": lambda texts: one_column("pandas", "Series")(texts).iloc[::-1].iloc[::-1],
    "polars": one_column("polars", "Series"),
    "Arrow": one_column("pyarrow", "array"),
    "Arrow, chunked": lambda texts: one_column("pyarrow", "chunked_array")([texts[:1], texts[1:]]),
    "datasets": lambda texts: one_column("datasets", "Dataset", "from_dict")({"x": texts})["x"],
}

NO_POSITIONS = {
    "set": set,
    "dict": dict.fromkeys,
    "generator": iter,
    "pandas": lambda texts: one_column("pandas", "DataFrame")({"a": texts}),
    "polars": lambda texts: one_column("polars", "DataFrame")({"a": texts}),
    "Arrow": lambda texts: one_column("pyarrow", "table")({"a": texts}),
    "tokenizer": lambda texts: one_column("transformers", "BatchEncoding")({"input_ids": texts}),
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_texts_are_taken_by_position(scorer, name):
    column, weighted = BY_POSITION[name], BertScorer(ScorerConfig(device="cpu", idf=True))
    lists = [[text, "a dog"] for text in REFERENCES]
    for way in (scorer, weighted):
        for references in (REFERENCES, lists):
            expected = stack(way.score(CANDIDATES, references))
            found = way.score(column(CANDIDATES), column(references))
            np.testing.assert_array_equal(stack(found), expected)
            groups = [text if isinstance(text, str) else column(text) for text in references]
            np.testing.assert_array_equal(stack(way.score(CANDIDATES, groups)), expected)


@pytest.mark.parametrize("name", NO_POSITIONS)
def test_what_has_no_positions_is_refused(scorer, name):
    given, weighted = NO_POSITIONS[name], BertScorer(ScorerConfig(device="cpu", idf=True))
    expected = "type dict" if name == "Arrow" else "expected a list, a tuple, an array or one"
    for way in (scorer, weighted):
        with pytest.raises(InputError, match=expected):
            way.score(given(CANDIDATES), REFERENCES)
        with pytest.raises(InputError, match=expected):
            way.score(CANDIDATES, given(REFERENCES))
    with pytest.raises(InputError, match=expected):
        scorer.count_idf(given(REFERENCES))
    with pytest.raises(InputError, match=expected):
        explain(scorer, "a", given(REFERENCES))


def test_a_model_is_named(scorer):
    for make in (BertScorer, lambda model: ScorerConfig(model=model)):
        with pytest.raises(InputError, match="the model is a BertModel; expected its name or"):
            make(type("BertModel", (), {})())


def test_idf_that_weighs_nothing_is_said_once_a_call(scorer, caplog):
    """Of one text, or of equal ones, every token is in every text."""
    weighted = BertScorer(ScorerConfig(device="cpu", idf=True))
    for candidates, references in ((["a cat"], ["a dog"]), (["a", "b"], [["a dog"], ["a dog"]])):
        caplog.clear()
        scores = weighted.score(candidates, references)
        (said,) = caplog.messages
        assert said.startswith("idf gives no token of the references a weight")
        assert "Count idf on more and different texts, or leave it out." in said
        assert np.isnan(scores.recall).all()
        assert not scores.f1.any()
    caplog.clear()
    weighted.score(["a", "b"], ["a dog", "a cat"])
    scorer.score(["a"], [""])
    assert not caplog.messages


@pytest.mark.model
def test_a_name_is_a_configuration():
    assert BertScorer("all-MiniLM-L6-v2").config == ScorerConfig(model="all-MiniLM-L6-v2")
