"""Which runner a job gets, and how cores are shared."""

import os
from contextlib import nullcontext

import pytest
from apache_beam.options.pipeline_options import DirectOptions, PortableOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.run.pool import Pool
from bertscore_beam.run.runner import Runner
from bertscore_core import ConfigError


def options(*beam, workers=1, **given):
    return ScoreOptions(input=("in",), output="out", workers=workers, beam=beam, **given)


@pytest.mark.parametrize("flags", [(), ("--runner=FnApiRunner",)])
def test_default_is_the_runner_that_needs_no_download_and_starts_no_workers(flags):
    runner = Runner.of(options(*flags, workers=3))
    chosen = runner.beam_options
    assert chosen.view_as(StandardOptions).runner == "FnApiRunner"
    assert chosen.view_as(DirectOptions).direct_running_mode == "in_memory"
    assert type(runner.pipeline().runner) is FnApiRunner


@pytest.mark.usefixtures("children")
@pytest.mark.parametrize(
    ("given", "restarts", "processes"),
    [
        ({}, 1, 1),
        ({"restarts": 0}, 0, 0),
        ({"restarts": 0, "workers": 2}, 0, 2),
        ({"restarts": 0, "device": "cuda:1"}, 0, 1),
        ({"restarts": 5, "workers": 3}, 5, 3),
    ],
)
def test_the_work_is_done_by_children_unless_none_is_needed(
    monkeypatch, given, restarts, processes
):
    monkeypatch.setattr("bertscore_beam.run.gpus.DRIVER_FILES", (__file__,))
    runner = Runner.of(options(**{"device": "cpu", **given}))
    assert (runner.restarts, runner.children) == (restarts, processes)


def test_other_runners_have_no_children_here_and_refuse_restarts_that_are_given(monkeypatch):
    monkeypatch.setattr("bertscore_beam.run.beam_options.check_service", lambda *_: None)
    runner = Runner.of(options("--runner=PortableRunner", workers=3))
    assert (runner.restarts, runner.children) == (0, 0)
    for restarts in (None, 0, 1):
        chosen = options("--runner=PortableRunner", restarts=restarts)
        refused = pytest.raises(ConfigError, match=r"--restarts .* runner 'portable': got 1")
        with refused if restarts else nullcontext():
            runner.check(chosen)


@pytest.mark.parametrize("runner", [(), ("--runner=FnApiRunner",), ("--runner=DirectRunner",)])
@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        (("--direct_num_workers=2",), "give --workers"),
        (("--direct_running_mode", "in_memory"), "give --workers"),
        (("--environment_type=EXTERNAL",), "inside the container, with --workers"),
        (("--environment_config=localhost:1",), "inside the container, with --workers"),
    ],
)
def test_other_workers_of_this_machine_are_refused_by_name(runner, flags, cure):
    name = flags[0].partition("=")[0]
    with pytest.raises(ConfigError, match=f"^{name} cannot be used.*{cure}"):
        Runner.of(options(*runner, *flags))


@pytest.mark.parametrize(
    ("flags", "runner"),
    [
        (("--runner=DataflowRunner",), "DataflowRunner"),
        (("--runner", "DataflowRunner"), "DataflowRunner"),
        (("--runner=FnApiRunner", "--runner=PortableRunner"), "PortableRunner"),
        (("--runner=PortableRunner", "--some_option=3"), "PortableRunner"),  # of its job server
        (("--runner=DataflowRunner", "--runner=FnApiRunner"), "FnApiRunner"),
    ],
)
def test_the_last_runner_counts_as_it_does_for_beam_and_decides_about_threads(flags, runner):
    chosen = Runner.of(options(*flags))
    assert chosen.beam_options.view_as(StandardOptions).runner == runner
    assert chosen.is_local == (runner == "FnApiRunner") == (chosen.threads is not None)


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [((), 315_360_000), (("--job_server_timeout=5",), 5), (("--job-server-timeout", "5"), 5)],
)
def test_a_job_may_last_for_years_unless_a_limit_is_asked_for(flags, seconds):
    chosen = Runner.of(options("--runner=PortableRunner", *flags)).beam_options
    assert chosen.view_as(PortableOptions).job_server_timeout == seconds


@pytest.mark.parametrize(
    ("flags", "given", "threads"),
    [
        (("--runner=DataflowRunner",), {}, 1),
        (("--runner=DataflowRunner",), {"threads": 3}, 3),
        (("--runner=DataflowRunner", "--experiments=no_use_multiple_sdk_containers"), {}, None),
        (("--runner=PortableRunner",), {}, None),
        (("--runner=PortableRunner",), {"threads": 2}, 2),
    ],
)
def test_threads_of_workers_elsewhere_follow_from_how_many_processes_a_machine_has(
    flags, given, threads
):
    assert Runner.of(options(*flags, **given)).threads_elsewhere == threads


FOUR = ("--runner=DataflowRunner", "--max_num_workers=4")


@pytest.mark.parametrize(
    ("flags", "runs"),
    [
        ((), 6),
        (("--number_of_worker_harness_threads=4",), 24),
        (FOUR, 64),
        (
            ("--runner=DataflowRunner", "--num_workers=4", "--number_of_worker_harness_threads=4"),
            64,
        ),
        (("--runner=PortableRunner",), None),
    ],
)
def test_machines_elsewhere_get_more_runs_each_than_workers_here(flags, runs):
    """They start minutes apart; threads that share a GPU of theirs are one of them."""
    assert Runner.of(options(*flags, workers=3)).num_chunks == runs


@pytest.mark.parametrize("runner", [(), ("--runner=DataflowRunner",)])
def test_unknown_beam_option_names_the_nearest(runner):
    with pytest.raises(ConfigError, match=r"'--direct_num_wrkers=2'.*mean --direct_num_workers\?"):
        Runner.of(options(*runner, "--direct_num_wrkers=2"))


@pytest.mark.parametrize(
    "runner",
    ["DaskRunner", "dask", "apache_beam.runners.dask.DaskRunner", "BundleBasedDirectRunner"],
)
def test_runner_that_loses_something_is_refused_with_the_reason(runner):
    with pytest.raises(ConfigError, match="it loses"):
        Runner.of(options(f"--runner={runner}"))


@pytest.mark.parametrize("runner", ["FlinkRunner", "SparkRunner"])
def test_runner_that_has_never_run_a_job_is_refused_with_what_to_try(runner):
    with pytest.raises(ConfigError, match=r"no job has ever run on it.*PortableRunner"):
        Runner.of(options(f"--runner={runner}", "--some_option=3"))


@pytest.mark.parametrize(("workers", "threads"), [(1, "8"), (3, "2"), (9, "1")])
def test_threads_of_all_workers_together_are_the_cores_unless_the_user_has_chosen(
    monkeypatch, workers, threads
):
    """Rayon runs the tokenizers. Nothing else may stop its threads, also not in one worker."""
    monkeypatch.setattr("bertscore_beam.run.runner.usable_cores", lambda: 8)
    monkeypatch.setattr("tests.conftest.THREADS", 8)
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": "5"})
    pool = Pool(workers, restarts=0, threads=Runner.of(options(workers=workers)).threads)
    variables = pool.environment(0)
    assert (variables["RAYON_NUM_THREADS"], variables["OMP_NUM_THREADS"]) == (threads, "5")
    assert not {"TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES"} & variables.keys()


def test_a_value_that_beam_refuses_is_refused_before_any_work():
    """Beam itself looks only when a pipeline is made, and the folder has been changed by then."""
    pair = ("--environment_config=x", "--environment_options=docker_container_image=y")
    chosen = options("--runner=PortableRunner", "--environment_type=DOCKER", *pair)
    with pytest.raises(ConfigError, match="environment_config is incompatible with"):
        Runner.of(chosen).check(chosen)
