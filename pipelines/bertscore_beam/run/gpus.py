"""Which GPU each worker process of this machine computes on.

A worker sees one GPU alone, which is `cuda:0` to it: what libraries and threads take as the current
device is then the right one. Scores do not depend on which one it is.
"""

import ctypes
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""CUDA's environment variable: the GPUs that a process sees, in its order, by number or name."""

DRIVER_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Without one of these files no process of Linux reaches a GPU: NVIDIA's, AMD's, and WSL's."""


def has_accelerator(device: str) -> bool:
    """Tell whether this machine may have the device, without importing torch."""
    if device == "cpu":
        return False
    return sys.platform != "linux" or any(Path(name).exists() for name in DRIVER_FILES)


def gpus_to_share(device: str) -> tuple[str, ...]:
    """Return the GPUs that workers are spread over, as `CUDA_VISIBLE_DEVICES` names them.

    Args:
        device: The device asked for. `cuda:1` pins all workers to one GPU, which they find by its
            number, so nothing is hidden from them then.
    """
    if device not in ("auto", "cuda") or not has_accelerator(device):
        return ()
    count = _gpus_of_driver() or _gpus_of_torch()
    seen = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return tuple((seen or [str(number) for number in range(count)])[:count])


def _gpus_of_driver() -> int:
    """Count GPUs as CUDA does, without torch; 0 if torch, as it is built, must be asked."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None or "torch" in sys.modules:
        return 0
    if runpy.run_path(str(Path(torch.origin).with_name("version.py"))).get("cuda") is None:
        return 0
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else count.value


def _gpus_of_torch() -> int:
    import torch  # here, since it takes seconds

    return torch.cuda.device_count()
