"""Worker pools in processes of their own, as on another machine."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import kill_session
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """Beam's worker pool, running.

    Attributes:
        process: The pool; it leads a session in which its workers are, too.
        address: Where jobs find it, HOST:PORT.
    """

    process: subprocess.Popen[bytes]
    address: str

    def kill(self) -> None:
        """Kill the pool and its workers."""
        kill_session(self.process.pid)
        self.process.wait()


@contextlib.contextmanager
def worker_pool() -> Iterator[str]:
    """Start Beam's worker pool as a separate process and yield its address.

    Each worker a job asks of it is a further process, which speaks the Fn API over loopback.
    """
    pool = start_pool()
    try:
        yield pool.address
    finally:
        pool.process.terminate()
        pool.process.wait(30)
        pool.kill()


def start_pool() -> WorkerPool:
    """Start a pool and wait until it listens."""
    port, path = free_port(), f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    module = "apache_beam.runners.worker.worker_pool_main"
    process = subprocess.Popen(
        [sys.executable, "-m", module, f"--service_port={port}"],
        env={**os.environ, "PATH": path},  # it calls `python`
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: listens(port), process=process)
    return WorkerPool(process, f"localhost:{port}")


def free_port() -> int:
    """Return a port of loopback that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Tell whether something listens at a port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
