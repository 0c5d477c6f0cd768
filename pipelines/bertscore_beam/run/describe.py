"""Describe a job as it would be submitted, without submitting it: `--print-job`.

The steps of a job do not depend on its input, output or model. So none of these is read, and no
network is used.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PortableOptions,
    TestOptions,
)
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment
from google.protobuf import json_format

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.options.base import RunOptions
from bertscore_beam.run.dataflow import check_needs
from bertscore_beam.run.printing import escape_json
from bertscore_beam.run.runner import Runner, new_pipeline
from bertscore_beam.run.stage import Build, Stage

_ROLE_FILE = common_urns.artifact_roles.STAGING_TO.urn


def print_job(options: RunOptions, stages: Iterable[Stage]) -> str:
    """Describe the pipelines of a job as JSON.

    Args:
        options: The job's options.
        stages: The pipelines, in their order.

    Raises:
        ConfigError: Beam's options are wrong, or something that the runner needs is missing.
    """
    jobs = []
    for stage in stages:
        if stage.runner.is_dataflow:
            check_needs(options, stage.runner.beam_options)
        jobs.append({"name": stage.name, **describe(stage.runner, stage.build)})
    return escape_json(mask_credentials(json.dumps({"jobs": jobs}, indent=2, ensure_ascii=False)))


def describe(runner: Runner, build: Build) -> dict[str, Any]:
    """Describe one pipeline: the runner, its workers, environments, and the fused stages.

    Returns:
        `runner`; `workers`, the worker pool requested from Dataflow, null for other runners;
        `experiments`; `environments`, each with its `kind`, `image` or `address`, `hints` and
        `staged` files; and `stages`, each with its `environment`, its fused `steps`, and `reads`,
        the steps of other stages whose output it reads.
    """
    chosen = runner.beam_options
    proto, pool = (
        _dataflow_job(runner, build)
        if runner.is_dataflow
        else (pipeline_proto(runner, build), None)
    )
    return {
        "runner": chosen.get_all_options()["runner"],
        "workers": pool,
        "experiments": chosen.view_as(DebugOptions).experiments or [],
        "environments": dict(_environments(proto)),
        "stages": sorted(_stages(proto), key=_place_in(proto)),
    }


def pipeline_proto(runner: Runner, build: Build) -> beam_runner_api_pb2.Pipeline:
    """Build a pipeline and return it as the runner would get it."""
    chosen = runner.beam_options
    pipeline = new_pipeline(chosen, FnApiRunner())
    build(pipeline)
    if runner.is_local:
        return pipeline.to_runner_api()
    environment = Environment.from_options(chosen.view_as(PortableOptions))
    return pipeline.to_runner_api(default_environment=environment)


def _dataflow_job(
    runner: Runner, build: Build
) -> tuple[beam_runner_api_pb2.Pipeline, dict[str, Any]]:
    """Build a pipeline and prepare it as Dataflow's runner does before it submits."""
    from apache_beam.runners.dataflow.internal import apiclient

    chosen = runner.beam_options
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
        del image["capabilities"]  # thirty lines that are the same for every Beam worker
    return proto, pool


def _environments(proto: beam_runner_api_pb2.Pipeline) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, environment in sorted(proto.components.environments.items()):
        description = {
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
            description["image"] = payload.container_image
        if environment.urn == common_urns.environments.EXTERNAL.urn:
            external = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
            description["address"] = external.endpoint.url
        yield name, description


def _stages(proto: beam_runner_api_pb2.Pipeline) -> Iterator[dict[str, Any]]:
    """Yield the stages into which Beam's optimizer fuses a pipeline."""
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
    """Return a sort key that orders stages by their steps: the optimizer's order may change."""
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
    """Whether the optimizer added the step where it cut the pipeline."""
    return str(step.spec.urn).startswith("beam:runner:")
