"""The model handler for RunInference: what it says of each pair, and which batches it refuses."""

import numpy as np
import pytest
import torch
from apache_beam.ml.inference.base import KeyedModelHandler, PredictionResult, RunInference

from bertscore_beam.dump.columns import OUTPUT_COLUMNS
from bertscore_beam.pairs.handler import BertScoreModelHandler, PairScore
from bertscore_beam.pairs.transform import ScorePairs
from bertscore_core import BertScorer, IdfError, InputError, ScorerConfig, Signature
from tests.support.bad_values import BAD_VALUES, FRONTS
from tests.support.streamed_pairs import BAD, CONFIG, Attributes, library, pairs

pytestmark = [pytest.mark.job, pytest.mark.model, pytest.mark.process]


@pytest.fixture(scope="module")
def handler():
    return BertScoreModelHandler(CONFIG)


@pytest.fixture(scope="module")
def model(handler):
    return handler.load_model()


@pytest.mark.parametrize(
    ("candidate", "reference", "reason"),
    [
        ("a cat", np.array("a cat"), "not_text"),
        ("", "a cat", "empty_candidate"),
        ("[SEP]", "a cat", "only_special_tokens"),
        ("a cat", np.array(["a cat", None], dtype=object), "null_reference"),
        ("a cat", ("a cat", "a dog"), None),
        ("a cat", np.array(["a cat", "a dog"]), None),
    ],
)
def test_every_value_has_scores_or_a_reason(handler, model, candidate, reference, reason):
    good = Attributes("the cat", "the cat")
    batch = [Attributes(candidate, reference), good]
    assert handler.get_num_bytes(batch) >= len(good.candidate)
    odd, even = handler.run_inference(batch, model)
    assert odd.inference.error == reason
    assert (odd.inference.f1 is None) == (reason in ("not_text", "invalid_utf8", "null_reference"))
    assert even.inference.error is None
    assert even.inference.f1 == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("side", ["candidate", "reference", "second reference"])
def test_a_bad_value_gets_its_reason_whatever_stands_before_it(handler, model, side, front):
    batch = [Attributes(front, front)]
    for bad in BAD_VALUES.values():
        pair = Attributes(bad, front) if side == "candidate" else Attributes(front, bad)
        batch.append(Attributes(front, [front, bad]) if side == "second reference" else pair)
    good, *found = (result.inference.error for result in handler.run_inference(batch, model))
    assert good is None
    expected = dict.fromkeys(BAD_VALUES, "not_text") | {
        "none": "null_candidate" if side == "candidate" else "null_reference",
        "lone surrogate": "invalid_utf8",
        "lone surrogate after others": "invalid_utf8",
    }
    assert dict(zip(BAD_VALUES, found, strict=True)) == expected


def test_a_pair_has_a_value_for_each_column_of_the_job():
    assert [f"bertscore_{name}" for name in PairScore._fields] == [*OUTPUT_COLUMNS]


def test_batch_of_nothing_but_bad_pairs_is_no_error(handler, model):
    found = handler.run_inference(list(BAD.values()), model)
    assert [result.inference.error for result in found] == list(BAD)
    empty = PairScore(*[None] * len(PairScore._fields))
    assert [result.inference._replace(error=None) for result in found] == [empty] * len(BAD)
    assert handler.run_inference([], model) == []


def test_results_bear_the_pair_its_score_and_the_signature(handler, model):
    pair = Attributes("a cat", "the cat")
    (result,) = handler.run_inference([pair], model)
    assert isinstance(result, PredictionResult)
    assert result.example is pair
    assert isinstance(result.inference, PairScore)
    assert result.model_id == handler.signature().format()
    expected = BertScorer(ScorerConfig(device="cpu", empty="zero")).signature()
    assert Signature.parse(result.model_id) == expected


def test_what_a_pipeline_sets_in_torch_moves_no_score(handler, model):
    batch = [{"candidate": "a cat sat", "reference": ["the cat", "a dog"]}]
    (expected,) = handler.run_inference(batch, model)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        (found,) = handler.run_inference(batch, model)
    assert found.inference == expected.inference


def test_keyed_pairs_keep_their_keys(run, handler):
    rows = pairs(3)
    keyed = [(row["id"], row) for row in rows]
    found = dict(run(RunInference(KeyedModelHandler(handler)), keyed))
    f1 = np.array([found[number].inference.f1 for number in range(3)], np.float32)
    np.testing.assert_array_equal(f1, library(rows)[2])


def test_idf_table_that_does_not_fit_is_found_as_soon_as_it_is_seen(tmp_path):
    other = ScorerConfig(device="cpu", idf=True, max_length=20)
    table = BertScorer(other).count_idf(["a cat"])
    with pytest.raises(IdfError, match="does not fit"):
        ScorePairs(CONFIG, idf=table)
    path = tmp_path / "table.npz"
    path.write_bytes(table.to_bytes())
    handler = BertScoreModelHandler(CONFIG, idf=str(path))
    with pytest.raises(IdfError, match="does not fit"):
        handler.load_model()
    with pytest.raises(IdfError, match="does not fit"):
        handler.signature()


def test_backend_is_left_to_the_workers_device_unless_that_is_known():
    assert BertScoreModelHandler(ScorerConfig()).configs[""].backend == "torch"
    known = BertScorer(CONFIG).settings.backend
    assert BertScoreModelHandler(CONFIG).configs[""].backend == known


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"reference_field": "refrence"}, "the reference field 'refrence': got 1024 elements, one"),
        ({"candidate_field": "hyp"}, r"the candidate field 'hyp'.* a dict of \['candidate', 'ref"),
    ],
)
def test_field_that_none_of_many_pairs_has_is_an_error(names, message, caplog):
    """Else a misspelt name would give a whole run of nulls."""
    batch = [{"candidate": "a cat", "reference": "the cat"}] * 2
    misspelt = BertScoreModelHandler(CONFIG, **names)
    fresh = misspelt.load_model()
    misspelt.run_inference(batch, fresh)  # a small bundle may lack a field by chance
    misspelt.run_inference(batch, fresh)
    (warning,) = [r.getMessage() for r in caplog.records if "no pair so far" in r.getMessage()]
    assert repr(*names.values()) in warning
    with pytest.raises(InputError, match=f"no element has {message}") as caught:
        misspelt.run_inference(batch * 510, fresh)
    assert "cat'" not in str(caught.value).replace("'candidate'", "")


def test_field_that_some_pair_had_may_be_missing_in_later_batches(handler):
    fresh = handler.load_model()
    handler.run_inference([{"candidate": "a cat"}, {"reference": "the cat"}], fresh)
    (result,) = handler.run_inference([{"candidate": "a cat"}], fresh)
    assert result.inference.error == "null_reference"


@pytest.mark.parametrize(
    ("element", "shape"),
    [
        ({"cand": "a cat", "ref": "the cat"}, r"a dict of \['cand', 'ref'\]"),
        (("key", {"candidate": "a cat", "reference": "the cat"}), "a tuple"),
    ],
)
def test_element_with_neither_field_is_an_error_that_does_not_quote_it(element, shape):
    handler = BertScoreModelHandler(ScorerConfig(device="cpu"))
    with pytest.raises(InputError, match=f"neither of the fields: got {shape}; expected") as caught:
        handler.run_inference([element], handler.load_model())
    assert "cat" not in str(caught.value)
