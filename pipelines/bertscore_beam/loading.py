"""Load a scorer on a worker, with or without Beam around it."""

import gc
import logging
import time
from dataclasses import replace
from functools import cache

from bertscore_beam.run import at_work
from bertscore_beam.run.events import event
from bertscore_core import BertScorer, ConfigError, ScorerConfig
from bertscore_core.device_queue import DeviceQueue

logger = logging.getLogger(__name__)


def for_unseen_workers(config: ScorerConfig) -> ScorerConfig:
    """Choose the backend for workers whose device is not known.

    The signature names the backend, so all workers must use the same one: torch runs on every
    device.
    """
    if config.backend == "auto" and config.device != "cpu":
        return replace(config, backend="torch")
    return config


def load_scorer(config: ScorerConfig, backend: str, queue: DeviceQueue | None = None) -> BertScorer:
    """Load a scorer on a worker.

    Args:
        config: How to score.
        backend: The backend with its version, as in the signature.
        queue: The queue of the device, if several scorers take turns on it.

    Raises:
        ConfigError: This worker's backend has another version than the signature names.
    """
    started = time.monotonic()
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
    gc.collect()
    gc.freeze()
