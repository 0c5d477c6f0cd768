"""Load a scorer on a worker, with or without Beam around it."""

import gc
import logging
import time
from functools import cache
from typing import TYPE_CHECKING

from bertscore_beam.run import at_work
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
    from bertscore_core import BertScorer  # here, since it imports torch, which takes seconds

    with at_work.saying("loading the model"):
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


@cache
def spare_the_collector() -> None:
    """Take what is loaded by now out of the sight of the garbage collector, once a process.

    The libraries of a worker are 600,000 objects. Now and then the collector would look at all of
    them, which holds up every thread for some 0.4 seconds, and a GPU with them. For processes that
    score and end, not for those of users: a cycle that becomes garbage later is not found.
    """
    import bertscore_core.scorer  # noqa: F401 - here, since it imports torch

    gc.collect()
    gc.freeze()
