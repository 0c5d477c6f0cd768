"""What a portable runner needs, checked before any work: a job service, or the program of one."""

import shutil

import grpc
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer
from apache_beam.runners.portability.job_server import ExternalJobServer, JavaJarJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer
from apache_beam.runners.portability.spark_runner import SparkJarJobServer

from bertscore_core import ConfigError

ANSWER_SECONDS = 10
"""How long a job service may take to answer; one that is there answers at once."""

_PROGRAMS = {"prism": PrismJobServer, "flink": FlinkJarJobServer, "spark": SparkJarJobServer}
_CURES = {
    "prism": "Give -- --prism_location=PATH",
    "flink": "Give -- --flink_job_server_jar=PATH",
    "spark": "Give -- --spark_job_server_jar=PATH",
}


def check_service(name: str, chosen: PipelineOptions) -> None:
    """Check that the job service of a runner answers, or that its program is there.

    Beam itself looks only when the folder has been changed, and waits for minutes. A program that
    has to be fetched is fetched here, and kept as Beam keeps it.

    Args:
        name: Name of the runner, as in `Runner`.
        chosen: Beam's options, parsed.

    Raises:
        ConfigError: It does not answer, or is not there.
    """
    endpoint = chosen.view_as(PortableOptions).job_endpoint
    if name not in {"portable", *_PROGRAMS} or endpoint == "embed":
        return
    if endpoint is not None:
        _check_answers(endpoint)
    elif name == "portable":
        raise ConfigError(
            "PortableRunner needs --job_endpoint: got none; expected the address of a job service. "
            "Give -- --job_endpoint=HOST:PORT, or leave --runner out."
        )
    elif not _is_submitted_as_jar(chosen):
        _check_program(name, chosen)


def _is_submitted_as_jar(chosen: PipelineOptions) -> bool:
    """Tell whether Beam submits a jar to the engine, without a job service here."""
    flink, spark = chosen.view_as(FlinkRunnerOptions), chosen.view_as(SparkRunnerOptions)
    return bool(flink.flink_submit_uber_jar or spark.spark_submit_uber_jar)


def _check_answers(endpoint: str) -> None:
    try:
        ExternalJobServer(endpoint, ANSWER_SECONDS).start()
    except grpc.FutureTimeoutError as error:
        raise ConfigError(
            f"the job service does not answer: got no connection to --job_endpoint={endpoint} in "
            f"{ANSWER_SECONDS} s; expected one. Start it, or correct the address."
        ) from error


def _check_program(name: str, chosen: PipelineOptions) -> None:
    server = _PROGRAMS[name](chosen)
    try:
        if isinstance(server, JavaJarJobServer):
            server.local_jar(server.path_to_jar(), server._jar_cache_dir)
            program = server._java_launcher
        else:
            program = server._get_executable_path()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"the program of runner {name!r} is not there: got {' '.join(str(error).split())}; "
            f"expected a file, or a network to fetch it from. {_CURES[name]}, or --job_endpoint."
        ) from error
    if shutil.which(program) is None:
        raise ConfigError(
            f"runner {name!r} cannot be started: got no program {program!r}; expected one that may "
            f"be executed. Install it, or give -- --job_endpoint=HOST:PORT."
        )
