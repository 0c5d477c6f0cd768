"""Texts that tokenizers of transformers 4 and 5 read otherwise, against bert-score's own ids."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertscore_core import BertScorer, ConfigError, ScorerConfig
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer.tokenization import load_tokenizer
from tests.golden import texts
from tests.support.tiny_models import FAMILIES
from tests.support.tolerances import PARITY_ATOL

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "gaps.json"
GAPS: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
EMBEDDED = "all-MiniLM-L6-v2"
PAIRS = {pair.name: pair for pair in (*texts.GAP_PAIRS, *texts.FAMILY_PAIRS)}
KINDS = ("slow", "fast")
CASES = [
    pytest.param(kind, name, id=f"{kind}-{name}")
    for kind in KINDS
    for name in (EMBEDDED, *FAMILIES)
    if "error" not in GAPS[kind][name]
]
pytestmark = pytest.mark.filterwarnings("ignore:This sequence already has </s>:UserWarning")  # ByT5


@pytest.fixture(scope="module")
def model(tiny_folder):
    """Return a function from the name of a golden to the model to load."""

    return lambda name: EMBEDDED if name == EMBEDDED else str(tiny_folder(name))


def columns(names):
    return texts.columns(PAIRS[name] for name in names)


def tokenizer_of(model, kind):
    fast = kind == "fast"
    space = False if fast else None
    files = resolve_model(model)
    return load_tokenizer(files, max_length="reference", adds_prefix_space=space, fast=fast)


def test_goldens_are_of_these_texts():
    names = [pair.name for pair in texts.GAP_PAIRS]
    for name in (EMBEDDED, *FAMILIES):
        assert GAPS["slow"][name]["pairs"] == names


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_token_ids_are_the_references(kind, name, model):
    golden = GAPS[kind][name]
    tokenizer = tokenizer_of(model(name), kind)
    for column, side in zip(columns(golden["pairs"]), ("candidates", "references"), strict=True):
        actual = tokenizer.encode(column)
        for row, pair in enumerate(golden["pairs"]):
            assert actual.row(row).tolist() == golden["ids"][side][row], (pair, side)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_scores_are_the_references(kind, name, model):
    golden = GAPS[kind][name]
    if "error" in golden["scores"]:
        assert kind == "fast"
        pytest.skip("the reference raises: its fast tokenizer states no maximum length")
    config = ScorerConfig(
        model=model(name),
        num_layers=3,
        max_length="reference",
        device="cpu",
        fast_tokenizer=kind == "fast",
        adds_prefix_space=False if kind == "fast" else None,
    )
    scores = BertScorer(config).score(*columns(golden["scored"]))
    for actual, letter in ((scores.precision, "P"), (scores.recall, "R"), (scores.f1, "F")):
        expected = np.array(golden["scores"][letter], dtype=np.float64)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=PARITY_ATOL, equal_nan=True)


def test_fast_tokenizer_that_the_reference_cannot_load_is_refused_by_name(model):
    assert GAPS["fast"]["blenderbot_small"] == {"error": "Exception"}
    with pytest.raises(ConfigError, match="got a BlenderbotSmallTokenizer without a tokenizer"):
        tokenizer_of(model("blenderbot_small"), "fast")


@pytest.mark.parametrize("family", ["t5", "albert", "bigbird", "mbart_50", "bert", "roberta"])
def test_fast_tokenizer_is_taken_from_tokenizer_json_as_it_stands(family, model, tmp_path):
    """Written by a fast tokenizer, and read without the files that it was made of."""
    source = Path(model(family))
    made = tokenizer_of(str(source), "fast")
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    made._backend.no_truncation()
    made._backend.save(str(tmp_path / "tokenizer.json"))
    for name in ("spiece.model", "sentencepiece.bpe.model"):
        (tmp_path / name).unlink(missing_ok=True)
    golden = GAPS["fast"][family]
    candidates, _ = columns(golden["pairs"])
    actual = tokenizer_of(str(tmp_path), "fast").encode(candidates)
    rows = [actual.row(row).tolist() for row in range(len(candidates))]
    assert rows == golden["ids"]["candidates"]


@pytest.mark.parametrize("family", ["roberta", "mpnet", "bert", "t5", "prophetnet", "xlm"])
def test_slow_and_fast_tokenizers_have_fingerprints_of_their_own(family, model):
    slow, fast = (tokenizer_of(model(family), kind).fingerprint for kind in KINDS)
    assert (slow == fast) == (family in ("prophetnet", "xlm"))  # there is no fast one
