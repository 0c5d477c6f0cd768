"""Loading encoders. What cutting them gives is in test_layers."""

import multiprocessing
import os

import pytest
import torch

from bertscore_core import BertScorer, ConfigError, ModelLoadError, ScorerConfig
from bertscore_core.model.encoder import load_encoder, resolve_device
from bertscore_core.model.resolve import resolve_model

FIRST_LAYER = ScorerConfig(num_layers=1, device="cpu")


def test_dtype_is_ours_not_the_checkpoints(changed_model):
    """transformers 5 would load half-precision weights as they are."""
    folder = changed_model(
        "bert", weights=lambda all_: {name: w.astype("float16") for name, w in all_.items()}
    )
    encoder = load_encoder(resolve_model(str(folder)), FIRST_LAYER)
    assert {value.dtype for value in encoder.model.parameters()} == {torch.float32}


def test_missing_weights_are_an_error_not_random_numbers(changed_model):
    def without_one(weights):
        del weights[next(name for name in weights if "attention" in name)]
        return weights

    folder = changed_model("bert", weights=without_one)
    with pytest.raises(ModelLoadError, match="incomplete: 1 parameters are missing"):
        load_encoder(resolve_model(str(folder)), FIRST_LAYER)


def test_damaged_weights_are_named(changed_model):
    weights = changed_model("bert") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:900])
    with pytest.raises(ModelLoadError, match="got no readable safetensors header"):
        load_encoder(resolve_model(str(weights.parent)), FIRST_LAYER)


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


@pytest.mark.model
@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_a_process_forked_after_the_model_was_loaded_is_refused_at_once(backend):
    """Before, it waited for ever for threads that a fork does not have."""
    scorer = BertScorer(ScorerConfig(device="cpu", backend=backend))
    texts = [f"{number} old stones " * 9 for number in range(20)]
    before = scorer.score(texts, texts[::-1]).f1.tolist()

    def score(told):
        try:
            scorer.score(texts, texts[::-1])
        except ConfigError as error:
            told.send(str(error))

    heard, told = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=score, args=(told,))
    child.start()
    try:
        assert heard.poll(60)
        words = heard.recv()
    finally:
        child.kill()
    assert f"forked from process {os.getpid()} after that had loaded the encoder" in words
    assert "Load the model in the workers only, or start them by 'spawn'" in words
    assert scorer.score(texts, texts[::-1]).f1.tolist() == before
