"""Loading encoders. What cutting them gives is in test_layers."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertscore_core import ConfigError, ModelLoadError, ScorerConfig, settle
from bertscore_core.encoder import EncoderOptions, load_encoder, resolve_device
from bertscore_core.resolve import resolve_model
from tests.support.tiny_models import FAMILIES

FIRST_LAYER = EncoderOptions(num_layers=1, device="cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_layer_above_the_stack_is_refused(tiny_folder, family):
    with pytest.raises(ConfigError, match="num_layers 99 is out of range"):
        settle(ScorerConfig(model=str(tiny_folder(family)), num_layers=99, device="cpu"))


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


@pytest.mark.model
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
