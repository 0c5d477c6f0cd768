"""The pipelines of the jobs as a runner gets them: their steps depend on no input and no model."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.options import pipeline_options as of_beam
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment
from google.protobuf import json_format

from bertscore_beam.baseline import job as of_baseline
from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.collect_sentences import read_phases
from bertscore_beam.baseline.layer_moments import ScorePairParts
from bertscore_beam.baseline.sample import pair_phases
from bertscore_beam.idf import job as of_idf
from bertscore_beam.idf.counting import Counting
from bertscore_beam.idf.idf_tables import SavedIdf
from bertscore_beam.metrics.own import OwnMetric
from bertscore_beam.options.run_options import RunOptions
from bertscore_beam.options.score_options import IdfOptions, ScoreOptions
from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.records.summary import RunStart
from bertscore_beam.run.beam_options import new_pipeline
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.phases import Phase, chunks_of
from bertscore_beam.run.run_step import add_phases
from bertscore_beam.run.runner import Runner
from bertscore_beam.score import job as of_score
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.tune.layer_scores import ScoreParts
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_core import ScorerConfig, settle

Build = Callable[[beam.Pipeline], Any]


class Pipeline(NamedTuple):
    """A pipeline of a job, under a name; what adds its steps is called with an empty one."""

    name: str
    runner: Runner
    build: Build

    @classmethod
    def of(cls, name: str, runner: Runner, phases: Iterable[Phase]) -> "Pipeline":
        """Return the pipeline that does some phases."""
        return cls(name, runner, partial(add_phases, phases=[*phases]))


def pipelines_of(options: RunOptions) -> list[Pipeline]:
    """Return the pipelines of a job, each once, with made-up input."""
    runner = Runner.of(options)
    folder = OutputFolder(options.output)
    match options:
        case ScoreOptions():
            spec = _score_spec(options, runner, folder)
            return [Pipeline.of("score", runner, of_score.score_phases(spec))]
        case IdfOptions():
            counting = Counting(vocabularies={}, fields=options.table_fields, corpus="")
            chunks = chunks_of(folder.path("plan"), "", runner.num_chunks)
            phases = of_idf.idf_phases(chunks, counting, folder, "idf.npz")
            return [Pipeline.of("idf", runner, phases)]
        case TuneOptions():
            setting = settle(ScorerConfig()).for_workers()
            step = ScoreParts(setting, folder, options.weightings, scores="")
            return [Pipeline.of("score", runner, [step.phase(options.accelerator)])]
        case BaselineOptions():
            return list(_baseline_pipelines(options, runner, folder))
    raise TypeError(options)


def _score_spec(options: ScoreOptions, runner: Runner, folder: OutputFolder) -> ScoreSpec:
    counts = options.idf == "corpus"
    path = folder.path(IDF_FILE) if counts else options.idf
    return ScoreSpec(
        run="",
        folder=folder,
        before=None,
        settings=SettingsByLanguage(),
        identity={},
        fields=options.table_fields,
        digest="",
        start=RunStart(),
        idf=SavedIdf(path="" if path == "none" else path, must_count=counts),
        group_by=options.group_by,
        metrics=options.library_metrics,
        own_metrics=tuple(OwnMetric(path=path, version="") for path in options.own_metrics),
        accelerator=options.accelerator,
    )


def _baseline_pipelines(
    options: BaselineOptions, runner: Runner, folder: OutputFolder
) -> Iterator[Pipeline]:
    scoring = Runner.of(options.for_scoring)
    yield Pipeline.of("read", runner, read_phases(options, folder))
    yield Pipeline.of("pair", runner, pair_phases(folder, options.seed))
    if options.idf:
        counted = of_baseline.count_phases(folder, ScorerConfig(idf=True))
        yield Pipeline.of("count", scoring, counted)
    step = ScorePairParts(setting=settle(ScorerConfig()).for_workers(), folder=folder)
    yield Pipeline.of("score", scoring, [step.phase(options.accelerator)])


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
    places = {name: place for place, name in enumerate(_steps(proto, proto.root_transform_ids))}

    def place(stage: dict[str, Any]) -> tuple[int, list[str]]:
        names = stage["steps"]  # the optimizer takes combines apart: `Sum` is `Sum/Merge` then
        near = [places.get(name, places.get(name.rpartition("/")[0])) for name in names]
        return min((place for place in near if place is not None), default=len(places)), names

    return {
        "runner": chosen.get_all_options()["runner"],
        "workers": pool,
        "experiments": chosen.view_as(of_beam.DebugOptions).experiments or [],
        "environments": {
            name: _environment(environment)
            for name, environment in sorted(proto.components.environments.items())
        },
        "stages": sorted(_stages(proto), key=place),  # the optimizer's order may change
    }


def pipeline_proto(runner: Runner, build: Build) -> beam_runner_api_pb2.Pipeline:
    """Build a pipeline and return it as the runner would get it."""
    chosen = runner.beam_options
    pipeline = new_pipeline(chosen, FnApiRunner())
    build(pipeline)
    if runner.is_local:
        return pipeline.to_runner_api()
    environment = Environment.from_options(chosen.view_as(of_beam.PortableOptions))
    return pipeline.to_runner_api(default_environment=environment)


def _dataflow_job(
    runner: Runner, build: Build
) -> tuple[beam_runner_api_pb2.Pipeline, dict[str, Any]]:
    from apache_beam.runners.dataflow.internal import apiclient

    chosen = runner.beam_options
    chosen.view_as(of_beam.TestOptions).dry_run = True
    chosen.view_as(of_beam.GoogleCloudOptions).no_auth = True
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
    (pool,) = json_format.MessageToDict(environment.proto._pb)["workerPools"]
    images = pool["sdkHarnessContainerImages"]
    images.sort(key=lambda image: str(image["environmentId"]))
    for image in images:
        del image["capabilities"]  # thirty lines that are the same for every Beam worker
    return proto, pool


def _environment(environment: beam_runner_api_pb2.Environment) -> dict[str, Any]:
    description = {
        "kind": environment.urn,
        "hints": {
            urn.split(":")[-2]: value.decode() for urn, value in environment.resource_hints.items()
        },
        "staged": [
            beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(
                artifact.role_payload
            ).staged_name
            for artifact in environment.dependencies
            if artifact.role_urn == common_urns.artifact_roles.STAGING_TO.urn
        ],
    }
    if environment.urn == common_urns.environments.DOCKER.urn:
        payload = beam_runner_api_pb2.DockerPayload.FromString(environment.payload)
        description["image"] = payload.container_image
    if environment.urn == common_urns.environments.EXTERNAL.urn:
        external = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        description["address"] = external.endpoint.url
    return description


def _stages(proto: beam_runner_api_pb2.Pipeline) -> Iterator[dict[str, Any]]:
    _, stages = FnApiRunner().create_stages(proto)
    made_by = {
        collection: step.unique_name
        for step in proto.components.transforms.values()
        if not step.subtransforms
        for collection in step.outputs.values()
    }
    for stage in stages:
        steps = [step for step in stage.transforms if not step.spec.urn.startswith("beam:runner:")]
        inside = {collection for step in steps for collection in step.outputs.values()}
        outside = {read for step in stage.transforms for read in step.inputs.values()} - inside
        if steps:
            yield {
                "environment": stage.environment,
                "steps": [step.unique_name for step in steps],
                "reads": sorted({made_by[read] for read in outside & made_by.keys()}),
            }


def _steps(proto: beam_runner_api_pb2.Pipeline, ids: Iterable[str]) -> Iterator[str]:
    for name in ids:
        step = proto.components.transforms[name]
        yield step.unique_name
        yield from _steps(proto, step.subtransforms)
