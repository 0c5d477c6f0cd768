"""Which GPU each worker process of this machine computes on.

A worker sees one GPU alone, which is `cuda:0` to it: what libraries and threads take as the current
device is right without a word to them. Scores do not depend on which one it is.
"""

import os

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""CUDA's environment variable: the GPUs that a process sees, in its order, by number or name."""


def gpus_to_share(device: str) -> tuple[str, ...]:
    """Return the GPUs that workers are spread over, as `CUDA_VISIBLE_DEVICES` names them.

    Args:
        device: The device asked for. `cuda:1` pins all workers to one GPU, which they find by its
            number, so nothing is hidden from them then.
    """
    if device not in ("auto", "cuda"):
        return ()
    import torch  # here, since it takes seconds

    count = torch.cuda.device_count()
    seen = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return tuple((seen or [str(number) for number in range(count)])[:count])
