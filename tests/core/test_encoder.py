"""Loading and cutting encoders of every family."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertscore_core import BertScorer, ConfigError, ModelLoadError, ScorerConfig
from bertscore_core.encoder import EncoderOptions, load_encoder, resolve_device
from bertscore_core.resolve import resolve_model
from tests.support.tiny_models import FAMILIES

CANDIDATES = ["the cat sat", "rain tomorrow in the north", "one"]
REFERENCES = ["a cat was sitting", "it will rain", "one two"]
FIRST_LAYER = EncoderOptions(num_layers=1, device="cpu")
FINAL_NORM = {"t5", "mt5", "byt5", "pegasus", "mbart", "mbart50", "mbart_50", "blenderbot"}


def f1(folder, **changes):
    config = ScorerConfig(model=folder, max_length="reference", device="cpu", **changes)
    return BertScorer(config).score(CANDIDATES, REFERENCES).f1


@pytest.mark.parametrize("family", FAMILIES)
def test_cut_stack_is_the_hidden_state_unless_a_norm_follows_it(tiny_folder, family):
    """See the cut semantics in `load_encoder`; the last layer agrees in every family."""
    path = str(tiny_folder(family))
    every = f1(path, all_layers=True)
    depth = len(every) - 1
    np.testing.assert_allclose(every[depth], f1(path, num_layers=depth), atol=1e-6)
    below = f1(path, num_layers=depth - 1)
    if family in FINAL_NORM:
        assert np.abs(every[depth - 1] - below).max() > 1e-6
    else:
        np.testing.assert_allclose(every[depth - 1], below, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_layer_above_the_stack_is_refused(tiny_folder, family):
    with pytest.raises(ConfigError, match="num_layers 99 is out of range"):
        f1(str(tiny_folder(family)), num_layers=99)


def test_dtype_is_ours_not_the_checkpoints(tiny_folder, tmp_path):
    """transformers 5 would load half-precision weights as they are."""
    for path in resolve_model(str(tiny_folder("bert"))).folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    halved = {name: value.half() for name, value in weights.items()}
    save_file(halved, tmp_path / "model.safetensors", metadata={"format": "pt"})
    encoder = load_encoder(resolve_model(str(tmp_path)), FIRST_LAYER)
    assert {value.dtype for value in encoder.model.parameters()} == {torch.float32}


def test_missing_weights_are_an_error_not_random_numbers(tiny_folder, tmp_path):
    for path in resolve_model(str(tiny_folder("bert"))).folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if "attention" in name)
    del weights[name]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match="incomplete: 1 parameters are missing"):
        load_encoder(resolve_model(str(tmp_path)), FIRST_LAYER)


def test_damaged_weights_are_named(tiny_folder, tmp_path):
    for path in resolve_model(str(tiny_folder("bert"))).folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[:900])
    with pytest.raises((ModelLoadError, ValueError), match=r"cannot be loaded|holds no model"):
        load_encoder(resolve_model(str(tmp_path)), FIRST_LAYER)


def test_decoder_only_models_cannot_be_cut(tmp_path):
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=20, n_positions=16)
    GPT2Model(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="GPT2Model cannot be cut"):
        load_encoder(resolve_model(str(tmp_path)), FIRST_LAYER)


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "gpu"])
def test_device_that_is_not_there_is_named(device):
    with pytest.raises(ConfigError, match=f"device '{device}' cannot be used"):
        resolve_device(device)
