"""Number formats: what is cast to them, what `auto` takes, and formats that a device lacks."""

import pytest
import torch

from bertscore_core import ConfigError
from bertscore_core.model.encoder import check_processor, choose_dtype


def test_bfloat16_is_refused_on_an_older_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    check_processor("float16", gpu)
    with pytest.raises(ConfigError, match=r"bfloat16 .* Tesla T4: got compute capability 7\.5"):
        check_processor("bfloat16", gpu)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    check_processor("bfloat16", gpu)


@pytest.mark.parametrize(
    ("model_type", "device", "capability", "dtype"),
    [
        ("roberta", "cpu", None, "float32"),
        ("roberta", "mps", None, "float32"),
        ("roberta", "auto", None, "float32"),  # no GPU here
        ("roberta", "cuda", None, "float16"),  # of a worker that is not seen
        ("deberta-v2", "cuda", None, "bfloat16"),
        ("roberta", "auto", (7, 5), "float16"),
        ("t5", "auto", (7, 5), "float32"),
        ("t5", "cuda:1", (8, 9), "bfloat16"),
        ("bert", "cuda:0", (9, 0), "float16"),
    ],
)
def test_auto_takes_the_format_that_holds_the_numbers(
    model_type, device, capability, dtype, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)  # `cuda` has no device here
    assert choose_dtype(model_type, device) == dtype
