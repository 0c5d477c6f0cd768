"""Every shipped config, taken as far as a job goes without a network: built, fused, described."""

import functools
import re
import shlex
from pathlib import Path

import pytest

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.cli.main import main
from bertscore_beam.options.flags import read_options
from bertscore_beam.options.score_options import IdfOptions, ScoreOptions
from bertscore_beam.options.values import load_yaml
from bertscore_beam.run.output import UNUSABLE
from tests.support.offline import refuse_connections
from tests.support.pipelines import describe, pipelines_of

FOLDER = Path(__file__).resolve().parents[3] / "configs"
CONFIGS = [
    path for verb in ("score", "idf", "baseline") for path in sorted(FOLDER.glob(f"{verb}/*.yaml"))
]
DATAFLOW = [path for path in CONFIGS if path.stem == "dataflow"]
GPU_CONFIGS = [path for path in DATAFLOW if path.parent.name != "idf"]
SCORE_DATAFLOW = FOLDER / "score" / "dataflow.yaml"
CARDS = [
    shlex.split(line)[4:]
    for line in (FOLDER / "README.md").read_text().splitlines()
    if line.startswith("bertscore-beam score --config my.yaml ")
]
"""Flags for each GPU, without the command and the config."""
OPTIONS = {"score": ScoreOptions, "idf": IdfOptions, "baseline": BaselineOptions}
JOBS = {"score": ["score"], "idf": ["idf"], "baseline": ["read", "pair", "score"]}
SCORING = {"score": "ScoreSplits/Work", "baseline": "ScorePairParts/Work"}
"""The transform that scores, in each job that does."""

builds = pytest.mark.job
"""For tests that build a pipeline."""


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


@functools.cache
def jobs_of(path, *flags):
    """Return the jobs that a config describes, built without a network.

    Taking a job through Dataflow's runner needs seconds, so each is built once for all tests. They
    only read it.
    """
    verb = path.parent.name
    options = read_options(OPTIONS[verb], ["--config", str(path), *flags], verb)
    with pytest.MonkeyPatch.context() as patch:
        refuse_connections(patch)
        return [
            {"name": one.name, **describe(one.runner, one.build)} for one in pipelines_of(options)
        ]


def scoring_stages(job, verb):
    """Return the stages that score: of `score` a quick one beside, which knows what to divide."""
    device = f"{SCORING[verb]}/OnDevice/"
    found = [
        stage for stage in job["stages"] if any(step.startswith(device) for step in stage["steps"])
    ]
    assert len(found) == (2 if verb == "score" else 1)
    return found


def hinted_stages(job, accelerator):
    """Return the stages that ask for a GPU; no other hint may be there."""
    hints = {name: found["hints"] for name, found in job["environments"].items()}
    assert all(found in ({}, {"accelerator": accelerator}) for found in hints.values())
    return [stage for stage in job["stages"] if hints[stage["environment"]]]


@builds
@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_config_is_built_without_network_input_or_model(path):
    """Workers elsewhere have all they need; nothing is staged. What scores reads a group by key."""
    verb, jobs = path.parent.name, jobs_of(path)
    assert [job["name"] for job in jobs] == JOBS[verb]
    for job in jobs:
        assert job["stages"]
        known = set(job["environments"]) | {""}
        assert {stage["environment"] for stage in job["stages"]} <= known
        for environment in job["environments"].values():
            if path in DATAFLOW:
                assert environment["kind"] == "beam:env:docker:v1"
                kind = "gpu" if verb in SCORING and job["name"] == "score" else "cpu"
                assert f"/bertscore-beam/{kind}:" in environment["image"]
            assert environment["staged"] == [] or path not in DATAFLOW
    if verb in SCORING:
        first, *_ = scoring_stages(jobs[-1], verb)
        assert first["steps"][0] == f"{SCORING[verb]}/OnDevice/TakeApart"
        assert first["reads"] == [f"{SCORING[verb]}/Spread"]


@builds
@pytest.mark.parametrize(
    ("path", "flags"), [(path, ()) for path in DATAFLOW] + [(SCORE_DATAFLOW, ("--idf", "corpus"))]
)
def test_the_gpu_is_asked_for_where_pairs_are_scored_and_nowhere_else(path, flags):
    verb = path.parent.name
    accelerator = load_yaml(str(path)).get("accelerator")
    for job in jobs_of(path, *flags):
        scores = scoring_stages(job, verb) if job["name"] == "score" else []
        assert hinted_stages(job, accelerator) == scores
        assert all("/OnDevice/" in step for stage in scores for step in stage["steps"])


@builds
def test_the_flags_for_each_card_ask_for_that_card_and_its_machines():
    """The configs have those of one of them."""
    same = []
    for flags in CARDS:
        (job,) = jobs_of(SCORE_DATAFLOW, *flags)
        options = read_options(ScoreOptions, ["--config", str(SCORE_DATAFLOW), *flags], "test")
        assert options.accelerator == flags[flags.index("--accelerator") + 1]
        assert hinted_stages(job, options.accelerator) == scoring_stages(job, "score")
        machines = int(options.beam[-1].partition("=")[2])
        assert job["workers"]["numWorkers"] == machines
        assert job["workers"]["autoscalingSettings"]["maxNumWorkers"] == machines
        if [job] == jobs_of(SCORE_DATAFLOW):
            same.append((options.dtype, options.split_rows, options.accelerator))
    given = load_yaml(str(SCORE_DATAFLOW))
    assert same == [(given["dtype"], given["split_rows"], given["accelerator"])]
    assert load_yaml(str(FOLDER / "baseline/dataflow.yaml"))["accelerator"] == given["accelerator"]


@builds
@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
def test_the_worker_pool_is_the_one_that_the_config_says(path):
    """On each machine is one process, with some threads."""
    job, options = jobs_of(path)[-1], load_yaml(str(path))
    pool = job["workers"]
    assert "no_use_multiple_sdk_containers" in job["experiments"]
    assert pool["numThreadsPerWorker"] == (4 if path == SCORE_DATAFLOW else 2)
    said = dict(flag.split("=", 1) for flag in (*options["beam"], *options.get("beam_scoring", ())))
    assert pool["machineType"] == said["--machine_type"]
    assert pool["diskSizeGb"] == int(said["--disk_size_gb"])
    assert pool["numWorkers"] == int(said["--num_workers"])
    assert pool["autoscalingSettings"] == {
        "algorithm": f"AUTOSCALING_ALGORITHM_{said['--autoscaling_algorithm']}",
        "maxNumWorkers": int(said["--max_num_workers"]),
    }
    images = {image["containerImage"] for image in pool["sdkHarnessContainerImages"]}
    assert images == {said["--sdk_container_image"]}


@pytest.mark.parametrize("path", DATAFLOW, ids=name_of)
def test_placeholders_are_not_submitted(path, capsys, no_network):
    assert main([path.parent.name, "--config", str(path)]) == UNUSABLE
    said = capsys.readouterr().err
    assert re.search(r"is a placeholder of the config: got .*your-", said)
