"""Encoders that bert-score does not know, against transformers itself.

Expected vectors come from the whole encoder of transformers, which reads one text at a time without
any padding; expected scores are computed from them in plain steps.
"""

import json
import logging
import shutil

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoTokenizer

from bertscore_core import BertScorer, ModelLoadError, ScorerConfig, settle
from bertscore_core.model.architectures import reads_left_to_right
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer.tokenization import load_tokenizer
from tests.support.encoders import shared_encoder
from tests.support.specified import CANDIDATES, REFERENCES, Specified, load_plain, plain_states
from tests.support.tiny_models import FAMILIES as KNOWN, LAYERS, MODERN as FAMILIES
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.model

FINAL_NORM = {"modernbert": "final_norm", "eurobert": "norm", "gemma": "norm", "qwen3": "norm"}
"""The norm behind the last layer, which the encoder cut at a layer applies to its states."""

ADDED = {"eurobert": (1, 1), "gemma": (1, 1), "qwen3": (0, 1)}
"""Tokens put before and after a text. (1, 1) for the others, whose names are [CLS] and [SEP]."""

# Of 3 to 40 tokens, so that padding is longer than the windows of local attention.
LENGTHS = (3, 40, 17, 9)


def unit(vectors):
    return nn.functional.normalize(vectors, dim=-1)


def rows_of_ids():
    random = torch.Generator().manual_seed(1)
    return [torch.randint(5, 60, (length,), generator=random).tolist() for length in LENGTHS]


def found(files, rows, backend="torch", **changes):
    """Encode rows of ids in one padded batch. One (layers, tokens, H) for each row."""
    config = ScorerConfig(device="cpu", backend=backend, **changes)
    encoder = shared_encoder(files, config, longest=max(LENGTHS))
    ids = torch.zeros((len(rows), max(LENGTHS)), dtype=torch.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
    hidden = unit(encoder.encode(ids, torch.tensor(LENGTHS)))
    return [hidden[:, place, : len(row)] for place, row in enumerate(rows)]


def assert_near(actual, expected, atol):
    for row, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(row.numpy(), wanted.numpy(), atol=atol, rtol=0)


def some_first(*first, families=FAMILIES):
    """Parametrize by family; those that are not named are among the long tests."""
    others = [family for family in families if family not in first]
    later = [pytest.param(family, marks=pytest.mark.long) for family in others]
    return pytest.mark.parametrize("family", [*first, *later])


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_the_specification(tiny_folder, family):
    folder = tiny_folder(family)
    config = {"model": str(folder), "device": "cpu", "backend": "torch"}
    scorer = BertScorer(ScorerConfig(**config, num_layers=2))
    raw = AutoTokenizer.from_pretrained(folder)
    assert {*scorer.tokenizer.zero_weight_ids} == {raw.cls_token_id, raw.sep_token_id} - {None}
    for text in (*CANDIDATES, *REFERENCES):
        # No prompt such as "query: ": the text alone, between the tokenizer's own marks.
        ids = raw(text, truncation=True)["input_ids"]
        assert scorer.tokenizer.encode([text]).ids.tolist() == ids
    assert_as_specified(scorer, folder, family, CANDIDATES, REFERENCES)


def assert_as_specified(scorer, folder, family, candidates, references):
    plain = Specified(folder, family, FINAL_NORM.get(family))
    expected, _ = plain.scores(scorer, candidates, [[text] for text in references])
    scores = scorer.score(candidates, references)
    actual = np.stack([scores.precision, scores.recall, scores.f1], axis=1)
    np.testing.assert_allclose(actual, expected, atol=INVARIANCE_ATOL, rtol=0)


def test_what_openvino_cannot_convert_is_refused_by_name(tiny_folder):
    files = resolve_model(str(tiny_folder("gemma")))
    with pytest.raises(ModelLoadError, match=r"Gemma3TextModel cannot .*--backend torch"):
        found(files, rows_of_ids(), "openvino", num_layers=LAYERS)


def test_openvino_is_compared_where_padding_sees_no_token(tmp_path, tiny_folder):
    """Attention that masks with infinity gives NaN there, and spreads it."""
    folder = shutil.copytree(tiny_folder("modernbert"), tmp_path / "wide")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"local_attention": 128}))
    files = resolve_model(str(folder))
    rows = [[7] * length for length in LENGTHS]
    options = {"num_layers": LAYERS, "attention": "sdpa"}
    with pytest.raises(ModelLoadError, match="ModernBertModel computes something else on OpenVINO"):
        shared_encoder(
            files, ScorerConfig(device="cpu", backend="openvino", **options), longest=300
        )
    assert_near(found(files, rows, "openvino", **options), found(files, rows, **options), 1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_around_a_text(tiny_folder, family):
    """They decide the windows of long texts, and what an empty text is."""
    folder, (before, after) = tiny_folder(family), ADDED.get(family, (1, 1))
    tokenizer = load_tokenizer(resolve_model(str(folder)), max_length=12, in_windows=True)
    assert (tokenizer.windows.leading, tokenizer.windows.trailing) == (before, after)
    assert len(tokenizer.empty_ids) == before + after
    assert len(tokenizer.zero_weight_ids) == (0 if family in ADDED else 2)
    config = {"model": str(folder), "num_layers": 2, "max_length": 12, "long_text": "windows"}
    scorer = BertScorer(ScorerConfig(**config, device="cpu", backend="torch"))
    assert_as_specified(scorer, folder, family, CANDIDATES[2:3], REFERENCES[1:2])


# Not led and longformer, whose windows ask for a least length.
@some_first(*FAMILIES, families=sorted(set(KNOWN) - {"led", "longformer"}))
def test_left_to_right_is_told_from_the_configuration(tiny_folder, family):
    """The model itself is asked: does a later token change the vector of an earlier one?"""
    folder = tiny_folder(family)
    model = load_plain(folder, family if family != "mt5" else "t5")
    first, second = (plain_states(model, [7, 8, 9, last])[-1, 0] for last in (10, 11))
    is_blind = bool(torch.equal(first, second))
    assert reads_left_to_right(AutoConfig.from_pretrained(folder)) == is_blind
    assert is_blind == (family == "qwen3")


def test_left_to_right_is_said_once(tiny_folder, tmp_path, caplog):
    folder = shutil.copytree(tiny_folder("qwen3"), tmp_path / "some-decoder")
    config = ScorerConfig(model=str(folder), num_layers=2)
    with caplog.at_level(logging.WARNING, "bertscore_core"):
        settle(config)
        settle(config)
    (record,) = caplog.records
    assert "some-decoder reads texts from left to right" in record.getMessage()
