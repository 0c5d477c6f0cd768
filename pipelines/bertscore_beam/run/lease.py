"""Which job of a service is at work on a folder, so that no second fleet is paid for beside it.

    OUT/_work/lease.json    the id of a Dataflow job, and when the lease ends

The command writes it as soon as it knows the id, and the workers renew it. It decides nothing about
what is right: parts and publication do that. It is deleted when the job has ended. One that has
ended is nobody's: no worker has renewed it for an hour, in which a service has replaced a machine.

Clocks of two machines are compared here. One that is wrong by an hour costs a second fleet, or a
command that waits.
"""

import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache

from bertscore_beam.files.checked import from_json, to_json, typed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import join
from bertscore_beam.files.versions import NOT_THERE, delete_version, read_version, replace_version
from bertscore_core.errors import BertScoreError

LEASE_FILE = "_work/lease.json"
LEASE_SECONDS = 3600.0
"""A machine with a GPU that takes the place of another one needs minutes, or waits for a quota."""
RENEW_SECONDS = 300.0

_JOB_ID = re.compile(r"[\w-]+", re.ASCII)
_JOB_OF_WORKER = "JOB_ID"
"""The environment variable that tells a worker of Dataflow the id of its job."""


class JobStillRunsError(BertScoreError):
    """The job of an earlier command may be at work on the folder; later it will have ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a folder.

    Attributes:
        job: The id of the job; "" if the file is damaged.
        until: When it ends, in seconds since the epoch.
    """

    job: str
    until: float

    @property
    def holds(self) -> bool:
        """Whether it has not ended."""
        return self.until >= time.time()


def shown_lease(output: str) -> str:
    """Name the file in a message, with what else can be done about it."""
    path = mask_credentials(join(output, LEASE_FILE))
    return f"{path}; if no job is at work here, delete that file"


def read_lease(output: str) -> Lease | None:
    """Read the lease of a folder; None without one that holds.

    Raises:
        JobStillRunsError: It is damaged.
    """
    found, _ = _read(output)
    if found is None or not found.holds:
        return None
    if not found.job:
        raise JobStillRunsError(
            f"a job may be at work on this output: got a damaged {shown_lease(output)}."
        )
    return found


def _read(output: str) -> tuple[Lease | None, str]:
    """Return what the file says, and its version."""
    content = read_version(join(output, LEASE_FILE))
    if content is None:
        return None, NOT_THERE
    longest = time.time() + LEASE_SECONDS
    with suppress(ValueError):
        lease = typed(Lease, from_json(content[0]))
        if _JOB_ID.fullmatch(lease.job):  # it becomes a part of an address
            return Lease(lease.job, min(lease.until, longest)), content[1]
    return Lease("", longest), content[1]


def take_lease(output: str, job: str) -> bool:
    """Write or renew the lease of a job; tell whether it has it, and no other job."""
    found, version = _read(output)
    until = time.time() + LEASE_SECONDS
    if found is not None and found.holds:
        if found.job != job:
            return False
        if found.until > until - RENEW_SECONDS:  # another worker has just renewed it
            return True
    data = to_json(asdict(Lease(job, until)))
    return replace_version(join(output, LEASE_FILE), data, version)


def end_lease(output: str, job: str = "") -> None:
    """Delete the lease of a job that has ended; without an id that of any."""
    found, version = _read(output)
    if found is not None and job in ("", found.job):
        delete_version(join(output, LEASE_FILE), version)


def job_of_worker() -> str:
    """Return the id of the job that this process works for; "" if it is not known."""
    return os.environ.get(_JOB_OF_WORKER, "")


@cache
def keep_lease(output: str) -> None:
    """Let this process, a worker of a service, renew the lease of its job from now on.

    A Flex Template's command knows no id, so the first worker writes the lease.
    """
    threading.Thread(target=_keep, args=(output,), daemon=True).start()


def _keep(output: str) -> None:
    job = job_of_worker()
    # A failure of the store is nothing to a worker: it would end a job that can go on.
    if job:
        with suppress(Exception):
            take_lease(output, job)
    while True:
        time.sleep(RENEW_SECONDS)
        with suppress(Exception):
            found = read_lease(output)
            if found is not None and found.job == (job or found.job):
                job = found.job
                take_lease(output, job)
