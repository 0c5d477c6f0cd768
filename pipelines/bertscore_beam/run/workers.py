"""Run pipelines with workers on this machine: log, early ends, errors, threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import reaching
from bertscore_beam.options.base import RunOptions
from bertscore_beam.run.exit_status import BROKEN, REFUSED
from bertscore_beam.run.lock import FolderLostError
from bertscore_beam.run.printing import escape_text
from bertscore_beam.run.runner import Runner
from bertscore_beam.run.watchdog import (
    end_when_a_worker_dies,
    end_when_interrupted,
    leave,
)
from bertscore_beam.run.worker_log import workers_log_to_file
from bertscore_core import BertScoreError, ConfigError


@contextmanager
def first_writing(options: RunOptions) -> Iterator[None]:
    """Name the output in the error if the first write to it fails."""
    try:
        with reaching("output", options.output):
            yield
    except REFUSED as error:
        raise ConfigError(
            f"output {mask_credentials(options.output)!r} cannot be written: got {error!r}; "
            "expected a folder where files can be made. Choose another --output."
        ) from error


@contextmanager
def local_workers(runner: Runner) -> Iterator[TextIO]:
    """Keep the log of local workers off the terminal, and end the process when one dies."""
    with (
        worker_errors(),
        workers_log_to_file(enabled=runner.children > 1) as (terminal, log),
        end_when_a_worker_dies(terminal, log),
        end_when_interrupted(terminal, log, elsewhere=runner.is_remote),
    ):
        yield terminal


@contextmanager
def worker_errors() -> Iterator[None]:
    """Turn errors of the work into `RuntimeError`s.

    The same classes mean before the work that a command cannot work as given, which is another exit
    status.
    """
    try:
        yield
    except (BertScoreError, OSError) as error:
        raise RuntimeError(f"a worker failed: {error}") from error


@contextmanager
def original_terminal() -> Iterator[int]:
    """Yield a copy of standard error, which the log of the workers replaces later."""
    terminal = os.dup(2)
    try:
        yield terminal
    finally:
        os.close(terminal)


def end_for(error: FolderLostError, terminal: int) -> None:
    """End the process from any thread: the runner cannot be stopped in another way."""
    with suppress(OSError):  # the reader may have closed the pipe
        os.write(terminal, f"bertscore-beam: {escape_text(str(error))}\n".encode())
    leave(BROKEN)


def share_cores(runner: Runner) -> None:
    """Limit the threads of local worker processes, those of the tokenizers included."""
    if runner.threads is not None:
        os.environ.setdefault("RAYON_NUM_THREADS", str(runner.threads))
        os.environ.setdefault("OMP_NUM_THREADS", str(runner.threads))
