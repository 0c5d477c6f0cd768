"""Worker processes of one machine are spread over its GPUs, however many it pretends to have."""

import os
from pathlib import Path

import apache_beam as beam
import pytest
import torch
from apache_beam.options.pipeline_options import PipelineOptions

from bertscore_beam.options.idf import IdfOptions
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run import devices
from bertscore_beam.run.devices import (
    VISIBLE,
    gpus_to_share,
    has_accelerator,
    variables_of_workers,
)
from bertscore_beam.run.local_runner import PROCESSES, LocalRunner
from bertscore_beam.run.runner import Runner


@pytest.fixture
def _three_gpus(monkeypatch, tmp_path):
    driver = tmp_path / "nvidiactl"
    driver.touch()
    monkeypatch.setattr(devices, "DRIVER_FILES", (str(driver),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv(VISIBLE, raising=False)


@pytest.mark.usefixtures("_three_gpus")
@pytest.mark.parametrize(
    ("device", "visible", "expected"),
    [
        ("cuda", None, ("0", "1", "2")),
        ("auto", None, ("0", "1", "2")),
        ("cuda", "5, 2,7", ("5", "2", "7")),
        ("cuda", "GPU-3f,MIG-a1,GPU-77", ("GPU-3f", "MIG-a1", "GPU-77")),
        ("cuda", "4,2,7,-1,3", ("4", "2", "7")),  # those after -1 are not counted
        ("cuda:1", None, ()),
        ("cpu", None, ()),
        ("mps", None, ()),
    ],
)
def test_gpus_are_named_as_this_process_sees_them(monkeypatch, device, visible, expected):
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert gpus_to_share(device) == expected


def test_a_gpu_is_looked_for_only_where_a_driver_is(monkeypatch, tmp_path):
    driver = tmp_path / "kfd"
    monkeypatch.setattr(devices, "DRIVER_FILES", (str(tmp_path / "dxg"), str(driver)))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert not any(has_accelerator(device) for device in ("auto", "cuda", "cuda:1", "cpu"))
    assert gpus_to_share("auto") == ()
    driver.touch()
    assert all(has_accelerator(device) for device in ("auto", "cuda", "cuda:1"))
    assert not has_accelerator("cpu")
    driver.unlink()
    monkeypatch.setattr("sys.platform", "darwin")  # whose GPU has no such file
    assert has_accelerator("auto")


def test_workers_take_gpus_in_turn_and_nothing_is_set_without_any():
    variables = variables_of_workers(["a", "b"])
    assert [next(variables) for _ in range(3)] == [{VISIBLE: "a"}, {VISIBLE: "b"}, {VISIBLE: "a"}]
    none = variables_of_workers([])
    assert [next(none) for _ in range(2)] == [{}, {}]


def runner_of(**options) -> Runner:
    return Runner.of(ScoreOptions(input=("in",), output="out", **options))


@pytest.mark.usefixtures("_three_gpus")
def test_every_gpu_gets_a_worker_by_default():
    runner = runner_of(device="cuda")
    assert (runner.workers, runner.gpus) == (3, ("0", "1", "2"))
    assert f"--direct_running_mode={PROCESSES}" in runner.flags
    assert "--direct_num_workers=3" in runner.flags
    assert runner.workers_of_a_device == 1
    assert runner_of(workers=7).workers_of_a_device == 3
    assert runner_of(workers=1).workers == 1  # in this process, on cuda:0


@pytest.mark.usefixtures("_three_gpus")
@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_one_worker_is_the_default_on_a_device_that_is_named(device):
    runner = runner_of(device=device)
    assert (runner.workers, runner.gpus) == (1, ())
    assert runner_of(device=device, workers=2).gpus == ()


@pytest.mark.usefixtures("_three_gpus")
def test_gpus_play_no_part_where_nothing_is_scored_here():
    assert Runner.of(IdfOptions(input=("in",), output="out")).workers == 1
    pool = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")
    for beam_flags in (pool, ("--runner=FlinkRunner",)):
        runner = runner_of(device="cuda", beam=beam_flags)
        assert (runner.workers, runner.gpus) == (1, ())
        assert runner.workers_of_a_device is None


def gpus_of_workers(_: int) -> str:
    """Return what each worker process of this one's parent sees."""
    seen = []
    for task in Path(f"/proc/{os.getppid()}/task").iterdir():
        for child in (task / "children").read_text().split():
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            if any(one.startswith(b"WORKER_ID=") for one in variables):
                named = dict(one.partition(b"=")[::2] for one in variables)
                seen.append(named[VISIBLE.encode()].decode())
    return " ".join(sorted(seen))


@pytest.mark.long
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_each_process_sees_one_gpu(tmp_path, monkeypatch):
    # Workers take no modules from the current folder, and one of this file's functions is run.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    options = PipelineOptions([f"--direct_running_mode={PROCESSES}", "--direct_num_workers=3"])
    pipeline = beam.Pipeline(runner=LocalRunner(gpus=("4", "GPU-b")), options=options)
    _ = (
        pipeline
        | beam.Create([0])
        | beam.Map(gpus_of_workers)
        | beam.Map(lambda seen: (tmp_path / "seen").write_text(seen))
    )
    pipeline.run().wait_until_finish()
    assert (tmp_path / "seen").read_text() == "4 4 GPU-b"
