"""How pairs are scored, for every command that scores."""

import re
from dataclasses import dataclass
from typing import Literal

from bertscore_beam.options.base import RunOptions
from bertscore_beam.options.checks import check_at_least, check_value

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
ACCELERATOR = re.compile(r"type:[\w-]+;count:[1-9]\d*(;[\w.-]+(:[\w.-]+)?)*")


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(RunOptions):
    """Options of every command that scores.

    Attributes:
        dtype: Number format of the encoder's matrix products; everything else is in float32. `tf32`
            is float32 of which a GPU multiplies 11 significant bits. In bfloat16 a baseline can be
            wrong by up to 2e-4, which is more than its standard error says: make a baseline in the
            number format in which you will score.
        device: Where the encoder runs: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        accelerator: GPU to ask a remote runner for, only for the step that scores, in the form of
            Beam's resource hint: `type:nvidia-l4;count:1;install-nvidia-driver`.
        backend: What runs the encoder: `torch`; `openvino` (CPU only, needs the extra of that
            name); or `auto`, which takes OpenVINO on CPUs and architectures where it is known to
            work well, and torch elsewhere. Where the devices of the workers are not known in
            advance, `auto` takes torch, unless the device is `cpu`.
        attention: How torch computes attention. `auto` lays texts end to end on a GPU, without
            padding, for models that allow it; `sdpa` and `eager` pad them.
        max_batch_tokens: Most padded tokens in one forward pass; by default it depends on the
            device.
        allow_pickle_weights: Load weights that are not in the safetensors format. Such files can
            run code when they are loaded.
    """

    dtype: Literal["float32", "tf32", "bfloat16", "float16"] = "float32"
    device: str = "auto"
    accelerator: str | None = None
    backend: Literal["auto", "torch", "openvino"] = "auto"
    attention: Literal["auto", "sdpa", "eager"] = "auto"
    max_batch_tokens: int | None = None
    allow_pickle_weights: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without looking at files or models."""
        super().__post_init__()
        check_at_least("max_batch_tokens", self.max_batch_tokens, 1)
        check_value(
            "device",
            self.device,
            fine=DEVICE.fullmatch(self.device) is not None,
            expected="auto, cpu, mps, cuda or cuda:N",
            cure="Leave it out to use a GPU when there is one.",
        )
        # A runner ignores a resource hint that it does not understand, and then gives no GPU.
        check_value(
            "accelerator",
            self.accelerator,
            fine=self.accelerator is None or ACCELERATOR.fullmatch(self.accelerator) is not None,
            expected="type:NAME;count:NUMBER, and further words of the runner after semicolons",
            cure="For one L4 on Dataflow write 'type:nvidia-l4;count:1;install-nvidia-driver'.",
        )
