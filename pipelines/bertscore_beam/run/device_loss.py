"""End a worker of Beam whose GPU has failed, so that the runner starts another one.

Only a new process helps: the runner would try each of its splits again in the same one.
"""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bertscore_beam.run.events import event
from bertscore_beam.run.exit_status import DEVICE_LOST
from bertscore_core import DeviceLostError

logger = logging.getLogger(__name__)

_WORKER_MODULE = "apache_beam.runners.worker.sdk_worker"
"""In the command line of every process that Beam starts for its work, and for that alone."""

_LOG_SECONDS = 10.0
"""How long the log may take to reach the runner."""


@contextmanager
def ending_with_the_device() -> Iterator[None]:
    """End this process if its GPU fails in the body, and if it is one of Beam's workers.

    Raises:
        DeviceLostError: The GPU has failed in a process that does other things, too.
    """
    try:
        yield
    except DeviceLostError as error:
        logger.error(event("device_lost", error=error), exc_info=error)
        if _is_worker_process():
            _end_process()
        raise


def _is_worker_process() -> bool:
    """Tell whether Beam has started this process as a worker."""
    return any(_WORKER_MODULE in word for word in sys.orig_argv)


def _end_process() -> None:
    # The log goes to the runner from a thread, which would end with the process.
    telling = threading.Thread(target=logging.shutdown, daemon=True)
    telling.start()
    telling.join(_LOG_SECONDS)
    os._exit(DEVICE_LOST)
