"""Everything that cannot work is said before the encoder is loaded."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModel

from bertscore_core import (
    BaselineNotFoundError,
    BertScorer,
    ConfigError,
    ScorerConfig,
    Signature,
    UnknownLanguageError,
    UnknownModelError,
    dropin,
    parse_baseline,
    settle,
)
from bertscore_core.config import share_model
from tests.core.conftest import write_table
from tests.support.tiny_models import FAMILIES, MAX_LENGTH, MODERN


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"num_layers": 7}, ConfigError, "num_layers 7 is out of range for all-MiniLM-L6-v2"),
        ({"num_layers": -1}, ConfigError, r"expected 0 \(the embeddings\) to 6"),
        ({"rescale": True}, BaselineNotFoundError, "needs a language or a baseline"),
        (
            {"rescale": True, "model": "all-MiniLM-L6-v2", "language": "en"},
            BaselineNotFoundError,
            "no published baseline for language 'en' and model 'all-MiniLM-L6-v2'",
        ),
        ({"rescale": True, "baseline": "no/such.csv"}, ConfigError, "cannot be read"),
        ({"language": "klingon"}, UnknownLanguageError, "no default model"),
        ({"model": "no/such/model/folder"}, UnknownModelError, "neither a local folder"),
        ({"max_length": 2}, ConfigError, "leaves no room for a token beside the 2 special ones"),
        ({"max_length": 513}, ConfigError, "more than all-MiniLM-L6-v2 has positions for"),
    ],
)
def test_what_cannot_work_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        settle(ScorerConfig(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "tf32"}, "unknown dtype: got 'tf32'; expected one of auto, float32, bfloat16, "),
        ({"attention": "eager"}, "unknown attention: got 'eager'; expected one of auto, sdpa. Lea"),
        ({"references": "worst"}, "unknown references: got 'worst'; expected one of best, mean"),
        ({"baseline": "b.csv"}, "baseline was given without rescale"),
        ({"max_batch_tokens": 0}, "max_batch_tokens is 0"),
        ({"num_threads": -2}, "num_threads is -2"),
        ({"backend": "onnx"}, "unknown backend: got 'onnx'; expected one of auto, torch, "),
        ({"empty": "skip"}, "unknown empty: got 'skip'; expected one of reference, zero, "),
        ({"layer_semantics": "raw"}, "unknown layer_semantics: got 'raw'; expected one of hidden"),
        ({"long_text": "cut"}, "unknown long_text: got 'cut'; expected one of truncate, "),
        ({"long_text": "error", "max_length": "unlimited"}, "no effect with max_length unlimited"),
    ],
)
def test_contradictions_are_refused_at_once(changes, message):
    with pytest.raises(ConfigError, match=message):
        ScorerConfig(**changes)


@pytest.mark.parametrize("bad", ["6", "", 6.0, True, False, [6], np.array([2, 3])], ids=repr)
def test_a_number_of_another_type_is_refused_at_once(bad):
    def refused(name, expected="a whole number"):
        message = f"{name} cannot be used: got {bad!r}; expected {expected}. Leave it out"
        return pytest.raises(ConfigError, match=re.escape(message))

    for name in ("num_layers", "max_batch_tokens", "num_threads"):
        with refused(name):
            ScorerConfig(**{name: bad})
    with refused("max_length", "a whole number or unlimited or reference"):
        ScorerConfig(max_length=bad)
    with refused("num_layers"):
        dropin.BERTScorer("all-MiniLM-L6-v2", num_layers=bad)
    with refused("num_layers"):
        dropin.score(["a"], ["b"], "all-MiniLM-L6-v2", num_layers=bad)


def test_a_number_of_numpy_is_one():
    names = ("num_layers", "max_length", "max_batch_tokens", "num_threads")
    of_numpy = ScorerConfig(**dict.fromkeys(names, np.int64(6)))
    assert of_numpy == ScorerConfig(**dict.fromkeys(names, 6))
    assert {type(getattr(of_numpy, name)) for name in names} == {int}


@pytest.mark.parametrize("family", [*FAMILIES, *MODERN])
def test_unlimited_length_is_refused_exactly_where_positions_end(tiny_folder, family):
    """The encoder itself is asked, with a text of four times the positions that it may have."""
    folder = tiny_folder(family)
    config = ScorerConfig(model=str(folder), num_layers=1, max_length="unlimited")
    encoder = AutoModel.from_pretrained(folder)
    encoder = encoder.get_encoder() if encoder.config.is_encoder_decoder else encoder
    ids = torch.full((1, 4 * MAX_LENGTH), 7)
    if family == "prophetnet":  # it gives all tokens beyond the end the last position
        ends = True
    else:
        try:
            encoder(input_ids=ids, attention_mask=torch.ones_like(ids))
            ends = False
        except (IndexError, RuntimeError):
            ends = True
    if ends:
        with pytest.raises(ConfigError, match=r"unlimited .* positions .*--long-text windows"):
            settle(config)
    else:
        assert settle(config).tokenizer.max_length is None


@pytest.mark.model
def test_baseline_must_reach_the_layer(tmp_path):
    table = write_table(tmp_path / "baseline.csv", layers=2)
    config = {"rescale": True, "baseline": str(table)}
    assert settle(ScorerConfig(num_layers=1, **config)).baseline is not None
    with pytest.raises(BaselineNotFoundError, match="no row for layer 6"):
        settle(ScorerConfig(**config))
    with pytest.raises(BaselineNotFoundError, match="no row for layer 6"):
        settle(ScorerConfig(num_layers=1, all_layers=True, **config))


@pytest.mark.model
def test_table_is_found_in_a_folder_of_them(tmp_path):
    place = write_table(tmp_path / "en" / "all-MiniLM-L6-v2.tsv")
    config = {"model": "all-MiniLM-L6-v2", "rescale": True, "baseline": str(tmp_path)}
    settled = settle(ScorerConfig(language="en", **config))
    signature = settled.signature()
    fingerprint = parse_baseline(place.read_text(), "b").fingerprint
    assert signature.baseline == f"custom/en/all-MiniLM-L6-v2@{fingerprint}"
    assert Signature.parse(signature.format()) == signature
    assert "custom-rescaled" in signature.upstream_hash()
    with pytest.raises(BaselineNotFoundError, match="is a folder of baselines, and no language"):
        settle(ScorerConfig(**config))
    with pytest.raises(BaselineNotFoundError, match=r"for this model: en; .* language: none\."):
        settle(ScorerConfig(language="de", **config))


@pytest.mark.parametrize("name", ["our-bert", "roberta-large"])
def test_folder_needs_a_layer_and_a_baseline_whatever_its_name(tiny_folder, tmp_path, name):
    folder = str(shutil.copytree(tiny_folder("roberta"), tmp_path / name))
    with pytest.raises(ConfigError, match=f"no layer is known for {name}"):
        settle(ScorerConfig(model=folder))
    assert settle(ScorerConfig(model=folder, num_layers=1)).num_layers == 1
    with pytest.raises(BaselineNotFoundError, match=f"no baseline is published for {name}"):
        settle(ScorerConfig(model=folder, num_layers=1, rescale=True, language="en"))


def test_what_is_left_open_is_decided_once(tiny_folder):
    asked = ScorerConfig(
        model=str(tiny_folder("bert")),
        all_layers=True,
        dtype="auto",
        device="cpu",
        long_text="error",
    )
    settled = settle(asked)
    decided = {"dtype": "float32", "num_layers": settled.files.depth, "backend": "openvino"}
    assert settled.config == replace(asked, **decided)
    assert settle(settled.config).config == settled.config
    in_german = replace(asked, language="de")
    assert share_model(settled, in_german).config == replace(settled.config, language="de")


@pytest.mark.parametrize(
    "change", [{"num_layers": 1}, {"backend": "torch"}, {"dtype": "bfloat16"}, {"empty": "zero"}]
)
def test_a_model_is_shared_for_language_and_baseline_alone(tiny_folder, change):
    open_one = ScorerConfig(
        model=str(tiny_folder("bert")), all_layers=True, dtype="auto", device="cpu"
    )
    stated = replace(open_one, **change)
    for own, other in ((open_one, stated), (stated, open_one)):
        with pytest.raises(ConfigError, match="differs in more than language and baseline"):
            BertScorer(own).sharing_model(other)


@pytest.mark.model
def test_signature_follows_every_setting_that_moves_a_score(tmp_path):
    table = write_table(tmp_path / "baseline.csv")
    variants = [
        {},
        {"num_layers": 5},
        {"max_length": 128},
        {"adds_prefix_space": True},
        {"dtype": "bfloat16"},
        {"attention": "sdpa"},
        *({"empty": rule} for rule in ("zero", "null")),
        {"references": "mean"},
        *({"long_text": rule} for rule in ("error", "windows")),
        {"rescale": True, "baseline": str(table)},
        {"all_layers": True},
    ]
    signatures = [settle(ScorerConfig(**changes)).signature() for changes in variants]
    assert len({signature.format() for signature in signatures}) == len(variants)
    for signature in signatures:
        assert Signature.parse(signature.format(short=True)) == signature
        assert Signature.parse(signature.format()) == signature
    # The rules of old are not named.
    assert not {"long_text", "references"} & signatures[0].fields().keys()
    assert "|max_length:512|long_text:windows|idf:none|" in signatures[-3].format()
    # Float32 alone is free of the batches, to 1e-6.
    for same in ({"max_batch_tokens": 99}, {"num_threads": 1}, {"device": "cpu"}):
        assert settle(ScorerConfig(**same)).signature() == signatures[0]
