"""Which runner a job gets, and how cores are shared."""

import os

import pytest
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

from bertscore_core import ConfigError
from pipelines.options import ScoreOptions
from pipelines.runners import beam_options, is_local, threads_per_worker


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


@pytest.mark.parametrize("runner", ["DaskRunner", "BundleBasedDirectRunner"])
def test_runner_that_loses_something_is_refused_with_the_reason(runner):
    with pytest.raises(ConfigError, match="it loses"):
        beam_options(options(f"--runner={runner}"))


def test_cores_are_shared_out_among_workers():
    cores = len(os.sched_getaffinity(0))
    assert threads_per_worker(options()) == cores
    assert threads_per_worker(options(workers=cores * 5)) == 1
