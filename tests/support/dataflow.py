"""A stand-in of Dataflow on loopback: the REST service that Beam submits to, and its workers.

    with google_cloud("bucket") as cloud:
        cli.main([..., "--", *cloud.flags])  # DataflowRunner, to the stand-in
        (job,) = cloud.dataflow.jobs.values()

A job's pipeline is taken from where Beam has staged it, and run by a process of its own
(dataflow_worker.py); if that dies or fails, the job is tried again, as often as Dataflow tries a
bundle. A Flex Template's launcher is run as the service runs it. What only Dataflow itself does is
not here: machines, images, GPUs, autoscaling, and when it divides an element that is worked on.
"""

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import proto
from google.cloud.dataflow_v1beta3 import (
    FlexTemplateRuntimeEnvironment,
    Job,
    JobMessage,
    JobMessageImportance,
    JobMetrics,
    JobState,
    JobView,
    LaunchFlexTemplateRequest,
    LaunchFlexTemplateResponse,
    ListJobMessagesResponse,
    MetricStructuredName,
    MetricUpdate,
)
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from tests.support.cloud_storage import CloudStorage, cloud_storage
from tests.support.faults import Faults
from tests.support.processes import send, session_members
from tests.support.web import running

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "docker" / "flex" / "score.py"
_PATH = re.compile(
    r"/v1b3/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/"
    r"(?:jobs(?:/(?P<id>[^/]+)(?:/(?P<part>messages|metrics))?)?|(?P<launch>flexTemplates:launch))"
)
# As Google's rules for labels say it, of the letters that ASCII has.
_LABEL, _LABEL_VALUE = re.compile(r"[a-z][a-z0-9_-]{0,62}"), re.compile(r"[a-z0-9_-]{0,63}")
_ENDED = (JobState.JOB_STATE_DONE, JobState.JOB_STATE_FAILED, JobState.JOB_STATE_CANCELLED)
_FAILED = (
    "Workflow failed. Causes: S01:ScoreSplits failed., The job failed because a work item has "
    "failed {attempts} times. Look in previous log entries for the cause of each one of the "
    "{attempts} failures. The work item was attempted on these workers: the stand-in."
)
_LOST = "\n\n  Root cause: The worker lost contact with the service."


@dataclass(slots=True)
class ServedJob:
    """A job of the service.

    Attributes:
        job: As the service describes it.
        folder: Has the pipeline, the counters and the log of each worker.
        messages: What the service says about it.
        workers: The processes that have worked for it, each the leader of a session.
    """

    job: Job
    folder: Path
    messages: list[JobMessage] = field(default_factory=list)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def state(self) -> str:
        """The state without what the names of all begin with, such as RUNNING."""
        return JobState(self.job.current_state).name.removeprefix("JOB_STATE_")

    @property
    def works(self) -> bool:
        """Whether a process of it lives."""
        return any(session_members(worker.pid) for worker in self.workers)

    def kill_workers(self) -> None:
        """Kill the process that works for it now, with all that it has started."""
        self._send(signal.SIGKILL)

    def suspend(self) -> None:
        """Let its workers do nothing more until they are killed."""
        self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        for worker in self.workers:
            for process in session_members(worker.pid):
                send(process, number)

    def log(self) -> str:
        """Return what its workers have said."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("worker-*.log")))


@dataclass(slots=True, kw_only=True)
class Dataflow:
    """The service, a WSGI application.

    Attributes:
        store: Where jobs and their pipelines are staged.
        folder: For the files of jobs.
        attempts: How often a job is tried.
        processes: Processes of a job that share its work.
        divides: Whether it divides some of the elements that are worked on.
        start: Seconds until the machines of a job have started.
        stop: Seconds until those of a job that is cancelled have stopped.
        jobs: All jobs, by id.
        most_at_once: Most jobs that had workers at the same time.
        unknown: Requests that the stand-in does not know.
    """

    store: CloudStorage
    folder: Path
    attempts: int = 4
    processes: int = 1
    divides: bool = False
    start: float = 0.0
    stop: float = 0.0
    jobs: dict[str, ServedJob] = field(default_factory=dict)
    most_at_once: int = 0
    unknown: list[str] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        """Answer a request."""
        request = Request(environ)
        with self._lock:
            answer = self._answer(request, request.get_data(as_text=True))
        return answer(environ, start_response)

    def end(self) -> None:
        """End all jobs with their processes."""
        for served in self.jobs.values():
            served.job.requested_state = JobState.JOB_STATE_CANCELLED
            served.kill_workers()
        for served in self.jobs.values():
            served.ended.wait()

    def _answer(self, request: Request, body: str) -> Response:
        found = _PATH.fullmatch(request.path)
        served = None if found is None else self.jobs.get(found["id"] or "")
        match request.method, found:
            case "POST", re.Match() if found["launch"]:
                return self._launch(LaunchFlexTemplateRequest.from_json(body), found)
            case "POST", re.Match() if found["id"] is None:
                return self._create(_parsed(body), found)
            case _, re.Match() if found["id"] and served is None:
                return _refused(404, f"job {found['id']} is not there")
        match request.method, found and found["part"], served:
            case "GET", None, ServedJob(job=job):
                return _sent(_in_view(job, request.args.get("view", "")))
            case "GET", "messages", ServedJob(messages=messages):
                return _sent(ListJobMessagesResponse(job_messages=messages))
            case "GET", "metrics", ServedJob():
                return _sent(_metrics(served))
            case "PUT", None, ServedJob():
                return self._cancel(served, _parsed(body))
        self.unknown.append(f"{request.method} {request.full_path}")
        return _refused(501, "the stand-in does not know this request")

    def _create(self, job: Job, place: re.Match[str]) -> Response:
        for name, value in job.labels.items():
            if not (_LABEL.fullmatch(name) and _LABEL_VALUE.fullmatch(value)):
                return _refused(400, f"the label {name}={value} is not allowed")
        for served in self.jobs.values():
            if served.job.name == job.name and served.job.current_state not in _ENDED:
                return _refused(409, f"there is an active job named {job.name}")
        served = self._begin(job, place)
        threading.Thread(target=self._run, args=(served,)).start()
        return _sent(_without_environment(served.job))

    def _begin(self, job: Job, place: re.Match[str]) -> ServedJob:
        now = datetime.now(UTC)
        job.id = f"{now:%Y-%m-%d_%H_%M_%S}-{len(self.jobs)}"
        job.project_id, job.location, job.create_time = place["project"], place["location"], now
        job.current_state = JobState.JOB_STATE_PENDING
        folder = self.folder / job.id
        folder.mkdir()
        self.jobs[job.id] = ServedJob(job, folder)
        return self.jobs[job.id]

    def _launch(self, request: LaunchFlexTemplateRequest, place: re.Match[str]) -> Response:
        parameter = request.launch_parameter
        served = self._begin(Job(name=parameter.job_name), place)
        flags = [f"--{name}={value}" for name, value in parameter.parameters.items()]
        environment: FlexTemplateRuntimeEnvironment = parameter.environment
        object_ = f"{environment.staging_location}/template_launches/{served.job.id}/job_object"
        flags += ["--runner=DataflowRunner", f"--project={place['project']}", "--no_auth"]
        flags += [f"--region={place['location']}", f"--job_name={parameter.job_name}"]
        flags += [f"--temp_location={environment.temp_location}"]
        flags += [f"--sdk_container_image={environment.sdk_container_image}"]
        flags += [f"--template_location={object_}"]

        def launch() -> None:
            with (served.folder / "worker-launcher.log").open("wb") as log:
                done = subprocess.run(
                    [sys.executable, LAUNCHER, *flags], cwd=served.folder, stdout=log, stderr=log
                )
            if done.returncode:
                _say(served, served.log(), JobMessageImportance.JOB_MESSAGE_ERROR)
                _change(served, JobState.JOB_STATE_FAILED)
                served.ended.set()
                return
            made = _parsed(self.store.read(object_).decode())
            served.job.environment, served.job.labels = made.environment, made.labels
            self._run(served)

        threading.Thread(target=launch).start()
        return _sent(LaunchFlexTemplateResponse(job=_without_environment(served.job)))

    def _cancel(self, served: ServedJob, wanted: Job) -> Response:
        if wanted.requested_state != JobState.JOB_STATE_CANCELLED:
            return _refused(400, "the stand-in can only cancel a job")
        if served.job.current_state not in _ENDED:
            served.job.requested_state = wanted.requested_state
            _change(served, JobState.JOB_STATE_CANCELLING)
            threading.Timer(self.stop, served.kill_workers).start()
        return _sent(_without_environment(served.job))

    def _run(self, served: ServedJob) -> None:
        """Run a job to its end."""
        job = served.job
        staged = job.environment.sdk_pipeline_options["options"]["pipelineUrl"]
        (served.folder / "pipeline").write_bytes(self.store.read(staged))
        _say(served, "Worker configuration: the stand-in.")
        time.sleep(self.start)
        status = 1
        for attempt in range(self.attempts):
            if job.requested_state == JobState.JOB_STATE_CANCELLED:
                break
            _change(served, JobState.JOB_STATE_RUNNING)
            log = served.folder / f"worker-{attempt}.log"
            status = self._work(served, log)
            if status == 0:
                break
            words = _LOST if status < 0 else _last_traceback(log.read_text())
            _say(served, words, JobMessageImportance.JOB_MESSAGE_ERROR)
        if job.requested_state == JobState.JOB_STATE_CANCELLED and status:
            _change(served, JobState.JOB_STATE_CANCELLED)
        elif status:
            words = _FAILED.format(attempts=self.attempts)
            _say(served, words, JobMessageImportance.JOB_MESSAGE_ERROR)
            _change(served, JobState.JOB_STATE_FAILED)
        else:
            _change(served, JobState.JOB_STATE_DONE)
        served.ended.set()

    def _work(self, served: ServedJob, log: Path) -> int:
        """Let a new process work for a job, and return its exit status."""
        module = "tests.support.dataflow_worker"
        words = (served.folder / "pipeline", _counters(served), self.processes, int(self.divides))
        with log.open("wb") as sink, self._lock:
            worker = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, words)],
                cwd=served.folder,  # a path that is only right on the launcher's side is found out
                env={**_environment(), "JOB_ID": served.job.id},
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
            served.workers.append(worker)
            at_once = sum(other.works for other in self.jobs.values())
            self.most_at_once = max(self.most_at_once, at_once)
        return worker.wait()


def _last_traceback(log: str) -> str:
    before, line, after = log.rpartition("Traceback (most recent call last):")
    return line + after if line else before + after


def _environment() -> dict[str, str]:
    """Return the variables of a worker: no threads are set, as in the image."""
    unset = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "GOMP_SPINCOUNT")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"  # Beam's worker pool calls `python`
    return {**kept, "PYTHONPATH": str(ROOT), "PATH": path}


def _counters(served: ServedJob) -> Path:
    return served.folder / "counters.json"


def _change(served: ServedJob, state: JobState) -> None:
    if served.job.current_state not in _ENDED:
        served.job.current_state = state


def _say(
    served: ServedJob,
    words: str,
    importance: JobMessageImportance = JobMessageImportance.JOB_MESSAGE_BASIC,
) -> None:
    message = JobMessage(
        id=str(len(served.messages)),
        time=datetime.now(UTC),
        message_text=words,
        message_importance=importance,
    )
    served.messages.append(message)


def _metrics(served: ServedJob) -> JobMetrics:
    """Return the counters of a job that has ended, each as it was tried and as it counts."""
    path = _counters(served)
    counted = json.loads(path.read_text()) if path.exists() else []
    updates = [
        MetricUpdate(
            name=MetricStructuredName(
                origin="user",
                name=metric["name"],
                context={"namespace": metric["namespace"], "step": metric["step"], **tentative},
            ),
            scalar=metric["value"],
        )
        for metric in counted
        for tentative in ({}, {"tentative": "true"})
    ]
    return JobMetrics(metrics=updates, metric_time=datetime.now(UTC))


def _parsed(body: str) -> Job:
    job: Job = Job.from_json(body, ignore_unknown_fields=True)
    return job


def _without_environment(job: Job) -> Job:
    """Return a job as the service shows it if nobody asks for all."""
    shown: Job = Job.from_json(Job.to_json(job))
    del shown.environment
    return shown


def _in_view(job: Job, view: str) -> Job:
    """Return a job as a request sees it: a summary has no labels."""
    shown = _without_environment(job)
    if view not in {JobView.JOB_VIEW_DESCRIPTION.name, str(int(JobView.JOB_VIEW_DESCRIPTION))}:
        shown.labels = {}
    return shown


def _sent(message: proto.Message) -> Response:
    return Response(type(message).to_json(message), mimetype="application/json")


def _refused(status: int, words: str) -> Response:
    error = {"error": {"code": status, "message": words}}
    return Response(json.dumps(error), status, mimetype="application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleCloud:
    """Both services, running.

    Attributes:
        endpoint: The address of Dataflow.
        store_faults: Sets the faults of the store; `faults` those of Dataflow.
    """

    storage: CloudStorage
    store_faults: Faults
    dataflow: Dataflow
    faults: Faults
    endpoint: str

    @property
    def flags(self) -> list[str]:
        """What leads Beam's runner here."""
        return [f"--dataflow_endpoint={self.endpoint}", "--no_auth"]


@contextlib.contextmanager
def google_cloud(*buckets: str) -> Iterator[GoogleCloud]:
    """Run both services in threads, and point the environment at the store.

    Raises:
        AssertionError: One was asked for something that the stand-in does not know.
    """
    with contextlib.ExitStack() as stack:
        storage, store_faults = stack.enter_context(cloud_storage(*buckets))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dataflow-"))
        dataflow = Dataflow(store=storage, folder=Path(folder))
        faults = Faults(dataflow)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = make_server("127.0.0.1", 0, faults, threaded=True)
        url = stack.enter_context(running(server)).replace("127.0.0.1", "localhost")
        stack.callback(dataflow.end)
        yield GoogleCloud(
            storage=storage,
            store_faults=store_faults,
            dataflow=dataflow,
            faults=faults,
            endpoint=url,
        )
    assert dataflow.unknown == []
