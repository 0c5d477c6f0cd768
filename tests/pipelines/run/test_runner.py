"""Which runner a job gets, and how cores are shared."""

import os

import pytest
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run.runner import Runner, usable_cores
from bertscore_beam.run.workers import share_cores
from bertscore_core import ConfigError


def options(*beam, workers=1):
    return ScoreOptions(input=("in",), output="out", workers=workers, beam=beam)


def test_default_is_the_runner_that_needs_no_download():
    chosen = Runner.of(options()).beam_options
    assert chosen.view_as(StandardOptions).runner == "FnApiRunner"
    assert chosen.view_as(DirectOptions).direct_running_mode == "in_memory"


def test_several_workers_are_processes():
    chosen = Runner.of(options(workers=3)).beam_options.view_as(DirectOptions)
    assert (chosen.direct_running_mode, chosen.direct_num_workers) == ("multi_processing", 3)


@pytest.mark.parametrize("flags", [("--runner=DataflowRunner",), ("--runner", "DataflowRunner")])
def test_given_runner_is_kept_and_decides_about_threads(flags):
    chosen = options(*flags, workers=3)
    assert Runner.of(chosen).beam_options.view_as(StandardOptions).runner == "DataflowRunner"
    assert not Runner.of(chosen).is_local
    assert Runner.of(chosen).threads is None


def test_workers_count_when_the_local_runner_is_named():
    chosen = Runner.of(options("--runner=FnApiRunner", workers=2)).beam_options.view_as(
        DirectOptions
    )
    assert (chosen.direct_running_mode, chosen.direct_num_workers) == ("multi_processing", 2)


@pytest.mark.parametrize("runner", [(), ("--runner=DataflowRunner",)])
def test_unknown_beam_option_names_the_nearest(runner):
    with pytest.raises(ConfigError, match=r"'--direct_num_wrkers=2'.*mean --direct_num_workers\?"):
        Runner.of(options(*runner, "--direct_num_wrkers=2"))


def test_options_of_a_job_server_pass():
    flags = ("--runner=FlinkRunner", "--some_flink_option=3")
    assert Runner.of(options(*flags)).beam_options.view_as(StandardOptions).runner == "FlinkRunner"


@pytest.mark.parametrize(
    "runner",
    ["DaskRunner", "dask", "apache_beam.runners.dask.DaskRunner", "BundleBasedDirectRunner"],
)
def test_runner_that_loses_something_is_refused_with_the_reason(runner):
    with pytest.raises(ConfigError, match="it loses"):
        Runner.of(options(f"--runner={runner}"))


def test_cores_are_shared_out_among_workers():
    cores = usable_cores()
    assert Runner.of(options()).threads == cores
    assert Runner.of(options(workers=cores * 5)).threads == 1


@pytest.mark.parametrize("name", ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"])
@pytest.mark.parametrize(("workers", "threads"), [(1, "8"), (3, "2"), (9, "1")])
def test_threads_of_all_workers_together_are_the_cores(monkeypatch, name, workers, threads):
    """Rayon runs the tokenizers. Nothing else may stop its threads, also not in one worker."""
    monkeypatch.setattr("bertscore_beam.run.runner.usable_cores", lambda: 8)
    monkeypatch.setattr(os, "environ", {})
    share_cores(Runner.of(options(workers=workers)))
    assert os.environ[name] == threads
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_threads_that_the_user_chose_are_kept(monkeypatch):
    monkeypatch.setattr(os, "environ", {"RAYON_NUM_THREADS": "5"})
    share_cores(Runner.of(options(workers=2)))
    assert os.environ["RAYON_NUM_THREADS"] == "5"


def test_a_value_that_beam_refuses_is_refused_before_any_work():
    """Beam itself looks only when a pipeline is made, and the folder has been changed by then."""
    pair = ("--environment_config=x", "--environment_options=docker_container_image=y")
    chosen = options("--runner=FlinkRunner", "--environment_type=DOCKER", *pair)
    with pytest.raises(ConfigError, match="environment_config is incompatible with"):
        Runner.of(chosen).check(chosen)
