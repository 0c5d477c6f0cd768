"""See that an image is what it was meant to be; it ends with an error if it is not.

    python check_image.py 12.6   # torch is built for CUDA 12.6
    python check_image.py ''     # torch is built without CUDA

Run while the image is built and again before it is pushed: pip takes a build of torch from PyPI
without a word where the index that it was pointed to lacks the pinned version.
"""

import os
import sys

import torch

STOPS_THREADS = ("TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables that would take the cores of a large machine from the tokenizers or from torch."""


def faults(cuda: str) -> list[str]:
    """Return what is wrong.

    Args:
        cuda: Version of CUDA that torch must be built for; empty for none.
    """
    found = []
    built = torch.version.cuda or ""
    if built != cuda:
        found.append(
            f"torch {torch.__version__} is built for CUDA {built or '(none)'}: expected "
            f"{cuda or '(none)'}. Look at the build arguments PIP_ARGS, TORCH and TORCH_CUDA"
        )
    found += [
        f"{name} is set to {os.environ[name]!r}" for name in STOPS_THREADS if name in os.environ
    ]
    return found


if __name__ == "__main__":
    if wrong := faults(sys.argv[1]):
        raise SystemExit("\n".join(wrong))
