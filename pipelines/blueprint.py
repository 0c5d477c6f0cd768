"""A job as it would be submitted, without submitting it: what `--print-job` shows.

Neither the network nor the input, the output or the model is touched: the steps of a job do not
depend on them.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    TestOptions,
)
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment
from google.protobuf import json_format

from pipelines.dataflow import check_needs
from pipelines.io.files import mask_credentials
from pipelines.options import RunOptions
from pipelines.printing import escape_json
from pipelines.runners import beam_options, is_dataflow, is_local, new_pipeline

Build = Callable[[beam.Pipeline], Any]
"""Adds the steps of a pipeline to an empty one."""

_ROLE_FILE = common_urns.artifact_roles.STAGING_TO.urn


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A pipeline of a job.

    Attributes:
        name: What it does.
        options: What was asked for.
        build: Adds its steps to an empty pipeline.
    """

    name: str
    options: RunOptions
    build: Build


def print_job(sketches: Iterable[Sketch]) -> str:
    """Describe the pipelines of a job as JSON.

    Args:
        sketches: The pipelines, in their order.

    Raises:
        ConfigError: Beam's options are wrong, or what the runner cannot do without is missing.
    """
    jobs = []
    for one in sketches:
        if is_dataflow(one.options):
            check_needs(one.options, beam_options(one.options))
        jobs.append({"name": one.name, **describe(one.options, one.build)})
    return escape_json(mask_credentials(json.dumps({"jobs": jobs}, indent=2, ensure_ascii=False)))


def describe(options: RunOptions, build: Build) -> dict[str, Any]:
    """Describe one pipeline: the runner, its workers, environments, and the fused stages.

    Returns:
        `runner`; `workers`, the pool of workers as Dataflow would be asked for it, null elsewhere;
        `experiments`; `environments`, each with its `image` (or what else it is), `hints` and the
        `staged` files; and `stages`, each with its `environment`, its fused `steps`, and the steps
        outside whose output it `reads`.
    """
    chosen = beam_options(options)
    proto, pool = _dataflow_job(chosen, build) if is_dataflow(options) else _job(options, build)
    return {
        "runner": chosen.get_all_options()["runner"],
        "workers": pool,
        "experiments": chosen.view_as(DebugOptions).experiments or [],
        "environments": dict(_environments(proto)),
        "stages": sorted(_stages(proto), key=_place_in(proto)),
    }


def _job(options: RunOptions, build: Build) -> tuple[beam_runner_api_pb2.Pipeline, None]:
    """Build a pipeline for a runner that is given it whole."""
    chosen = beam_options(options)
    pipeline = new_pipeline(chosen, FnApiRunner())
    build(pipeline)
    if is_local(options):
        return pipeline.to_runner_api(), None
    environment = Environment.from_options(chosen.view_as(PortableOptions))
    return pipeline.to_runner_api(default_environment=environment), None


def _dataflow_job(
    chosen: PipelineOptions, build: Build
) -> tuple[beam_runner_api_pb2.Pipeline, dict[str, Any]]:
    """Take a pipeline through Dataflow's runner up to where it would be submitted."""
    from apache_beam.runners.dataflow.internal import apiclient

    chosen.view_as(TestOptions).dry_run = True
    chosen.view_as(GoogleCloudOptions).no_auth = True
    pipeline = new_pipeline(chosen)
    build(pipeline)
    proto = pipeline.run().job.proto_pipeline
    environment = apiclient.Environment(
        packages=[],
        options=pipeline._options,
        environment_version=apiclient._FNAPI_ENVIRONMENT_MAJOR_VERSION,
        proto_pipeline_staged_url="",
        proto_pipeline=proto,
    )
    job = json.loads(json_format.MessageToJson(environment.proto._pb))
    (pool,) = job["workerPools"]
    images = pool["sdkHarnessContainerImages"]
    images.sort(key=lambda image: str(image["environmentId"]))
    for image in images:
        del image["capabilities"]  # some thirty lines that every Beam worker has
    return proto, pool


def _environments(proto: beam_runner_api_pb2.Pipeline) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and description of each environment."""
    for name, environment in sorted(proto.components.environments.items()):
        words = {
            "kind": environment.urn,
            "hints": {
                urn.split(":")[-2]: value.decode()
                for urn, value in environment.resource_hints.items()
            },
            "staged": [
                beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(
                    artifact.role_payload
                ).staged_name
                for artifact in environment.dependencies
                if artifact.role_urn == _ROLE_FILE
            ],
        }
        if environment.urn == common_urns.environments.DOCKER.urn:
            payload = beam_runner_api_pb2.DockerPayload.FromString(environment.payload)
            words["image"] = payload.container_image
        if environment.urn == common_urns.environments.EXTERNAL.urn:
            external = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
            words["address"] = external.endpoint.url
        yield name, words


def _stages(proto: beam_runner_api_pb2.Pipeline) -> Iterator[dict[str, Any]]:
    """Yield the stages that Beam's own optimizer fuses a pipeline into."""
    _, stages = FnApiRunner().create_stages(proto)
    made_by = {
        collection: step.unique_name
        for step in proto.components.transforms.values()
        if not step.subtransforms
        for collection in step.outputs.values()
    }
    for stage in stages:
        steps = [step for step in stage.transforms if not _is_buffer(step)]
        if not steps:
            continue
        inside = {collection for step in steps for collection in step.outputs.values()}
        outside = {
            collection
            for step in stage.transforms
            for collection in step.inputs.values()
            if collection not in inside and collection in made_by
        }
        yield {
            "environment": stage.environment,
            "steps": [step.unique_name for step in steps],
            "reads": sorted({made_by[collection] for collection in outside}),
        }


def _place_in(proto: beam_runner_api_pb2.Pipeline) -> Callable[[dict[str, Any]], tuple[int, str]]:
    """Return what puts stages in the order of their steps: the optimizer's own may change."""
    places: dict[str, int] = {}
    pending = list(reversed(proto.root_transform_ids))
    while pending:
        step = proto.components.transforms[pending.pop()]
        places[step.unique_name] = len(places)
        pending.extend(reversed(step.subtransforms))

    def place(stage: dict[str, Any]) -> tuple[int, str]:
        first = stage["steps"][0]
        known = first
        while known not in places and "/" in known:  # the optimizer takes combines apart
            known = known.rpartition("/")[0]
        return places.get(known, len(places)), first

    return place


def _is_buffer(step: beam_runner_api_pb2.PTransform) -> bool:
    """Whether a step is only where the optimizer cut."""
    return str(step.spec.urn).startswith("beam:runner:")
