"""What a tuning run would do: the judgements, the models, and how both are cut."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertscore_beam.metrics.own import OwnMetric
from bertscore_beam.run.folder import MANIFEST_FOLDER
from bertscore_beam.run.loading import describe_unknown_device
from bertscore_beam.run.runner import Runner
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.layer_scores import Part
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_core.scorer_config import WorkerSettings
from bertscore_core.tokenizer.tokenization import TextTokenizer

IDENTITY = {"command": "tune", "layout": "1"}
"""What must be equal for two runs to share a folder: scores are found by their names. The layout is
the version of the names and contents of the files in `_manifest`."""
IDF_FOLDER = f"{MANIFEST_FOLDER}/idf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneModel:
    """A model to compare.

    Attributes:
        setting: How it scores: every layer as that layer alone would.
        layers: Layers to compare.
        default: The registry's layer; None if it has none.
    """

    setting: WorkerSettings
    tokenizer: TextTokenizer
    layers: tuple[int, ...]
    default: int | None

    @property
    def name(self) -> str:
        """Its name, as in signatures."""
        return self.setting.signature.model

    @property
    def parameters(self) -> int:
        """Number of parameters in its files, also of layers that are cut off."""
        return self.setting.weight_bytes // 4

    @property
    def weight_bytes(self) -> int:
        """Bytes of all of them in memory; OpenVINO keeps them in float32."""
        return self.parameters * (2 if self.setting.signature.dtype.endswith("-true") else 4)


def cut_parts(judgements: Judgements, rows: int) -> tuple[Part, ...]:
    """Cut judgements into parts of at most this many rows."""
    digest, number = judgements.texts_digest, len(judgements)
    cuts = [(first, min(rows, number - first)) for first in range(0, number, rows)]
    return tuple(Part(f"{digest}-{first:09d}-{own}", first, own) for first, own in cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunePlan:
    """A tuning run, checked: the usable rows, cut for the workers, and the models to compare.

    `missing` says why models of the registry that were asked for are left out, by name.
    `own_metrics` says what is known of the metrics of one's own.
    """

    options: TuneOptions
    runner: Runner
    output: str
    judgements: Judgements
    models: tuple[TuneModel, ...]
    missing: Mapping[str, str]
    parts: tuple[Part, ...]
    own_metrics: tuple[OwnMetric, ...]

    @property
    def device_note(self) -> str | None:
        """What to say of the backend if the device was left to the workers; None otherwise."""
        return describe_unknown_device(self.options, self.runner.threads, self.models[0].setting)
