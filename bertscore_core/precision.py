"""Number formats of the encoder's matrix products.

Everything else, the residual stream and in most architectures the layer norms too, is in float32
whatever the format.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from bertscore_core.errors import ConfigError

DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""Formats by name. Under `tf32` numbers are stored in float32, and a GPU multiplies their first 11
significant bits."""

# NVIDIA GPUs that multiply in TF32 and bfloat16 have at least this compute capability. Older ones
# use float32 for the former, and are slower in the latter than in float32.
_YOUNGER = ("tf32", "bfloat16")
_YOUNGER_CAPABILITY = (8, 0)

_PRODUCTS = (nn.Linear, nn.Conv1d)

# Biases that DeBERTa adds to its queries and values outside its linear layers.
_QUERY_BIASES = (".q_bias", ".v_bias")

# The switches of TF32 belong to the process, and scorers of several formats may share it.
_SWITCHES = threading.RLock()


def check_computes(dtype: str, device: torch.device) -> None:
    """Check that a kind of device can compute in a number format.

    Args:
        dtype: The format.
        device: The kind of device; a GPU may be missing on this machine.

    Raises:
        ConfigError: it cannot.
    """
    if dtype == "tf32" and device.type != "cuda":
        raise ConfigError(
            f"dtype tf32 cannot be computed on {device}: got a device without that format; "
            "expected an NVIDIA GPU. Choose float32 (--dtype float32), or a GPU (--device cuda)."
        )


def check_processor(dtype: str, device: torch.device) -> None:
    """Check that this machine's device computes in a number format, and not in another instead.

    Raises:
        ConfigError: it does not.
    """
    check_computes(dtype, device)
    if device.type != "cuda" or dtype not in _YOUNGER:
        return
    found = torch.cuda.get_device_capability(device)
    if found < _YOUNGER_CAPABILITY:
        raise ConfigError(
            f"dtype {dtype} cannot be computed on {torch.cuda.get_device_name(device)}: got "
            f"compute capability {found[0]}.{found[1]}, which lacks that format; expected 8.0 or "
            "more. Choose float16 or float32 (--dtype)."
        )


def cast_products(model: nn.Module, dtype: str) -> None:
    """Cast the weights of matrix products to a number format, in place and once.

    Under autocast each forward pass would cast them again, to the same bits: the cast is the same.
    Embeddings and layer norms keep their float32 weights.

    DeBERTa's biases of queries and values are cast, too. It adds them outside its linear layers,
    where autocast does not reach. In float32 they would make the sum float32, and masked attention
    would be filled with the lowest float32 number, which the next product, in a shorter format,
    cannot represent.
    """
    target = DTYPES[dtype]
    if target == torch.float32:
        return
    for module in model.modules():
        if isinstance(module, _PRODUCTS):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(target)
    for name, parameter in model.named_parameters():
        if name.endswith(_QUERY_BIASES):
            parameter.data = parameter.data.to(target)


def products_in(dtype: str, device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which matrix products are computed in a number format."""
    target = DTYPES[dtype]
    if target != torch.float32:
        return _autocast(target, device)
    return _tf32(dtype == "tf32") if device.type == "cuda" else nullcontext()


@contextmanager
def _autocast(target: torch.dtype, device: torch.device) -> Iterator[None]:
    with torch.autocast(device.type, dtype=target):
        yield


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 in products and convolutions; torch allows it in convolutions."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    # Held while the work is sent to the GPU, which chooses the format then, not until it is done.
    with _SWITCHES:
        before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = allowed
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32 = before
