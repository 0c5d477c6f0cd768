"""A GPU that has failed: how that is recognised, and the error that says so.

After an illegal access, a failed launch, an assert on the device or a memory error of the hardware,
every later call of the process to its GPU fails, too. Only another process can use the GPU again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bertscore_core.errors import DeviceLostError
from bertscore_core.model.memory import is_out_of_memory

# Words of a RuntimeError from torch, from CUDA's libraries by way of torch, and from Triton.
_OF_CUDA = ("cuda error", "cudnn error", "cusparse error", "cusolver error", "triton error [cuda]")

# Errors of CUDA after which the GPU can be used as before: the call was refused, or the driver
# refused code that Triton has compiled.
_REFUSED = (
    "device kernel image is invalid", "driver version is insufficient", "invalid argument",
    "invalid configuration argument", "invalid device function", "invalid device ordinal",
    "invalid_value", "no cuda-capable device", "no kernel image", "not_supported",
    "operation not supported", "unsupported toolchain",
)  # fmt: skip


@contextmanager
def noticing_a_lost_device() -> Iterator[None]:
    """Raise errors of a GPU that has failed as `DeviceLostError`.

    Raises:
        DeviceLostError: The GPU has failed in the body.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, DeviceLostError) or not is_device_lost(error):
            raise
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise DeviceLostError(
            f"the GPU has failed: got {first_line!r}; expected scores. No later call of "
            "this process to the GPU can succeed: end the process and start a new one."
        ) from error


def is_device_lost(error: BaseException) -> bool:
    """Tell whether an error means that this process can no longer use its GPU.

    That is each error of CUDA, except those that mean a lack of memory or that a call was refused.

    References:
        CUDA Runtime API, `cudaError_t`: "the process must be terminated and relaunched".
    """
    if not isinstance(error, RuntimeError) or is_out_of_memory(error):
        return False
    message = str(error).lower()
    is_of_cuda = isinstance(error, torch.AcceleratorError) or any(w in message for w in _OF_CUDA)
    return is_of_cuda and not any(part in message for part in _REFUSED)
