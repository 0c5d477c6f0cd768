"""A job that a service runs: submitted, waited for, cancelled, and found by the next command.

A command that finds the lease of a Dataflow job ends that job before it begins: a second fleet
beside the first would be paid for. Whoever can write into the folder can write such a lease. So it
names a job and decides nothing else: the service that is asked, and the credentials it gets, are
those of the command's own options, and only a job with the folder's label is cancelled.
"""

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscore_beam.files.checked import digest_of
from bertscore_beam.run.lease import (
    JobStillRunsError,
    Lease,
    end_lease,
    read_lease,
    shown_lease,
    take_lease,
)
from bertscore_beam.run.output import JobFailedError, last_error
from bertscore_beam.run.runner import Runner

if TYPE_CHECKING:  # each command looks for a lease, and most need no Beam for that
    import apache_beam as beam
    from apache_beam.runners.runner import PipelineResult

CANCEL_SECONDS = 20.0
"""How long a command that is interrupted takes to cancel its job: schedulers kill after 30."""

END_SECONDS = 600.0
"""How long to wait for the end of a job that was cancelled: its machines stop first."""

_LOOK_SECONDS = 2.0

_CANCELLED = re.compile(r"(?i)\bstate:? CANCELLED\b")
"""How Beam says in an error that a job was cancelled."""


FOLDER_LABEL = "bertscore-folder"
"""Label of a Dataflow job: which folder it works on."""


def folder_label(root: str) -> str:
    """Return the value of the label of a folder's jobs, by its path as `absolute` returns it.

    Labels hold at most 63 lower-case letters, digits, "-" and "_".
    """
    return digest_of(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowJob:
    """A job of Dataflow."""

    id: str
    project: str
    region: str

    @classmethod
    def of(cls, job_id: str, runner: Runner) -> "DataflowJob":
        """Return a job of the service that a command's own options name."""
        from apache_beam.options import pipeline_options as of_beam

        chosen = runner.beam_options.view_as(of_beam.GoogleCloudOptions)
        return cls(id=job_id, project=chosen.project, region=chosen.region)

    @property
    def console(self) -> str:
        """The page of the job in Google's console."""
        place = f"{self.region}/{self.id}?project={self.project}"
        return f"https://console.cloud.google.com/dataflow/jobs/{place}"

    @property
    def asked(self) -> dict[str, str]:
        """What names the job in a request."""
        return {"project_id": self.project, "location": self.region, "job_id": self.id}


class RunningJob:
    """A job of an earlier command, as the service that this command's own options name knows it."""

    def __init__(self, job: DataflowJob, runner: Runner) -> None:
        from apache_beam.runners.dataflow.internal.apiclient import DataflowApplicationClient

        self.job = job
        self._jobs = DataflowApplicationClient(runner.beam_options, "gs://none")._jobs_client
        self.labels: dict[str, str] = {}

    def has_ended(self) -> bool:
        """Ask whether it has ended. Of a job that the service does not know, nobody can tell."""
        from apache_beam.runners.runner import PipelineState
        from google.cloud.dataflow_v1beta3 import JobView

        view = {"view": JobView.JOB_VIEW_DESCRIPTION}  # a summary has no labels
        found = self._jobs.get_job(request={**self.job.asked, **view})
        self.labels = dict(found.labels)
        state = found.current_state.name.removeprefix("JOB_STATE_")
        return bool(PipelineState.is_terminal(state))

    def cancel(self) -> None:
        """Ask the service to end it."""
        from google.cloud.dataflow_v1beta3 import JobState

        wanted = {"requested_state": JobState.JOB_STATE_CANCELLED}
        self._jobs.update_job(request={**self.job.asked, "job": wanted})


class RemoteJob:
    """The job of a stage that a service runs.

    A thread submits it to Dataflow, so that a signal meanwhile can wait for the job, and cancel it.
    Others start their job server in the main thread, as Beam needs it.
    """

    def __init__(self, runner: Runner, output: str) -> None:
        self._runner = runner
        self._output = output
        self._submitted: Future[PipelineResult] = Future()
        self._job: DataflowJob | None = None

    @property
    def name(self) -> str:
        """What it is, with its id if that is known."""
        if self._job is not None:
            return f"the Dataflow job {self._job.id}"
        return f"the job on {self._runner.name}"

    @property
    def console(self) -> str:
        """Where it can be looked at, as the end of a sentence; "" if nobody knows."""
        return "" if self._job is None else f"; see {self._job.console}"

    @property
    def where(self) -> str:
        """What to add to the words of an error of its work; "" if nothing is known of it."""
        return "" if self._job is None else f" ({self.name}{self.console})"

    def failed(self, error: Exception) -> str:
        """Say in one line how it failed."""
        if self._submitted.done() and self._submitted.exception() is not None:
            return f"{self.name} was not submitted: {last_error(error)}"
        if _CANCELLED.search(str(error)):
            return f"{self.name} was cancelled{self.console}"
        return f"{self.name} failed: {last_error(error)}{self.console}"

    def run(self, pipeline: "beam.Pipeline") -> None:
        """Submit the job, and wait for its end unless it is detached.

        Raises:
            JobStillRunsError: Another job has begun on the folder meanwhile.
            JobFailedError: The job cannot be watched any more.
            Exception: What its runner raises when it has failed.
        """
        if self._runner.is_dataflow:
            from apache_beam.options import pipeline_options as of_beam

            chosen = pipeline.options.view_as(of_beam.GoogleCloudOptions)
            label = f"{FOLDER_LABEL}={folder_label(self._output)}"
            chosen.labels = [*(chosen.labels or ()), label]
            threading.Thread(target=self._submit, args=(pipeline,), daemon=True).start()
        else:
            self._submit(pipeline)
        result = self._submitted.result()
        self._job = self._job_of(result)
        if self._job is not None and not self._has_lease(self._job.id):
            raise JobStillRunsError(
                "another job has begun on this output: got a lease of it; expected none. "
                f"{self.end()} See {shown_lease(self._output)}."
            )
        if self._runner.detached:
            return
        try:
            result.wait_until_finish()
        except Exception as error:
            if self._job is not None and not result.is_in_terminal_state():
                message = f"{self.name} cannot be watched: {last_error(error)}. {self.end()}"
                raise JobFailedError(message) from error
            self._forget()
            raise
        self._forget()

    def end(self) -> str:
        """Cancel the job, for at most `CANCEL_SECONDS`; return what became of it as a sentence.

        From a thread: the one that is interrupted may hold what a request needs.
        """
        if not (self._runner.is_dataflow or self._submitted.done()):
            return f"Look for {self.name}: it was just being submitted."
        if self._runner.keep_job:
            return f"--keep-job leaves {self.name} at work{self.console}."
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(self._cancel()), daemon=True)
        thread.start()
        thread.join(CANCEL_SECONDS)
        late = f"got no answer in {CANCEL_SECONDS:.0f} s{self.console}."
        return answers[0] if answers else f"Could not cancel {self.name}: {late}"

    def _cancel(self) -> str:
        from apache_beam.runners.runner import PipelineState

        try:
            result = self._submitted.result()
        except Exception:
            return "The job was not submitted."
        self._job = self._job_of(result)
        try:
            state = result.cancel()
        except Exception as error:
            return f"Could not cancel {self.name}: got {last_error(error)}{self.console}."
        has_ended = state in (PipelineState.DONE, PipelineState.FAILED)
        return f"{'It was late to cancel' if has_ended else 'Cancelled'} {self.name}."

    def _job_of(self, result: Any) -> DataflowJob | None:
        """Return the job of a result; None if it is not Dataflow's, or only a template."""
        if not self._runner.is_dataflow or not result.has_job:
            return None
        return DataflowJob.of(result.job_id(), self._runner)

    def _submit(self, pipeline: "beam.Pipeline") -> None:
        try:
            self._submitted.set_result(pipeline.run())
        except BaseException as error:
            self._submitted.set_exception(error)

    def _has_lease(self, job: str) -> bool:
        try:
            return take_lease(self._output, job)
        except OSError:
            return True  # the job has begun, and its workers write the lease

    def _forget(self) -> None:
        if self._job is not None:
            end_lease(self._output, self._job.id)


def end_earlier_job(output: str, runner: Runner, say: Callable[[str], None]) -> None:
    """End the Dataflow job of an earlier command that may still be at work on a folder.

    Args:
        output: The folder.
        runner: That of this command: nobody else is asked.
        say: Prints that it is being ended.

    Raises:
        JobStillRunsError: It still runs, or nobody can tell, or the runner may not be asked.
    """
    lease = read_lease(output)
    if lease is None:
        return
    name = f"the Dataflow job {lease.job} of an earlier command"
    if not runner.is_dataflow:
        raise JobStillRunsError(
            f"{name} may be at work on this output until {_shown(lease)}: got no options of "
            "Dataflow; expected those of the job, since no file decides who is asked with your "
            f"credentials. Give them behind `--`, or wait; or see {shown_lease(output)}."
        )
    found = RunningJob(DataflowJob.of(lease.job, runner), runner)
    try:
        _end(found, name, say, runner=runner, output=output)
    except JobStillRunsError:
        raise
    except Exception as error:
        raise JobStillRunsError(
            f"{name} may be at work on this output until {_shown(lease)}: got {last_error(error)} "
            f"from the service of this command's own options; expected to hear that it has ended. "
            f"Give the options of that job, or wait; or see {shown_lease(output)}."
        ) from error
    end_lease(output, lease.job)


def _shown(lease: Lease) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(lease.until))


def _end(
    found: RunningJob, name: str, say: Callable[[str], None], *, runner: Runner, output: str
) -> None:
    console, label = found.job.console, folder_label(output)
    if found.has_ended():
        return
    if found.labels.get(FOLDER_LABEL) != label:
        raise JobStillRunsError(
            f"{name} runs and is not cancelled: got {FOLDER_LABEL} "
            f"{found.labels.get(FOLDER_LABEL)!r} among its labels; expected {label!r}, that of "
            f"this folder. See {console} and {shown_lease(output)}."
        )
    if runner.keep_job:
        raise JobStillRunsError(
            f"{name} still runs: --keep-job leaves it at work on this output. Run this command "
            f"again when it has ended, or without --keep-job; see {console}"
        )
    say(f"Cancelling {name}, and waiting for its end ...")
    found.cancel()
    deadline = time.monotonic() + END_SECONDS
    while not found.has_ended():
        if time.monotonic() > deadline:
            raise JobStillRunsError(
                f"{name} was cancelled, and has not ended in {END_SECONDS:.0f} s. Run this command "
                f"again later; see {console}"
            )
        time.sleep(_LOOK_SECONDS)
