"""What every part of first contact is given, and the models that several use."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.first_contact.kit import spread_out
from tests.benchmarks.harness import Shape
from tests.benchmarks.models import BenchModel, prepare, roberta

MINILM = Shape(6, 384, 1536)
RANDOM = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
"""The sizes of the model that stands in for MiniLM where none was brought along."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a part is given.

    Attributes:
        device: Torch's name of the device.
        kit: Folder that was brought along; it may be missing.
        work: Folder for files.
        quick: Whether to try the part with tiny sizes.
        seconds: What the part may take.
    """

    device: str
    kit: Path
    work: Path
    quick: bool
    seconds: float

    @property
    def on_gpu(self) -> bool:
        """Whether there is a GPU to look at."""
        return self.device != "cpu"

    @property
    def kind(self) -> str:
        """Return what sort of device it is, as torch calls it."""
        return "cuda" if self.on_gpu else "cpu"

    def minilm(self) -> BenchModel:
        """Return the model that was brought along, else one of its shape with random weights."""
        folder = self.work / "models"
        if not (folder / "minilm" / "config.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            if (self.kit / "model" / "config.json").is_file():
                spread_out(self.kit / "model", folder / "minilm")
            else:
                (folder / "minilm").mkdir()
                roberta(folder / "minilm", **RANDOM)
        return BenchModel("minilm", folder, MINILM)

    def large(self) -> BenchModel:
        """Return roberta-large's shape up to layer 17, or the small model in a quick try."""
        return self.minilm() if self.quick else prepare("roberta-large")

    def scorer(self, model: BenchModel, dtype: str, **options: Any) -> BertScorer:
        """Load a model on the device, on torch."""
        chosen = {"device": self.device, "backend": "torch"} | options
        return BertScorer(
            ScorerConfig(
                model=str(model.path), num_layers=model.shape.layers, dtype=dtype, **chosen
            )
        )

    def dtypes(self) -> tuple[str, ...]:
        """Return the number formats to look at: on a CPU float16 is slow."""
        if self.on_gpu and torch.cuda.is_bf16_supported(including_emulation=False):
            return ("float32", "bfloat16", "float16")
        return ("float32", "float16") if self.on_gpu else ("float32", "bfloat16")
