"""Loading encoders. What cutting them gives is in test_layers."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from bertscore_core import ConfigError, ModelLoadError, ScorerConfig, settle
from bertscore_core.model import EncoderOptions, load_encoder, resolve_device, resolve_model
from tests.support.tiny_models import FAMILIES

FIRST_LAYER = EncoderOptions(num_layers=1, device="cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_layer_above_the_stack_is_refused(tiny_folder, family):
    with pytest.raises(ConfigError, match="num_layers 99 is out of range"):
        settle(ScorerConfig(model=str(tiny_folder(family)), num_layers=99, device="cpu"))


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
    with pytest.raises(ModelLoadError, match="cannot be loaded"):
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
def test_a_process_forked_after_the_model_was_loaded_is_refused_at_once():
    """Before, it waited for ever for threads that a fork does not have."""
    code = (
        "import os, sys, time\n"
        "from bertscore_core import BertScorer, ConfigError, ScorerConfig\n"
        "config = ScorerConfig(model='all-MiniLM-L6-v2', device='cpu', num_threads=2)\n"
        "scorer = BertScorer(config)\n"
        "texts = [f'{number} old stones ' * 9 for number in range(20)]\n"
        "before = scorer.score(texts, texts[::-1]).f1.tolist()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    start = time.monotonic()\n"
        "    try:\n"
        "        scorer.score(texts, texts[::-1])\n"
        "        found = 'no error'\n"
        "    except ConfigError as error:\n"
        "        found = str(error)\n"
        "    print(os.getppid(), found)\n"
        "    sys.stdout.flush()\n"
        "    os._exit(time.monotonic() - start > 5)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert scorer.score(texts, texts[::-1]).f1.tolist() == before\n"  # here it goes on to work
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=100)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0
    parent, _, words = said.partition(" ")
    assert f"forked from process {parent} after that had loaded the encoder" in words
    assert "Load the model in the workers only, or start them by 'spawn'" in words
