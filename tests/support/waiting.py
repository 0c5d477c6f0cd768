"""Wait for something to happen, and no longer."""

import time
from collections.abc import Callable

_STEP_SECONDS = 0.02


def wait_until(happened: Callable[[], object], seconds: float = 60.0) -> None:
    """Return when it has happened.

    Raises:
        TimeoutError: It has not, in all that time.
    """
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not happen in {seconds:.0f} s")
        time.sleep(_STEP_SECONDS)
