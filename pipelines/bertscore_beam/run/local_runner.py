"""Beam's FnApiRunner with workers on this machine that no other user can reach.

Beam 2.77 listens for its workers at ports on all addresses. It asks for no password, unpickles what
it receives, and serves every file that the user may read. Here workers connect over sockets in a
folder that only this user may enter, and no files are served: the workers see the same disk.
Workers of a worker pool may be on other machines, so they still get ports, but no files.

`_Workers` replaces Beam's `WorkerHandlerManager`. The pipeline's own option asks for workers in
this process, which need no ports. So a Beam that no longer uses `_Workers` opens none either.
"""

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any
from urllib.parse import quote

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.portability.api import (
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, fn_runner, worker_handlers
from apache_beam.runners.worker import data_plane
from apache_beam.utils import thread_pool_executor
from google.protobuf import json_format, text_format

from bertscore_beam.run.devices import variables_of_workers
from bertscore_beam.run.private_folder import make_private_folder, remove_private_folder
from bertscore_beam.run.watchdog import WORKER_THREAD, WorkerExitError
from bertscore_core import ConfigError

IN_THIS_THREAD, THREADS, PROCESSES = "in_memory", "multi_threading", "multi_processing"
"""Where workers run: values of Beam's option --direct_running_mode."""

_MANAGER = "WorkerHandlerManager"
"""Beam's class that starts workers; `FnApiRunner.run_stages` looks it up by this name."""

_CHANNEL_OPTIONS = (
    # Beam limits the size of its messages itself. A worker pings every 20 seconds.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 20_000),
)

_LAST_CALLS_SECONDS = 5
"""How long open calls may take to end when a server is closed; the same as in Beam."""


class LocalRunner(FnApiRunner):
    """FnApiRunner that starts its workers itself, in processes, in threads or in a worker pool."""

    def __init__(self, pool: str | None = None, gpus: Sequence[str] = ()) -> None:
        """Choose where workers come from.

        Args:
            pool: Address of a worker pool, HOST:PORT; None to go by --direct_running_mode.
            gpus: The GPUs that worker processes are spread over, as `gpus_to_share` returns them.
        """
        super().__init__()
        self._pool = pool
        self._gpus = gpus
        self._make: _Make | None = None

    def run_pipeline(
        self, pipeline: beam.Pipeline, options: PipelineOptions
    ) -> beam.runners.runner.PipelineResult:
        """Run a pipeline on the workers that its options ask for.

        Raises:
            ConfigError: This version of Beam starts its workers in an unknown way.
        """
        direct = options.view_as(DirectOptions)
        if self._pool is not None:
            self._make = _in_pool(self._pool)
        else:
            self._make = self._makers().get(direct.direct_running_mode)
        if self._make is not None:
            check_beam()
        direct.direct_running_mode = IN_THIS_THREAD
        return super().run_pipeline(pipeline, options)

    def _makers(self) -> dict[str, "_Make"]:
        """Return the functions that make workers, by the mode."""
        variables = variables_of_workers(self._gpus)
        return {
            PROCESSES: partial(_WorkerProcess, variables=variables),
            THREADS: partial(_WorkerThread, b"{}"),
        }

    def run_stages(self, stage_context: Any, stages: Any) -> Any:
        """Run the fused stages as Beam does, on the workers of this module."""
        if self._make is None:
            return super().run_stages(stage_context, stages)
        server = _PrivateServer if self._pool is None else _OpenServer
        # Beam has no parameter for the class, so its code runs with another global of that name.
        names = vars(fn_runner) | {_MANAGER: partial(_Workers, make=self._make, server=server)}
        return FunctionType(FnApiRunner.run_stages.__code__, names)(self, stage_context, stages)


def check_beam() -> None:
    """Check that Beam's own way to start workers can be replaced.

    Raises:
        ConfigError: This version of Beam starts its workers in an unknown way.
    """
    code = FnApiRunner.run_stages.__code__
    ask = inspect.signature(worker_handlers.WorkerHandlerManager.get_worker_handlers)
    known = ("self", "environment_id", "num_workers")
    if _MANAGER not in code.co_names or code.co_freevars or tuple(ask.parameters) != known:
        raise ConfigError(
            "workers cannot be started so that no other user can reach them: got Beam "
            f"{beam.__version__}, which starts them in another way; expected 2.77. Install the "
            "version of constraints.txt, or use --workers 1."
        )


class _Server:
    """The server for workers: Beam's `GrpcServer`, with its attributes, without its files."""

    control_port: str | int
    data_port: str | int
    state_port: str | int
    logging_port: str | int

    def __init__(self, workers: "_Workers") -> None:
        self.control_handler = worker_handlers.BeamFnControlServicer(workers)
        self.data_plane_handler = data_plane.BeamFnDataServicer(
            worker_handlers.DATA_BUFFER_TIME_LIMIT_MS
        )
        self._server = grpc.server(
            thread_pool_executor.shared_unbounded_instance(), options=_CHANNEL_OPTIONS
        )
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self.control_handler, self._server)
        beam_fn_api_pb2_grpc.add_BeamFnDataServicer_to_server(self.data_plane_handler, self._server)
        beam_fn_api_pb2_grpc.add_BeamFnStateServicer_to_server(
            worker_handlers.GrpcStateServicer(workers.state_servicer), self._server
        )
        beam_fn_api_pb2_grpc.add_BeamFnLoggingServicer_to_server(
            local_job_service.BeamFnLoggingServicer(), self._server
        )

    def close(self) -> None:
        """End all calls."""
        self.control_handler.done()
        self._server.stop(_LAST_CALLS_SECONDS).wait()


class _PrivateServer(_Server):
    """A server at sockets in a folder of the user's own. A port is a whole address."""

    def __init__(self, workers: "_Workers") -> None:
        super().__init__(workers)
        names = ("control", "data", "state", "logging")
        self._folder = make_private_folder(max(map(len, names)))
        ports = [f"unix:{quote(str(self._folder / name))}" for name in names]
        for port in ports:
            self._server.add_insecure_port(port)
        self.control_port, self.data_port, self.state_port, self.logging_port = ports
        self._server.start()

    def close(self) -> None:
        """End all calls and remove the sockets."""
        super().close()
        remove_private_folder(self._folder)


class _OpenServer(_Server):
    """A server for workers on other machines: at all addresses, without a password."""

    def __init__(self, workers: "_Workers") -> None:
        super().__init__(workers)
        provision_info = workers.provision_info.provision_info
        beam_provision_api_pb2_grpc.add_ProvisionServiceServicer_to_server(
            worker_handlers.BasicProvisionService(provision_info, workers), self._server
        )
        ports = [self._server.add_insecure_port("[::]:0") for _ in range(4)]
        self.control_port, self.data_port, self.state_port, self.logging_port = ports
        self._server.start()


class _Workers(worker_handlers.WorkerHandlerManager):
    """Starts workers of one kind for every environment."""

    _grpc_server: _Server | None

    def __init__(
        self,
        environments: Any,
        provision_info: fn_runner.ExtendedProvisionInfo,
        *,
        make: "_Make",
        server: type[_Server],
    ) -> None:
        super().__init__(environments, provision_info)
        self.provision_info = provision_info
        self._make = make
        self._server = server

    def get_worker_handlers(
        self, environment_id: str | None, num_workers: int
    ) -> list[worker_handlers.WorkerHandler]:
        """Return the workers of an environment, and start those that are missing."""
        if self._grpc_server is None:
            self._grpc_server = self._server(self)
        name = next(iter(self._environments)) if environment_id is None else environment_id
        handlers: list[worker_handlers.WorkerHandler] = self._cached_handlers[name]
        while len(handlers) < num_workers:
            provision_info = self.provision_info.for_environment(self._environments[name])
            handler = self._make(self.state_servicer, provision_info, self._grpc_server)
            handlers.append(handler)
            self._workers_by_id[handler.worker_id] = handler
            handler.start_worker()
        return handlers[:num_workers]


class _WorkerThread(worker_handlers.EmbeddedGrpcWorkerHandler):
    """A worker in a thread of this process."""

    def port_from_worker(self, port: str) -> str:
        """Return where a worker finds a port."""
        return port


class _WorkerProcess(worker_handlers.GrpcWorkerHandler):
    """A worker process."""

    def __init__(self, *given: Any, variables: Iterator[dict[str, str]]) -> None:
        """Take the environment variables of the next worker.

        Args:
            given: What Beam gives every worker.
            variables: Those of one worker after the other.
        """
        super().__init__(*given)
        self._variables = next(variables)

    def port_from_worker(self, port: str) -> str:
        """Return where a worker finds a port."""
        return port

    def start_worker(self) -> None:
        """Start the process, and a thread that raises if it ends with an error."""
        given = {
            "CONTROL_API_SERVICE_DESCRIPTOR": self.control_api_service_descriptor(),
            "LOGGING_API_SERVICE_DESCRIPTOR": self.logging_api_service_descriptor(),
        }
        options = self.provision_info.provision_info.pipeline_options
        process = subprocess.Popen(
            [sys.executable, "-m", "apache_beam.runners.worker.sdk_worker_main"],
            env={
                **os.environ,
                **self._variables,
                **{name: text_format.MessageToString(where) for name, where in given.items()},
                "PYTHONSAFEPATH": "1",  # no modules of the current folder
                "PIPELINE_OPTIONS": json_format.MessageToJson(options),
                "WORKER_ID": self.worker_id,
            },
        )
        self._thread = threading.Thread(name=WORKER_THREAD, target=_wait_for, args=[process])
        self._thread.start()

    def stop_worker(self) -> None:
        """Wait for its end; Beam has asked it to stop."""
        self._thread.join()


def _wait_for(process: "subprocess.Popen[bytes]") -> None:
    if code := process.wait():
        raise WorkerExitError(process.pid, code)


def _in_pool(address: str) -> "_Make":
    """Return the function that asks a worker pool for a worker."""
    endpoint = endpoints_pb2.ApiServiceDescriptor(url=address)
    payload = beam_runner_api_pb2.ExternalPayload(endpoint=endpoint)
    return partial(worker_handlers.ExternalWorkerHandler, payload)


_Make = Callable[..., worker_handlers.WorkerHandler]
"""(State servicer, provision info, server) -> a worker that is not started yet."""
