"""Load a scorer on a worker, with or without Beam around it."""

import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from bertscore_beam.run.events import event
from bertscore_core import ConfigError, ScorerConfig

if TYPE_CHECKING:  # else the launcher would import torch with the steps
    from bertscore_core import BertScorer
    from bertscore_core.device_queue import DeviceQueue

logger = logging.getLogger(__name__)


def load_scorer(
    config: ScorerConfig, backend: str, queue: "DeviceQueue | None" = None
) -> "BertScorer":
    """Load a scorer on a worker.

    Args:
        config: How to score.
        backend: The backend with its version, as in the signature.
        queue: The queue of the device, if several scorers take turns on it.

    Raises:
        ConfigError: This worker's backend has another version than the signature names.
    """
    started = time.monotonic()
    with unwatched(kept=False):
        from bertscore_core import BertScorer  # here, since it imports torch, which takes seconds

        scorer = BertScorer(config, queue=queue)
    found = scorer.settings.backend_version
    if found != backend:
        raise ConfigError(
            f"this worker runs the encoder on {found}, and the job's scores are signed {backend}; "
            "expected the same. Install the same version on launcher and workers, or choose "
            "--backend torch."
        )
    logger.info(
        event(
            "model_loaded",
            model=scorer.settings.files.name,
            device=scorer.encoder.device,
            backend=found,
            seconds=round(time.monotonic() - started, 3),
        )
    )
    return scorer


@contextmanager
def unwatched(*, kept: bool) -> Iterator[None]:
    """Keep the garbage collector from looking at what is made meanwhile.

    While libraries are imported it looks at all of their objects again and again, which takes a
    fifth of the time, and finds next to nothing.

    Args:
        kept: Whether what is made stays to the end of the process: it is not looked at later
            either. The libraries of a worker are 600,000 objects. To look at all of them holds up
            every thread for some 0.4 seconds, and a GPU with them. For processes that score and
            end, not for those of users: a cycle that becomes garbage later is not found.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if kept:
            gc.freeze()
        if was_on:
            gc.enable()


@cache
def spare_the_collector() -> None:
    """Import what scores, and take it out of the sight of the collector, once a process."""
    with unwatched(kept=True):
        import bertscore_core.scorer  # noqa: F401
