"""What every part of first contact is given, and the models that several use."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.first_contact.kit import spread_out
from tests.benchmarks.models import SHAPES, BenchModel, prepare, write_roberta

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
        device: `cuda`, or `cpu` to try the part without a GPU.
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
    def half(self) -> str:
        """The number format of 16 bits to look at: on a CPU float16 is slow."""
        return "float16" if self.on_gpu else "bfloat16"

    def minilm(self) -> BenchModel:
        """Return the model that was brought along, else one of its shape with random weights."""
        target = self.work / "models" / "minilm"
        if not (target / "config.json").is_file():
            target.mkdir(parents=True, exist_ok=True)
            if (self.kit / "model" / "config.json").is_file():
                spread_out(self.kit / "model", target)
            else:
                write_roberta(target, **RANDOM)
        return BenchModel("minilm", target.parent, SHAPES["embedded"])

    def large(self) -> BenchModel:
        """Return roberta-large's shape up to layer 17, or the small model in a quick try."""
        return self.minilm() if self.quick else prepare("roberta-large")

    def scorer(self, model: BenchModel, dtype: str, **options: Any) -> BertScorer:
        """Load a model on the device, on torch."""
        chosen = {"num_layers": model.shape.layers, "device": self.device, "backend": "torch"}
        return BertScorer(ScorerConfig(model=str(model.path), dtype=dtype, **chosen, **options))
