"""Torch's switches, which a program sets for its own work, and which must not move a score.

Some belong to a thread (autocast, the default device, inference mode) and are put aside around all
of scoring. The others belong to the process. They are set only while float32 work is sent to the
device, under one lock, and put back before the lock is free. Work in 16 bits leaves them alone.
Threads do not wait for each other in a program that has set none of them.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

# The switches belong to the process, and several scorers may share it.
_LOCK = threading.RLock()

# Else a fork could get the lock from a thread that it does not have, and switches of this moment.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )

# Torch's own names for the precision of float32 products, each with what it inherits from before
# it. Its attributes for these cannot set `mkldnn` as a whole. Torch before 2.9 has none of them.
_ABOVE_PRODUCTS = (("generic", "all"), ("cuda", "all"), ("mkldnn", "all"))
_PRODUCTS = (("cuda", "matmul"), ("mkldnn", "matmul"))
_CONVOLUTIONS = (("cuda", "conv"), ("mkldnn", "conv"))
_HAS_NAMES = hasattr(torch._C, "_get_fp32_precision_getter")


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Put aside what a program has set for this thread; `device` is the one that computes."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in {"cpu", device.type}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        # Only if there is another: each function of torch takes longer with a default device.
        if torch.empty(0).device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextmanager
def float32_by_default() -> Iterator[None]:
    """Let tensors without a stated number format be float32, as in a program that sets nothing."""
    with ExitStack() as held:
        held.enter_context(_LOCK)
        before = torch.get_default_dtype()
        if before == torch.float32:
            held.close()
        else:
            held.callback(torch.set_default_dtype, before)
            torch.set_default_dtype(torch.float32)
        yield


@contextmanager
def exact_products(*, convolves: bool = False) -> Iterator[None]:
    """Multiply float32 in float32, not in TF32 or bfloat16, while work is sent to a device.

    A program may have allowed them by any of torch's interfaces; TF32 is allowed in convolutions
    from the start. Both are forbidden in products, and if the work `convolves` there, too.
    """
    # Held while the work is sent, which is when a GPU's format is chosen, not until it is done; and
    # not at all where there is nothing to change.
    with ExitStack() as held:
        held.enter_context(_LOCK)
        if torch.get_default_dtype() == torch.float32 and _is_exact(convolves):
            held.close()
        else:
            held.enter_context(float32_by_default())
            _make_exact(held, convolves)
        yield


def _is_exact(convolves: bool) -> bool:
    names = _PRODUCTS + _CONVOLUTIONS * convolves
    if any(_read(*name) not in ("none", "ieee") for name in names if _HAS_NAMES):
        return False
    # Torch refuses to tell this one where it contradicts the names, which it does not here.
    is_highest = torch.get_float32_matmul_precision() == "highest"
    return is_highest and (_HAS_NAMES or not convolves)


def _make_exact(put_back: ExitStack, convolves: bool) -> None:
    # From the first to the last, so that each name tells its own value and not an inherited one.
    for name in _ABOVE_PRODUCTS + _PRODUCTS:
        _change(put_back, *name, "none")
    put_back.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    # By the older switch: otherwise it would contradict the names, and another thread that reads it
    # meanwhile would get an error.
    torch.set_float32_matmul_precision("highest")
    if not convolves:
        return
    if not _HAS_NAMES:
        cudnn = torch.backends.cudnn
        put_back.callback(setattr, cudnn, "allow_tf32", cudnn.allow_tf32)
        cudnn.allow_tf32 = False
        return
    # First for all, since torch's own permission yields to that and could not be put back.
    _change(put_back, "generic", "all", "ieee")
    for name in _CONVOLUTIONS:
        if _read(*name) != "ieee":
            _change(put_back, *name, "ieee")


def _read(backend: str, work: str) -> str:
    return torch._C._get_fp32_precision_getter(backend, work)


def _change(put_back: ExitStack, backend: str, work: str, value: str) -> None:
    if _HAS_NAMES:
        write = torch._C._set_fp32_precision_setter
        put_back.callback(write, backend, work, _read(backend, work))
        write(backend, work, value)


_loaded_in: int | None = None
"""Which process, this one or one that it was forked from, was the first to load a model."""


def set_threads(asked: int | None) -> None:
    """Set how many threads compute on a CPU; None keeps torch's choice.

    In a fork of a process that has loaded a model it is 1, since torch and OpenVINO would wait
    there for ever for threads that a fork does not have.
    """
    global _loaded_in
    _loaded_in = _loaded_in or os.getpid()
    threads = asked if _loaded_in == os.getpid() else 1
    if threads is not None:
        torch.set_num_threads(threads)
