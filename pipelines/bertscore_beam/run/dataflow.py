"""What a job on Dataflow needs, checked before any work."""

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator

from bertscore_beam.options.base import RunOptions
from bertscore_beam.options.score import IDF_WORDS
from bertscore_core import ConfigError

_NEEDS = {
    "project": "Give -- --project=NAME.",
    "region": "Give -- --region=us-central1, or where the data is.",
    "temp_location": "Give -- --temp_location=gs://BUCKET/tmp.",
    "sdk_container_image": "Give -- --sdk_container_image=IMAGE, built from docker/Dockerfile.",
}
"""Without one of these Beam asks the network for minutes, or the job fails on its first worker."""

_BUCKETS = ("temp_location", "staging_location")
"""Options of Beam that name a folder in a bucket."""

_PLACES = ("input", "output", "idf", "reuse", "wet", "sentences")
"""Options that name paths for the workers to open."""


def check_needs(options: RunOptions, chosen: PipelineOptions) -> None:
    """Check the options alone, without a look at files or the network.

    Args:
        options: The job's options.
        chosen: Beam's options, parsed.

    Raises:
        ConfigError: A package or an option is missing, or a path is on this machine.
    """
    try:
        from apache_beam.runners.dataflow.internal import apiclient  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"DataflowRunner needs packages that are not installed: got {error}; expected the "
            "extra gcp. Install it: pip install 'bertscore-beam[gcp,gcs]'."
        ) from error
    given = chosen.get_all_options()
    for name, cure in _NEEDS.items():
        if not given[name]:
            raise ConfigError(f"DataflowRunner needs --{name}: got none; expected it. {cure}")
    for name in _BUCKETS:
        # If Beam cannot use the place, it looks for a default bucket, and would make one.
        wrong = PipelineOptionsValidator(chosen, None).validate_gcs_path(
            chosen.view_as(GoogleCloudOptions), name
        )
        if given[name] and wrong:
            raise ConfigError(
                f"{name} cannot be used: got {given[name]!r}; expected gs://BUCKET/FOLDER, which "
                "Dataflow's workers can read; a bucket's name has 3 or more lower-case letters, "
                f"digits, '-', '_' and '.'. Give -- --{name}=gs://BUCKET/tmp."
            )
    _check_reachable(options)


def check_credentials(chosen: PipelineOptions) -> None:
    """Check that there are credentials to submit with. Without any, Beam searches for minutes.

    Raises:
        ConfigError: There are none.
    """
    if chosen.view_as(GoogleCloudOptions).no_auth:
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
    given = options.describe()
    for name in _PLACES:
        values = given.get(name) or []
        for value in values if isinstance(values, list) else [values]:
            path = str(value).partition("=")[2] if name == "sentences" else str(value)
            if "://" not in path and path not in IDF_WORDS:
                raise ConfigError(
                    f"{name} is on this machine: got {value!r}; expected a path that Dataflow's "
                    "workers can reach. Copy it to a gs:// path."
                )
