"""A device that is not there: it takes time for what is queued, and computes nothing.

It stands in for a GPU. Work is queued by the host and done in order; the host may go on meanwhile,
until so many launches wait as a CUDA driver takes. All of its time is arithmetic: no thread and no
processor time is spent on it. Encodings are all alike, and so are scores.
"""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bertscore_core import scorer
from bertscore_core.match import kernel
from bertscore_core.model.device import DeviceQueue, Moment
from bertscore_core.model.encoder import Encoder, load_encoder
from bertscore_core.model.resolve import ModelFiles
from bertscore_core.scorer_config import ScorerConfig

MOST_LAUNCHES = 1024
"""Launches that wait on a GPU before the host must wait; CUDA's usual limit."""

LAUNCHES_PER_LAYER = 25
"""Kernels of a layer, without the views that launch none."""

_SCORE = 0.5


class PretendedMoment(Moment):
    """A moment of the pretended device: a time of the clock, which may be ahead."""

    def __init__(self, moment: float) -> None:
        self._moment = moment

    def wait(self) -> None:
        """Sleep until it is reached."""
        time.sleep(max(self._moment - time.monotonic(), 0.0))

    def reached(self) -> bool:
        """Tell whether it is reached."""
        return time.monotonic() >= self._moment

    def seconds_after(self, earlier: Any) -> float:
        """Return the seconds between two moments."""
        return float(self._moment - earlier._moment)


class PretendedDevice:
    """A device that encodes so many tokens a second.

    Attributes:
        tokens_per_second: Its rate, padding included.
        done_at: When all that is queued will be done, by the clock.
        busy_seconds: Time of all that was ever queued.
        first_at: When the first work began; None before.
    """

    def __init__(self, tokens_per_second: float) -> None:
        self.tokens_per_second = tokens_per_second
        self.done_at = time.monotonic()
        self.busy_seconds = 0.0
        self.first_at: float | None = None
        self._queued: list[tuple[float, int]] = []

    def mark(self) -> PretendedMoment:
        """Return the moment behind all that is queued."""
        return PretendedMoment(max(self.done_at, time.monotonic()))

    def enqueue(self, seconds: float, launches: int) -> None:
        """Queue work, after waiting until there is room for its launches."""
        self._wait_for_room(launches)
        begin = max(self.done_at, time.monotonic())
        self.first_at = begin if self.first_at is None else self.first_at
        self.done_at = begin + seconds
        self.busy_seconds += seconds
        self._queued.append((self.done_at, launches))

    def _wait_for_room(self, launches: int) -> None:
        while self._queued:
            done_at, _ = self._queued[0]
            waiting = sum(count for _, count in self._queued)
            now = time.monotonic()
            if done_at > now:
                if waiting + launches <= MOST_LAUNCHES:
                    return
                time.sleep(done_at - now)
            self._queued.pop(0)

    def queue(self) -> DeviceQueue:
        """Return its queue."""
        # `clone` stands in for a copy to pinned memory: the same copies as on a GPU.
        return DeviceQueue(torch.device("cpu"), self.mark, Tensor.clone)

    def encoder(self, loaded: Encoder, layers: int) -> Encoder:
        """Return an encoder on this device, with embeddings of one number.

        Args:
            loaded: A narrow model. Its forward pass on a few tokens costs the host what launching
                the pass of a wide one with as many layers does.
            layers: Its layers.
        """
        torch.set_num_threads(1)  # a launch takes one thread; others would wait for each other

        def start(ids: Tensor, mask: Tensor) -> Any:
            def hidden() -> Tensor:
                loaded.forward(ids[:1, :8], mask[:1, :8])()
                seconds = ids.numel() / self.tokens_per_second
                self.enqueue(seconds, layers * LAUNCHES_PER_LAYER)
                return torch.ones(1).expand(1, *ids.shape, 1)

            return hidden

        return replace(loaded, forward=start, hidden_size=1, num_outputs=1, in_flight=1)

    def matching(self) -> SimpleNamespace:
        """Return a stand-in for the module of the fused kernel; matching takes no time here."""

        def match(
            vectors: Tensor, weights: Tensor, starts: Tensor, *_: Tensor, longest: int
        ) -> Any:
            return (torch.full(starts.shape, _SCORE, dtype=vectors.dtype),) * 3

        return SimpleNamespace(greedy_match_ragged=match)


def pretend(patch: Any, device: PretendedDevice) -> None:
    """Put a device in the place of the CPU, for all scorers that are loaded from now on.

    Args:
        patch: pytest's `monkeypatch`, or a `pytest.MonkeyPatch`.
        device: The device.
    """
    queue = device.queue()

    def load(files: ModelFiles, config: ScorerConfig, **options: Any) -> Encoder:
        return device.encoder(load_encoder(files, config, **options), config.num_layers)

    patch.setattr(scorer, "load_encoder", load)
    patch.setattr(DeviceQueue, "of", lambda _: queue)
    patch.setattr(kernel, "_fused_matching", lambda _: device.matching())
