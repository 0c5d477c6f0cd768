"""What a job on Dataflow cannot do without, looked for before any work."""

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from bertscore_core import ConfigError
from pipelines.options import IDF_WORDS, RunOptions

_NEEDS = {
    "project": "Give -- --project=NAME.",
    "region": "Give -- --region=us-central1, or where the data is.",
    "temp_location": "Give -- --temp_location=gs://BUCKET/tmp.",
    "sdk_container_image": "Give -- --sdk_container_image=IMAGE, built from docker/Dockerfile.",
}
"""Without one of these Beam asks the network for minutes, or the job fails on its first worker."""

_PLACES = ("input", "output", "idf", "wet", "sentences")
"""Options with paths that workers open."""


def check_needs(options: RunOptions, chosen: PipelineOptions) -> None:
    """Check what the options say; nothing is looked at.

    Args:
        options: The job's options.
        chosen: Beam's own among them, as Beam reads them.

    Raises:
        ConfigError: a package or an option is missing, or a place lies on this machine.
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
    if not str(given["temp_location"]).startswith("gs://"):
        raise ConfigError(
            f"temp_location cannot be used: got {given['temp_location']!r}; expected a gs:// path, "
            "where Dataflow's workers can read it. Give -- --temp_location=gs://BUCKET/tmp."
        )
    _check_reachable(options)


def check_credentials(chosen: PipelineOptions) -> None:
    """Check that there are credentials to submit with; Beam would look for them for minutes.

    Raises:
        ConfigError: there are none.
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
    said = options.describe()
    for name in _PLACES:
        values = said.get(name) or []
        for value in values if isinstance(values, list) else [values]:
            place = str(value).partition("=")[2] if name == "sentences" else str(value)
            if "://" not in place and place not in IDF_WORDS:
                raise ConfigError(
                    f"{name} lies on this machine: got {value!r}; expected a place that Dataflow's "
                    "workers can reach. Copy it to a gs:// path."
                )
