"""Worker processes of one machine are spread over its GPUs, however many it pretends to have."""

import ctypes
import sys

import pytest
import torch

from bertscore_beam.options.score_options import IdfOptions, ScoreOptions
from bertscore_beam.run import gpus
from bertscore_beam.run.gpus import VISIBLE, gpus_to_share, has_accelerator
from bertscore_beam.run.pool import Pool
from bertscore_beam.run.runner import Runner


@pytest.fixture
def _three_gpus(monkeypatch, tmp_path):
    driver = tmp_path / "nvidiactl"
    driver.touch()
    monkeypatch.setattr(gpus, "DRIVER_FILES", (str(driver),))
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
    monkeypatch.setattr(gpus, "DRIVER_FILES", (str(tmp_path / "dxg"), str(driver)))
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


class Driver:
    """CUDA's driver library, with two GPUs or an error."""

    def __init__(self, status: int) -> None:
        self._status = status

    def cuInit(self, flags):
        assert flags == 0
        return self._status

    def cuDeviceGetCount(self, count):
        count._obj.value = 2
        return 0


@pytest.mark.parametrize(
    ("built_for", "status", "number"), [("'13.0'", 0, 2), ("'13.0'", 100, 0), ("None", 0, 0)]
)
def test_gpus_are_counted_by_the_driver_if_torch_is_built_for_it(
    monkeypatch, tmp_path, built_for, status, number
):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('it takes seconds')")
    (tmp_path / "torch" / "version.py").write_text(f"cuda: str | None = {built_for}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": Driver(status)}.__getitem__)
    assert gpus._gpus_of_driver() == number


def test_workers_take_gpus_in_turn():
    pool = Pool(3, restarts=0, gpus=["a", "b"])
    assert [pool.environment(number)[VISIBLE] for number in range(3)] == ["a", "b", "a"]


ALL = ("0", "1", "2")
SEVEN = {"beam": ("--number_of_worker_harness_threads=7",)}


@pytest.mark.usefixtures("_three_gpus")
@pytest.mark.parametrize(
    ("given", "workers", "gpus", "workers_of_a_device", "at_once"),
    [
        ({"device": "cuda"}, 3, ALL, 1, 4),
        ({}, 3, ALL, 1, 4),
        ({"workers": 7}, 7, ALL, 3, 4),
        ({"workers": 1}, 1, ALL, 1, 4),
        ({"device": "cpu"}, 1, (), 1, 1),
        ({"device": "cpu", "workers": 2}, 2, (), 2, 1),
        ({"device": "cuda:1"}, 1, (), 1, 4),
        ({"device": "cuda:1", "workers": 2}, 2, (), 2, 4),
        (SEVEN, 3, ALL, 1, 7),
        ({"device": "cpu", **SEVEN}, 1, (), 1, 7),
        ({"device": "cuda", "beam": ("--runner=PortableRunner",)}, 1, (), None, 4),
    ],
)
def test_every_gpu_gets_a_worker_and_a_worker_of_a_gpu_several_splits_at_once(
    given, workers, gpus, workers_of_a_device, at_once
):
    runner = Runner.of(ScoreOptions(input=("in",), output="out", **given))
    assert (runner.workers, runner.gpus) == (workers, gpus)
    assert (runner.workers_of_a_device, runner.at_once) == (workers_of_a_device, at_once)


@pytest.mark.usefixtures("_three_gpus")
def test_gpus_are_not_used_where_nothing_is_scored():
    runner = Runner.of(IdfOptions(input=("in",), output="out"))
    assert (runner.workers, runner.gpus, runner.at_once) == (1, (), 1)
