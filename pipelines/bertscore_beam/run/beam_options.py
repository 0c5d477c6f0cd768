"""Beam's options: what they say, and whether a job can run with them.

Beam takes seconds to import: only a run with options of Beam, or with a pipeline, comes here.
"""

import difflib
import re
from argparse import ArgumentError
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options import pipeline_options as of_beam
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.portability.job_server import ExternalJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer

from bertscore_beam.options.row_options import IDF_WORDS
from bertscore_beam.options.run_options import RunOptions
from bertscore_core.errors import ConfigError

# What a job on Dataflow needs, checked before any work.

_NEEDS = {
    "project": "Give -- --project=NAME.",
    "region": "Give -- --region=us-central1, or where the data is.",
    "temp_location": "Give -- --temp_location=gs://BUCKET/tmp.",
    "sdk_container_image": "Give -- --sdk_container_image=IMAGE, built from docker/Dockerfile.",
}
"""Without one of these Beam asks the network for minutes, or the job fails on its first worker."""

_BUCKETS = ("temp_location", "staging_location")
"""Options of Beam that name a folder in a bucket."""

_PLACES = ("input", "output", "idf", "reuse", "wet", "documents", "sentences")
"""Options that name paths for the workers to open."""

_NO_PLACES = (*IDF_WORDS, "both", "True", "False")
"""What they may say in the place of a path: of `idf`, and that of `tune` and of `baseline`."""


def check_needs(options: RunOptions, chosen: of_beam.PipelineOptions) -> None:
    """Check the options alone, without a look at files or the network."""
    try:
        from apache_beam.runners.dataflow.internal import apiclient  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"DataflowRunner needs packages that are not installed: got {error}; expected the "
            "extra gcp. In the checkout: pip install '.[gcp,gcs]'."
        ) from error
    values = chosen.get_all_options()
    for name, cure in _NEEDS.items():
        if not values[name]:
            raise ConfigError(f"DataflowRunner needs --{name}: got none; expected it. {cure}")
    for name in _BUCKETS:
        # If Beam cannot use the place, it looks for a default bucket, and would make one.
        wrong = PipelineOptionsValidator(chosen, None).validate_gcs_path(
            chosen.view_as(of_beam.GoogleCloudOptions), name
        )
        if values[name] and wrong:
            raise ConfigError(
                f"{name} cannot be used: got {values[name]!r}; expected gs://BUCKET/FOLDER, which "
                "Dataflow's workers can read; a bucket's name has 3 or more lower-case letters, "
                f"digits, '-', '_' and '.'. Give -- --{name}=gs://BUCKET/tmp."
            )
    _check_reachable(options)


def check_credentials(chosen: of_beam.PipelineOptions) -> None:
    """Check that there are credentials to submit with. Without any, Beam searches for minutes."""
    if chosen.view_as(of_beam.GoogleCloudOptions).no_auth:
        return
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        google.auth.default()
    except (GoogleAuthError, OSError) as error:
        raise ConfigError(
            f"there are no usable Google Cloud credentials: got {' '.join(str(error).split())} "
            "Expected those of an account that may start Dataflow jobs. Make them: gcloud auth "
            "application-default login; or name a key with GOOGLE_APPLICATION_CREDENTIALS."
        ) from error


def _check_reachable(options: RunOptions) -> None:
    described = options.describe()
    for name in _PLACES:
        values = described.get(name) or []
        for value in values if isinstance(values, list) else [values]:
            has_language = name in ("documents", "sentences")
            path = str(value).partition("=")[2] if has_language else str(value)
            if "://" not in path and path not in _NO_PLACES:
                raise ConfigError(
                    f"{name} is on this machine: got {value!r}; expected a path that Dataflow's "
                    "workers can reach. Copy it to a gs:// path."
                )


# What a portable runner needs, checked before any work: a job service, or the program of one.

ANSWER_SECONDS = 10
"""How long a job service may take to answer; one that is there answers at once."""


def check_service(name: str, chosen: of_beam.PipelineOptions) -> None:
    """Check that the job service of a runner answers, or that its program is there.

    Beam itself looks only when the folder has been changed, and waits for minutes. A program that
    has to be fetched is fetched here, and kept as Beam keeps it.
    """
    endpoint = chosen.view_as(of_beam.PortableOptions).job_endpoint
    if name not in {"portable", "prism"} or endpoint == "embed":
        return
    if endpoint is not None:
        try:
            ExternalJobServer(endpoint, ANSWER_SECONDS).start()
        except grpc.FutureTimeoutError as error:
            raise ConfigError(
                f"the job service does not answer: got no connection to --job_endpoint={endpoint} "
                f"in {ANSWER_SECONDS} s; expected one. Start it, or correct the address."
            ) from error
    elif name == "portable":
        raise ConfigError(
            "PortableRunner needs --job_endpoint: got none; expected the address of a job service. "
            "Give -- --job_endpoint=HOST:PORT, or leave --runner out."
        )
    else:
        _check_prism(chosen)


def _check_prism(chosen: of_beam.PipelineOptions) -> None:
    try:
        PrismJobServer(chosen)._get_executable_path()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"the program of runner 'prism' is not there: got {' '.join(str(error).split())}; "
            "expected a file, or a network to fetch it from. Give -- --prism_location=PATH, or "
            "--job_endpoint."
        ) from error


_KNOWN_OPTIONS_RUNNERS = {"fnapi", "direct", "dataflow"}
"""Runners that have Beam's own options only; a job server adds options to others."""

_PLACEHOLDER = re.compile(r"(?<![\w-])your-")
"""The start of names that the user must replace in the configs: your-project, your-bucket."""


def check_detached(chosen: of_beam.PipelineOptions) -> None:
    """Check that a job on another runner than Dataflow goes on when this process ends."""
    portable = chosen.view_as(of_beam.PortableOptions)
    service, workers = portable.job_endpoint, portable.environment_type
    if service in (None, "embed") or workers == "LOOPBACK":
        raise ConfigError(
            f"the job cannot run without this command: got job service {service!r} and workers "
            f"{workers!r}, which end with it; expected DataflowRunner, or a --job_endpoint of "
            "its own with workers elsewhere. Leave --no_wait_until_finish out."
        )


def new_pipeline(
    chosen: of_beam.PipelineOptions, runner: beam.runners.PipelineRunner | None = None
) -> beam.Pipeline:
    """Return an empty pipeline."""
    try:
        return beam.Pipeline(runner=runner, options=chosen)
    except ValueError as error:
        raise ConfigError(
            f"Beam's options cannot be used: got {' '.join(str(error).split())} Expected what its "
            "documentation says. Correct the option named."
        ) from error


def check_placeholders(options: RunOptions, chosen: of_beam.PipelineOptions) -> None:
    """Check that no name of a config is left that the user must replace."""
    own = {name: value for name, value in options.describe().items() if name != "beam"}
    for name, value in (own | chosen.get_all_options(drop_default=True)).items():
        if _PLACEHOLDER.search(str(value)):
            raise ConfigError(
                f"{name} is a placeholder of the config: got {value!r}; expected your own name. "
                "Edit a copy of the config, or give the option again, Beam's behind `--`."
            )


def read_flags(flags: Sequence[str], usual: str) -> tuple[str, dict[str, Any]]:
    """Return the runner named in Beam's options, or the usual one, and what they give.

    Raises:
        ConfigError: A value would end the process, or Beam would ignore an option.
    """
    parser = of_beam._BeamArgumentParser(allow_abbrev=False, exit_on_error=False)
    for kind in of_beam.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    parser.set_defaults(job_server_timeout=None)
    try:
        given, unknown = parser.parse_known_args(list(flags))
    except ArgumentError as error:
        raise ConfigError(
            f"Beam's options cannot be used: got {error}; expected what its documentation says. "
            "Correct the option named."
        ) from error
    name = _short_name(given.runner or usual)
    if unknown and name in _KNOWN_OPTIONS_RUNNERS:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        raise ConfigError(
            f"unknown Beam option {unknown[0]!r}: expected one that Beam has. "
            + (f"Did you mean {near[0]}?" if near else "See Beam's pipeline options.")
        )
    return name, vars(given)


def _short_name(runner: str) -> str:
    return runner.rpartition(".")[2].lower().removesuffix("runner")


def threads_on_service(options: of_beam.PipelineOptions) -> int | None:
    """Return the threads of each worker process of a service; None for all cores.

    Dataflow starts a process for each core, unless an experiment asks for one a machine.
    """
    runner = options.view_as(of_beam.StandardOptions).runner or ""
    experiments = options.view_as(of_beam.DebugOptions)
    is_alone = experiments.lookup_experiment("no_use_multiple_sdk_containers", False)
    return 1 if _short_name(runner) == "dataflow" and not is_alone else None
