"""The scorers that a worker has loaded, within a bound on their memory.

A model is loaded once for all languages that share it. Where the models of a run do not fit, the
one that was used longest ago is dropped before another is loaded. The weights of a model take
about the size of their files.
"""

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bertscore_beam.run.loading import load_scorer
from bertscore_core.scorer_config import ScorerConfig, WorkerSettings, model_part

if TYPE_CHECKING:
    from bertscore_core.model.device import DeviceQueue
    from bertscore_core.scorer import BertScorer

_SHARE = 2
"""Default bound: the memory of the device divided by this. The rest is for texts and embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """How much memory the models of a worker may take.

    Attributes:
        limit: Bytes; None for half of the device's memory, divided by the processes.
        processes: Processes that share the device's memory; None if that is not known: one for a
            GPU, else one for each core.
    """

    limit: int | None = None
    processes: int | None = 1

    def bound(self, device: str) -> int:
        """Return the bound in bytes for a device of this machine."""
        from bertscore_core.model.encoder import resolve_device  # here, since it takes time

        if self.limit is not None:
            return self.limit
        import torch  # here, since it takes seconds

        chosen = resolve_device(device)
        if chosen.type == "cuda":
            total, processes = torch.cuda.get_device_properties(chosen).total_memory, 1
        else:
            total, processes = _machine_memory(), os.cpu_count() or 1
        return int(total) // _SHARE // (self.processes or processes)


@dataclass(kw_only=True)
class _LoadedModel:
    """A loaded model: its size, and the scorers that share it by the label of their setting."""

    size: int
    scorer: "BertScorer"
    by_label: "dict[str, BertScorer]" = field(default_factory=dict)


class LoadedScorers:
    """A scorer for each setting, loaded when it is first needed.

    Threads may share it. A model that is dropped while another thread uses it stays in memory until
    that thread is done with it.
    """

    def __init__(self, memory: ModelMemory | None = None) -> None:
        self._memory = ModelMemory() if memory is None else memory
        self._loaded: OrderedDict[ScorerConfig, _LoadedModel] = OrderedDict()
        # Of the device, which is known with the first.
        self._queue: DeviceQueue | None = None
        self._lock = threading.Lock()

    def __call__(self, setting: WorkerSettings) -> "BertScorer":
        """Return the scorer of a setting."""
        model = model_part(setting.config)
        with self._lock:
            if model not in self._loaded:
                self._make_room(setting)
                scorer = load_scorer(setting, self._queue)
                self._queue = scorer.queue
                self._loaded[model] = _LoadedModel(size=setting.weight_bytes, scorer=scorer)
            self._loaded.move_to_end(model)
            loaded = self._loaded[model]
            if setting.label not in loaded.by_label:
                loaded.by_label[setting.label] = loaded.scorer.sharing_model(setting.config)
            return loaded.by_label[setting.label]

    def has(self, setting: WorkerSettings) -> bool:
        """Tell whether the model of a setting is loaded."""
        return model_part(setting.config) in self._loaded

    def _make_room(self, setting: WorkerSettings) -> None:
        bound = self._memory.bound(setting.config.device)
        while self._loaded and bound < setting.weight_bytes + sum(
            loaded.size for loaded in self._loaded.values()
        ):
            self._loaded.popitem(last=False)


def _machine_memory() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            return min(total, int(file.read()))
    except (OSError, ValueError):  # no such file, or "max"
        return total
