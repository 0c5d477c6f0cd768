"""Number formats of matrix products: weights cast once, and formats that a device lacks."""

import copy

import pytest
import torch

from bertscore_core import ConfigError, ScorerConfig, settle
from bertscore_core.encoder import EncoderOptions, load_encoder
from bertscore_core.precision import cast_products, check_processor, products_in
from bertscore_core.resolve import resolve_model
from tests.support.modern_families import MODERN_BUILDERS
from tests.support.tiny_families import FAMILY_BUILDERS, LAYERS

CPU = torch.device("cpu")


def hidden_states(model, dtype):
    """Encode a padded batch under autocast."""
    ids = torch.randint(10, 40, (3, 8), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(8)[None, :] < torch.tensor([[3], [8], [7]])).long()
    with torch.inference_mode(), products_in(dtype, CPU):
        return model(ids, attention_mask=mask)[0]


@pytest.mark.model
@pytest.mark.filterwarnings("ignore:This sequence already has </s>:UserWarning")  # ByT5
@pytest.mark.parametrize("family", sorted({*FAMILY_BUILDERS, *MODERN_BUILDERS}))
def test_weights_that_are_cast_once_give_the_bits_of_autocast(tiny_folder, family):
    files = resolve_model(str(tiny_folder(family)))
    loaded = load_encoder(files, EncoderOptions(num_layers=LAYERS, device="cpu")).model
    for dtype in ("bfloat16", "float16"):
        model = copy.deepcopy(loaded)
        for name, parameter in model.named_parameters():
            if name.endswith(("q_bias", "v_bias")):  # of DeBERTa, without which autocast fails
                parameter.data = parameter.data.to(getattr(torch, dtype))
        expected = hidden_states(model, dtype)
        products = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
        before = sum(module.weight.nbytes for module in products)
        cast_products(model, dtype)
        assert sum(module.weight.nbytes for module in products) == before // 2
        assert before > 0
        assert torch.equal(hidden_states(model, dtype), expected)


@pytest.mark.model
def test_everything_but_products_stays_in_float32(tiny_folder):
    options = EncoderOptions(num_layers=LAYERS, device="cpu", dtype="float16")
    model = load_encoder(resolve_model(str(tiny_folder("bert"))), options).model
    half = {name for name, weight in model.named_parameters() if weight.dtype == torch.float16}
    linear = {
        f"{name}.{own}"
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        for own in ("weight", "bias")
    }
    assert half == linear
    assert len(half) > LAYERS


def test_tf32_is_refused_without_a_gpu(tiny_folder):
    message = "dtype tf32 cannot be computed on cpu.*Choose float32"
    with pytest.raises(ConfigError, match=message):
        settle(
            ScorerConfig(model=str(tiny_folder("bert")), num_layers=1, dtype="tf32", device="cpu")
        )
    with pytest.raises(ConfigError, match=message):
        check_processor("tf32", CPU)


@pytest.mark.parametrize("dtype", ["tf32", "bfloat16"])
def test_formats_that_an_older_gpu_lacks_are_refused_there(dtype, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    check_processor("float16", gpu)
    with pytest.raises(ConfigError, match=rf"{dtype} .* Tesla T4: got compute capability 7\.5"):
        check_processor(dtype, gpu)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    check_processor(dtype, gpu)


@pytest.mark.parametrize("dtype", ["float32", "tf32"])
def test_tf32_is_switched_in_products_and_convolutions_for_a_forward_pass_alone(dtype):
    """Torch takes TF32 for convolutions of float32 by default: DeBERTa-v2-xlarge has one."""
    switches = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [switch.allow_tf32 for switch in switches]
    assert before == [False, True]
    with products_in(dtype, torch.device("cuda")):
        assert [switch.allow_tf32 for switch in switches] == [dtype == "tf32"] * 2
    assert [switch.allow_tf32 for switch in switches] == before


def test_tf32_is_in_the_plan_and_its_signature(tiny_folder):
    settings = settle(
        ScorerConfig(
            model=str(tiny_folder("bert")),
            num_layers=1,
            dtype="tf32",
            device="cuda",
            backend="torch",
        )
    )
    signature = settings.signature()
    assert (signature.dtype, signature.batch_tokens) == ("tf32", "packed-32768")
