"""What is no text gets the same error at each place of each call, whatever stands before it."""

import json
import re

import pytest

from bertscore_core import BertScorer, ConfigError, InputError, ScorerConfig, dropin, explain
from tests.support.bad_values import BAD_VALUES, FRONTS

pytestmark = pytest.mark.model

MODEL = "all-MiniLM-L6-v2"
PLACES = {
    "candidate": lambda front, bad: ([front, bad], ["x", "y"]),
    "reference": lambda front, bad: ([front, "x"], [front, bad]),
    "first in a list": lambda front, bad: ([front, "x"], [[front], [bad, "y"]]),
    "second in a list": lambda front, bad: ([front, "x"], [[front], [front, bad]]),
    "last pair": lambda front, bad: ([front] * 9, [[front]] * 8 + [[front, front, bad]]),
}


@pytest.fixture(scope="module")
def calls():
    scorer, replacing = BertScorer(MODEL), dropin.BERTScorer(MODEL)
    return {
        "score": scorer.score,
        "tokenize": scorer.tokenize,
        "count_idf": lambda candidates, references: scorer.count_idf(references),
        "dropin": replacing.score,
        "dropin idf": lambda candidates, references: replacing.compute_idf(references),
        "explain": lambda candidates, references: [
            explain(scorer, candidate, references if isinstance(references, list) else [references])
            for candidate, references in zip(candidates[-1:], references[-1:], strict=True)
        ],
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bad", BAD_VALUES.values(), ids=BAD_VALUES)
def test_each_call_refuses_it_with_its_place_and_does_not_quote_it(calls, place, bad):
    for name, call in calls.items():
        if "idf" in name and place == "candidate":
            continue  # it takes no candidates
        said = set()
        for front in FRONTS:
            with pytest.raises(InputError) as refused:
                call(*PLACES[place](front, bad))
            said.add(str(refused.value))
        (message,) = said
        pair = 0 if name == "explain" else 8 if place == "last pair" else 1
        if isinstance(bad, str):
            assert message.startswith(f"pair {pair} holds a lone surrogate")
        else:
            inner = bad[0] if place == "reference" and isinstance(bad, list) else bad
            side = "candidate" if place == "candidate" else "reference"
            assert f"got a {side} of type {type(inner).__name__}" in message
            assert message.startswith(f"pair {pair} contains a value that is not a string")
            assert ("Fill what is missing" in message) == (bad is None or bad != bad)


@pytest.mark.parametrize("backend", ["openvino", "torch"])
def test_a_text_beyond_the_positions_of_a_model_is_refused_where_nothing_cuts_it(
    tiny_folder, backend, tmp_path
):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in tiny_folder("bert").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    file = folder / "tokenizer_config.json"
    stated = json.loads(file.read_text())
    length = stated.pop("model_max_length")
    file.write_text(json.dumps(stated))
    with pytest.raises(ConfigError, match="states no maximum length") as refused:
        BertScorer(ScorerConfig(model=str(folder), num_layers=1, device="cpu", backend=backend))
    positions = int(re.search(r"--max-length (\d+)", str(refused.value))[1])
    assert positions >= length
    scorer = dropin.BERTScorer(str(folder), num_layers=1, device="cpu")
    scorer._scorer = BertScorer(
        ScorerConfig(
            model=str(folder), num_layers=1, device="cpu", backend=backend, max_length="reference"
        )
    )
    fits = "a " * (positions - 2)
    assert scorer.score(["é", fits], ["a", fits])[2].shape == (2,)
    message = (
        rf"pair 1 is too long for .*: got {positions + 1} tokens; expected at most {positions}"
    )
    for texts in ((["é", fits + "a"], ["a", "a"]), (["é", "a"], [["a"], ["a", fits + "a"]])):
        with pytest.raises(ConfigError, match=message):
            scorer.score(*texts)
