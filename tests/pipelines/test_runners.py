"""Which runner a job gets, and how cores are shared."""

import pytest
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

from bertscore_core import ConfigError
from pipelines.options import ScoreOptions
from pipelines.runners import beam_options, is_local, threads_per_worker, usable_cores


def options(*beam, workers=1):
    return ScoreOptions(input=("in",), output="out", workers=workers, beam=beam)


def test_default_is_the_runner_that_needs_no_download():
    chosen = beam_options(options())
    assert chosen.view_as(StandardOptions).runner == "FnApiRunner"
    assert chosen.view_as(DirectOptions).direct_running_mode == "in_memory"


def test_several_workers_are_processes():
    chosen = beam_options(options(workers=3)).view_as(DirectOptions)
    assert (chosen.direct_running_mode, chosen.direct_num_workers) == ("multi_processing", 3)


@pytest.mark.parametrize("flags", [("--runner=DataflowRunner",), ("--runner", "DataflowRunner")])
def test_given_runner_is_kept_and_decides_about_threads(flags):
    chosen = options(*flags, workers=3)
    assert beam_options(chosen).view_as(StandardOptions).runner == "DataflowRunner"
    assert not is_local(chosen)
    assert threads_per_worker(chosen) is None


def test_workers_count_when_the_local_runner_is_named():
    chosen = beam_options(options("--runner=FnApiRunner", workers=2)).view_as(DirectOptions)
    assert (chosen.direct_running_mode, chosen.direct_num_workers) == ("multi_processing", 2)


@pytest.mark.parametrize("runner", [(), ("--runner=DataflowRunner",)])
def test_unknown_beam_option_names_the_nearest(runner):
    with pytest.raises(ConfigError, match=r"'--direct_num_wrkers=2'.*mean --direct_num_workers\?"):
        beam_options(options(*runner, "--direct_num_wrkers=2"))


def test_options_of_a_job_server_pass():
    flags = ("--runner=FlinkRunner", "--some_flink_option=3")
    assert beam_options(options(*flags)).view_as(StandardOptions).runner == "FlinkRunner"


@pytest.mark.parametrize(
    "runner",
    ["DaskRunner", "dask", "apache_beam.runners.dask.DaskRunner", "BundleBasedDirectRunner"],
)
def test_runner_that_loses_something_is_refused_with_the_reason(runner):
    with pytest.raises(ConfigError, match="it loses"):
        beam_options(options(f"--runner={runner}"))


def test_cores_are_shared_out_among_workers():
    cores = usable_cores()
    assert threads_per_worker(options()) == cores
    assert threads_per_worker(options(workers=cores * 5)) == 1
