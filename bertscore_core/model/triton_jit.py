"""Triton, where it is installed: what the kernels of this package are written and compiled with.

Importing this module imports Triton, so import it only if the device is a GPU.
"""

import os
import shutil
import sysconfig
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

__all__ = ["is_available", "jit", "launching_on", "tl"]

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
    tl = SimpleNamespace(tensor=Any, constexpr=Any)  # names that signatures of kernels need

jit: Any = (lambda **_: lambda function: function) if triton is None else triton.jit
"""Triton's decorator, to be called with its options; without Triton it changes nothing."""

# Read here, since Triton reads it when a kernel is made, not when it is called.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def is_available(device: torch.device) -> bool:
    """Tell whether kernels run on a device.

    On CUDA, Triton must be installed, and so must a C compiler and Python's headers: Triton builds
    its launcher with them on the first call. On a CPU it needs Triton's interpreter, which is slow
    and for tests only (TRITON_INTERPRET=1 before this module is imported).
    """
    if triton is None or device.type not in ("cpu", "cuda"):
        return False
    if _INTERPRETED or device.type == "cpu":
        return _INTERPRETED
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def launching_on(tensor: torch.Tensor) -> AbstractContextManager[None]:
    """Make the device of a tensor the current one, on which Triton launches."""
    return torch.cuda.device(tensor.device if tensor.is_cuda else -1)  # -1: none
