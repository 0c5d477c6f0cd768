"""What running a pipeline on this machine takes, whatever the job."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from bertscore_core import BertScoreError, ConfigError
from pipelines.exit_status import BROKEN, REFUSED
from pipelines.io.files import mask_credentials
from pipelines.io.reach import reaching
from pipelines.lock import FolderLostError
from pipelines.options import RunOptions
from pipelines.printing import escape_text
from pipelines.runners import has_separate_workers, is_local, is_remote, threads_per_worker
from pipelines.watchdog import (
    end_when_a_worker_dies,
    end_when_interrupted,
    end_when_workers_do_not_come,
    leave,
)
from pipelines.worker_log import workers_log_to_file


@contextmanager
def first_writing(options: RunOptions) -> Iterator[None]:
    """Say of the first thing that cannot be written that the output is at fault."""
    try:
        with reaching("output", options.output):
            yield
    except REFUSED as error:
        raise ConfigError(
            f"output {mask_credentials(options.output)!r} cannot be written: got {error!r}; "
            "expected a folder where files can be made. Choose another --output."
        ) from error


@contextmanager
def local_workers(options: RunOptions) -> Iterator[TextIO]:
    """Keep what local worker processes write off the terminal, and end when one dies."""
    separate = has_separate_workers(options)
    with (
        worker_errors(),
        workers_log_to_file(enabled=separate) as (terminal, log),
        end_when_a_worker_dies(terminal, log, BROKEN),
        end_when_workers_do_not_come(options.workers if separate else 0, terminal, BROKEN),
        end_when_interrupted(terminal, log, elsewhere=is_remote(options)),
    ):
        yield terminal


@contextmanager
def worker_errors() -> Iterator[None]:
    """Tell what goes wrong at work from what cannot work as asked, which was found before."""
    try:
        yield
    except (BertScoreError, OSError) as error:
        raise RuntimeError(f"a worker failed: {error}") from error


@contextmanager
def original_terminal() -> Iterator[int]:
    """Yield a descriptor of standard error, whose place the workers' log takes later on."""
    terminal = os.dup(2)
    try:
        yield terminal
    finally:
        os.close(terminal)


def end_for(error: FolderLostError, terminal: int) -> None:
    """End the process from whichever thread noticed: the runner cannot be stopped otherwise."""
    with suppress(OSError):  # the reader may have gone away
        os.write(terminal, f"bertscore-beam: {escape_text(str(error))}\n".encode())
    leave(BROKEN)


def share_cores(options: RunOptions) -> None:
    """Give local worker processes their share of threads, the tokenizers' own included."""
    threads = threads_per_worker(options)
    if is_local(options) and threads is not None:
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
