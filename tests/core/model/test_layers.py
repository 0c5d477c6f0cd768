"""All layers in one pass, as each of them is scored alone."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from bertscore_core import ConfigError, ScorerConfig
from bertscore_core.model.encoder import _CONVERTED
from bertscore_core.model.layers import find_final_norm
from bertscore_core.model.resolve import resolve_model
from tests.support.encoders import shared_encoder
from tests.support.tiny_models import FAMILIES, MODERN
from tests.support.tolerances import INVARIANCE_ATOL, PARITY_ATOL

pytestmark = pytest.mark.model

LAYERS = 3
FINAL_NORM = {"t5", "mt5", "byt5", "pegasus", "mbart", "mbart50", "mbart_50", "blenderbot"}
FINAL_NORM |= {"modernbert", "eurobert", "gemma", "qwen3"}
SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}
# What no tiny family has: (configuration, name of the norm behind the last layer or None).
OTHERS = {
    "modernbert": (transformers.ModernBertConfig(**SMALL), "final_norm"),
    "megatron": (transformers.MegatronBertConfig(**SMALL), "encoder.ln"),
    "xlm_roberta_xl": (transformers.XLMRobertaXLConfig(**SMALL), "encoder.LayerNorm"),
    "esm": (transformers.EsmConfig(**SMALL), "encoder.emb_layer_norm_after"),
    "roberta_prelayernorm": (transformers.RobertaPreLayerNormConfig(**SMALL), "LayerNorm"),
    "umt5": (
        transformers.UMT5Config(
            vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=LAYERS, num_heads=4
        ),
        "final_layer_norm",
    ),
    "m2m": (
        transformers.M2M100Config(
            vocab_size=50,
            d_model=32,
            encoder_layers=LAYERS,
            decoder_layers=1,
            encoder_attention_heads=4,
            encoder_ffn_dim=48,
        ),
        "layer_norm",
    ),
}


SOON = ("albert", "bert", "deberta_v2", "gte", "mbart", "modernbert", "t5", "xlnet")
"""Families of each kind of stack: `make test` compiles these alone, and `make engines` the rest."""


def encoders(families):
    """Pair every family with the backends that run it."""
    for family in families:
        yield family, "torch"
    for family in families:
        name = {"byt5": "t5", "mbart_50": "mbart", "bigbird": "big_bird"}.get(family, family)
        if {name, name.replace("_", "-")} & _CONVERTED:
            marks = () if family in SOON else pytest.mark.long
            yield pytest.param(family, "openvino", marks=marks)


def states(folder, backend, **changes):
    """Return the unit vectors of texts of 3, 7 and 8 tokens. Shape (layers, 18, H)."""
    config = ScorerConfig(device="cpu", backend=backend, **changes)
    encoder = shared_encoder(resolve_model(str(folder)), config, longest=40)
    ids = torch.randint(10, 40, (3, 8), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([3, 7, 8])
    inside = torch.arange(8)[None, :] < lengths[:, None]
    return nn.functional.normalize(encoder.encode(ids, lengths)[:, inside], dim=-1).numpy()


@pytest.mark.parametrize(("family", "backend"), list(encoders([*FAMILIES, *MODERN])))
def test_every_row_is_what_the_layer_gives_alone(tiny_folder, family, backend):
    """Layers alone are computed by torch. test_parity compares those of OpenVINO."""
    folder = tiny_folder(family)
    every = states(folder, backend, num_layers=LAYERS, all_layers=True, layer_semantics="cut")
    assert len(every) == LAYERS + 1
    atol = 2 * INVARIANCE_ATOL if backend == "torch" else PARITY_ATOL
    for layer, row in enumerate(every):
        if (family, layer) == ("deberta_v2", 0):
            continue  # transformers cannot run it without any layer
        alone = states(folder, "torch", num_layers=layer)[0]
        np.testing.assert_allclose(row, alone, atol=atol, rtol=0)


@pytest.mark.parametrize("family", [*FAMILIES, *MODERN])
def test_hidden_states_differ_only_where_a_norm_follows(tiny_folder, family):
    rows = {
        name: states(
            tiny_folder(family), "torch", num_layers=LAYERS, all_layers=True, layer_semantics=name
        )
        for name in ("cut", "hidden")
    }
    apart = np.abs(rows["cut"] - rows["hidden"]).max(axis=(1, 2))
    assert apart[LAYERS] <= INVARIANCE_ATOL
    if family in FINAL_NORM:
        assert (apart[:LAYERS] > 0.01).all()
    else:
        assert (apart == 0).all()


@pytest.mark.parametrize("name", OTHERS)
def test_the_norm_is_found_where_other_architectures_keep_it(name):
    config, norm = OTHERS[name]
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    model = getattr(model, "encoder", model) if hasattr(model, "decoder") else model
    with torch.no_grad():  # fresh norms change no direction, or hardly
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert find_final_norm(model) is model.get_submodule(norm)
    after = model.state_dict()
    assert before.keys() == after.keys()  # as it was


def test_a_stack_without_a_known_norm_is_refused(tiny_folder):
    """A norm under another name would make rows that no layer gives."""

    class Doubling(nn.Module):
        def forward(self, hidden):
            return hidden * torch.arange(1.0, 1 + hidden.shape[-1])

    model = transformers.AutoModel.from_pretrained(tiny_folder("bert")).eval()
    forward = model.forward

    def changed(*args, **kwargs):
        output = forward(*args, **kwargs)
        output["last_hidden_state"] = Doubling()(output[0])
        return output

    model.forward = changed
    with pytest.raises(ConfigError, match=r"cannot be returned as they are scored one by one"):
        find_final_norm(model)
