"""Every shipped config, taken as far as a job goes without a network: built, fused, described."""

import contextlib
import functools
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.options import ScoreOptions, load_yaml, read_options
from bertscore_beam.run import DONE, UNUSABLE
from tests.support.offline import refuse_connections

ROOT = Path(__file__).resolve().parents[3]
VERBS = ("score", "idf", "baseline")
CONFIGS = [path for verb in VERBS for path in sorted((ROOT / "configs" / verb).glob("*.yaml"))]
DATAFLOW = [path for path in CONFIGS if path.stem == "dataflow"]
GPU_CONFIGS = [path for path in DATAFLOW if path.parent.name != "idf"]
SCORE_DATAFLOW = ROOT / "configs" / "score" / "dataflow.yaml"
PORTABLE = [path for path in CONFIGS if path.stem in ("flink", "spark")]
CARDS = [
    shlex.split(line)[4:]
    for line in (ROOT / "configs" / "README.md").read_text().splitlines()
    if line.startswith("bertscore-beam score --config my.yaml ")
]
"""Flags for each GPU, without the command and the config."""
JOBS = {
    "score": ["score"],
    "idf": ["idf"],
    "baseline": ["read", "sample", "pair", "score"],
}
SCORING = {"score": "ScoreSplits", "baseline": "ScorePairParts"}
"""The transform that scores, in each job that does."""

builds = pytest.mark.job
"""For tests that build a pipeline."""


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


@functools.cache
def print_job(path, *flags):
    """Return the jobs that a config describes, built without a network.

    Taking a job through Dataflow's runner needs seconds, so each is built once for all tests. They
    only read it.
    """
    arguments = [path.parent.name, "--config", str(path), "--print-job", *flags]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        refuse_connections(patch)
        assert main(arguments) == DONE
    return json.loads(printed.getvalue())["jobs"]


def scoring_stage(job, verb):
    step = f"{SCORING[verb]}/OnDevice/Run"
    (stage,) = [stage for stage in job["stages"] if step in stage["steps"]]
    return stage


def scoring_job(jobs):
    return next(job for job in jobs if job["name"] == "score")


def hinted_stages(job, accelerator):
    """Return the stages that ask for a GPU; no other hint may be there."""
    environments = job["environments"]
    assert all(
        environment["hints"] in ({}, {"accelerator": accelerator})
        for environment in environments.values()
    )
    return [stage for stage in job["stages"] if environments[stage["environment"]]["hints"]]


@builds
@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_config_is_built_without_network_input_or_model(path):
    """Workers elsewhere have what they need: nothing is staged."""
    jobs = print_job(path)
    assert [job["name"] for job in jobs] == JOBS[path.parent.name]
    for job in jobs:
        assert job["stages"]
        known = set(job["environments"]) | {""}
        assert {stage["environment"] for stage in job["stages"]} <= known
        assert len(job["environments"]) == 1 or path not in PORTABLE
        for environment in job["environments"].values():
            if path in PORTABLE:
                assert environment["kind"] == "beam:env:external:v1"
                assert environment["address"] == "localhost:50000"
            if path in DATAFLOW:
                assert environment["kind"] == "beam:env:docker:v1"
                kind = "cpu" if path.parent.name == "idf" else "gpu"
                assert f"/bertscore-beam/{kind}:" in environment["image"]
            assert environment["staged"] == [] or path not in (*PORTABLE, *DATAFLOW)


@pytest.mark.parametrize("path", PORTABLE, ids=name_of)
def test_the_first_line_of_an_engine_never_run_says_so(path):
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# What was run: ")
    assert first.endswith(f"What was not: {path.stem.capitalize()}.")


@builds
@pytest.mark.parametrize(
    ("path", "flags"),
    [(path, ()) for path in GPU_CONFIGS] + [(SCORE_DATAFLOW, ("--idf", "corpus"))],
    ids=["score", "baseline", "score with idf"],
)
def test_the_gpu_is_asked_for_where_pairs_are_scored_and_nowhere_else(path, flags):
    verb = path.parent.name
    accelerator = load_yaml(str(path))["accelerator"]
    for job in print_job(path, *flags):
        scores = [scoring_stage(job, verb)] if job["name"] == "score" else []
        assert hinted_stages(job, accelerator) == scores


@builds
@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.parent.name in SCORING], ids=name_of
)
def test_the_stage_that_scores_reads_a_group_by_key(path):
    name = SCORING[path.parent.name]
    stage = scoring_stage(scoring_job(print_job(path)), path.parent.name)
    assert stage["steps"][:2] == [f"{name}/OnDevice/TakeApart", f"{name}/OnDevice/Run"]
    assert stage["reads"] == [f"{name}/Spread"]
    if path in GPU_CONFIGS:
        assert len(stage["steps"]) == 2


@builds
@pytest.mark.parametrize("flags", CARDS, ids=lambda flags: re.split("[:;]", flags[5])[1])
def test_the_flags_for_each_card_ask_for_that_card_and_its_machines(flags):
    (job,) = print_job(SCORE_DATAFLOW, *flags)
    options = read_options(ScoreOptions, ["--config", str(SCORE_DATAFLOW), *flags], "test")
    assert options.accelerator == flags[flags.index("--accelerator") + 1]
    assert hinted_stages(job, options.accelerator) == [scoring_stage(job, "score")]
    machines = int(options.beam[-1].partition("=")[2])
    assert job["workers"]["numWorkers"] == machines
    assert job["workers"]["autoscalingSettings"]["maxNumWorkers"] == machines


@builds
def test_the_card_of_the_config_is_one_of_those_with_flags():
    same = [
        flags for flags in CARDS if print_job(SCORE_DATAFLOW, *flags) == print_job(SCORE_DATAFLOW)
    ]
    options = load_yaml(str(SCORE_DATAFLOW))
    ((_, dtype, _, rows, _, accelerator, *_),) = same
    assert (dtype, int(rows), accelerator) == (
        options["dtype"],
        options["split_rows"],
        options["accelerator"],
    )
    assert (
        load_yaml(str(ROOT / "configs" / "baseline" / "dataflow.yaml"))["accelerator"]
        == accelerator
    )


@builds
@pytest.mark.parametrize("path", GPU_CONFIGS, ids=name_of)
def test_the_worker_pool_is_the_one_that_the_config_says(path):
    """On each machine is one process, with some threads."""
    job = scoring_job(print_job(path))
    pool, options = job["workers"], load_yaml(str(path))
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


@builds
def test_the_idf_job_asks_for_no_gpu():
    (job,) = print_job(ROOT / "configs" / "idf" / "dataflow.yaml")
    assert all(not environment["hints"] for environment in job["environments"].values())
    steps = [step for stage in job["stages"] for step in stage["steps"]]
    assert "CountDocumentFrequencies/CountSplit" in steps
    assert job["workers"]["autoscalingSettings"] == {"maxNumWorkers": 10}


@pytest.mark.parametrize("path", [*DATAFLOW, *PORTABLE], ids=name_of)
def test_placeholders_are_not_submitted(path, capsys, no_network):
    status = main([path.parent.name, "--config", str(path)])
    assert status == UNUSABLE
    said = capsys.readouterr().err
    assert "is a placeholder of the config: got" in said
    assert "your-" in said
