"""A job that a service runs: submitted, waited for, cancelled, and found by the next command.

    OUT/_manifest/job.json    the Dataflow job that may be at work on the folder

The command writes the file as soon as it knows the job's id, and deletes it when the job has ended;
a detached job deletes it itself. A command that finds one there ends that job before it takes the
folder: a second fleet beside the first would be paid for, and one of them could not write.

Whoever can write into the folder can write such a file. So it names a job and decides nothing else:
the service that is asked, and the credentials it gets, are those of the command's own options, and
only a job with the folder's label is cancelled.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options import pipeline_options as of_beam
from apache_beam.runners.runner import PipelineResult, PipelineState

from bertscore_beam.files.checked import digest_of, typed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import read_if_there
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.lock import JOB_FILE, FolderLostError, JobStillRunsError
from bertscore_beam.run.output import JobFailedError, last_error
from bertscore_beam.run.runner import Runner
from bertscore_core.errors import load_json

CANCEL_SECONDS = 20.0
"""How long a command that is interrupted takes to cancel its job: schedulers kill after 30."""

END_SECONDS = 600.0
"""How long to wait for the end of a job that was cancelled: its machines stop first."""

_LOOK_SECONDS = 2.0

_CANCELLED = re.compile(r"(?i)\bstate:? CANCELLED\b")
"""How Beam says in an error that a job was cancelled."""


FOLDER_LABEL = "bertscore-folder"
"""Label of a Dataflow job: which folder it works on."""

_JOB_ID = re.compile(r"[\w-]+", re.ASCII)


def folder_label(root: str) -> str:
    """Return the value of the label of a folder's jobs, by its path as `absolute` returns it.

    Labels hold at most 63 lower-case letters, digits, "-" and "_".
    """
    return digest_of(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowJob:
    """A job of Dataflow.

    Attributes:
        endpoint: The address of the service.
    """

    id: str
    project: str
    region: str
    endpoint: str

    @classmethod
    def of(cls, job_id: str, runner: Runner) -> "DataflowJob":
        """Return a job of the service that a command's own options name."""
        chosen = runner.beam_options.view_as(of_beam.GoogleCloudOptions)
        return cls(
            id=job_id,
            project=chosen.project,
            region=chosen.region,
            endpoint=chosen.dataflow_endpoint or "",
        )

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
        """Ask whether it has ended. A job that the service does not know any more has."""
        from google.api_core.exceptions import NotFound
        from google.cloud.dataflow_v1beta3 import JobView

        try:
            # A summary has no labels.
            view = {"view": JobView.JOB_VIEW_DESCRIPTION}
            found = self._jobs.get_job(request={**self.job.asked, **view})
        except NotFound:
            return True
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

    def __init__(self, runner: Runner, folder: OutputFolder) -> None:
        self._runner = runner
        self._folder = folder
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

    def run(self, pipeline: beam.Pipeline) -> None:
        """Submit the job, and wait for its end unless it is detached.

        Raises:
            JobFailedError: The job cannot be watched any more.
            Exception: What its runner raises when it has failed.
        """
        if self._runner.is_dataflow:
            chosen = pipeline.options.view_as(of_beam.GoogleCloudOptions)
            label = f"{FOLDER_LABEL}={folder_label(self._folder.root)}"
            chosen.labels = [*(chosen.labels or ()), label]
            threading.Thread(target=self._submit, args=(pipeline,), daemon=True).start()
        else:
            self._submit(pipeline)
        result = self._submitted.result()
        self._job = self._job_of(result)
        if self._job is not None:
            # A detached job may be done already, and have given the folder back.
            with suppress(FolderLostError) if self._runner.detached else nullcontext():
                self._folder.write(JOB_FILE, json.dumps(asdict(self._job)).encode())
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

    def _submit(self, pipeline: beam.Pipeline) -> None:
        try:
            self._submitted.set_result(pipeline.run())
        except BaseException as error:
            self._submitted.set_exception(error)

    def _forget(self) -> None:
        if self._job is not None:
            self._folder.delete(JOB_FILE)


def end_earlier_job(output: str, runner: Runner, say: Callable[[str], None]) -> bool:
    """End the Dataflow job of an earlier command that may still be at work on a folder.

    Args:
        output: The folder.
        runner: That of this command: nobody else is asked.
        say: Prints that it is being ended.

    Returns:
        Whether there is one on record; it has ended then.

    Raises:
        JobStillRunsError: It still runs, or nobody can tell, or the runner may not be asked.
    """
    path = join(output, JOB_FILE)
    if (data := read_if_there(path)) is None:
        return False
    where = f"{mask_credentials(path)}; if no job is at work, delete that file"
    noted = _noted(data)
    if noted is None:
        raise JobStillRunsError(f"a job may be at work on this output: got a damaged {where}.")
    name = f"the Dataflow job {noted.id} of an earlier command"
    if not runner.is_dataflow or DataflowJob.of(noted.id, runner) != noted:
        raise JobStillRunsError(
            f"{name} may be at work on this output: got a job of {_shown(noted)}, and other "
            "options of this command, or none; expected the same ones, since no file decides who "
            f"is asked with your credentials. Give them behind `--`; or see {where}."
        )
    try:
        _end(RunningJob(noted, runner), name, say, runner=runner, label=folder_label(output))
    except JobStillRunsError:
        raise
    except Exception as error:
        raise JobStillRunsError(
            f"{name} may be at work on this output: got {last_error(error)}; expected to hear that "
            f"it has ended. See {noted.console}, which {where}."
        ) from error
    return True


def _noted(data: bytes) -> DataflowJob | None:
    try:
        noted = typed(DataflowJob, load_json(data))
    except (ValueError, AttributeError):
        return None
    return noted if _JOB_ID.fullmatch(noted.id) else None


def _shown(job: DataflowJob) -> str:
    flags = {"project": job.project, "region": job.region, "dataflow_endpoint": job.endpoint}
    given = " ".join(f"--{name}={value!r}" for name, value in flags.items())
    return f"--runner=DataflowRunner {mask_credentials(given)}"


def _end(
    found: RunningJob, name: str, say: Callable[[str], None], *, runner: Runner, label: str
) -> None:
    console = found.job.console
    if found.has_ended():
        return
    if found.labels.get(FOLDER_LABEL) != label:
        raise JobStillRunsError(
            f"{name} runs and is not cancelled: got {FOLDER_LABEL} "
            f"{found.labels.get(FOLDER_LABEL)!r} among its labels; expected {label!r}, that of "
            f"this folder. See {console}; if it is not at work here, delete {JOB_FILE} in it."
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
