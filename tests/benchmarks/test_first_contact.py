"""First contact with a GPU, tried without one."""

import argparse
import json
import time
from importlib.metadata import distributions
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.benchmarks import gpu
from tests.benchmarks.first_contact import gpu_tests, kit, speed
from tests.benchmarks.first_contact.kit import in_8_bits, spread_out
from tests.benchmarks.harness import FAIL, PASS, SKIP, Recorder, verdict
from tests.benchmarks.table import read_results


def test_part_fails_with_any_failure_and_passes_if_anything_was_seen(tmp_path):
    recorder = Recorder("some", tmp_path / "some.jsonl")
    assert verdict(recorder.lines) == SKIP
    recorder.skip("a", "no device")
    assert verdict(recorder.lines) == SKIP
    recorder.add(what="b", rate=2.5)
    assert verdict(recorder.lines) == PASS
    with recorder.guarded("c"):
        raise RuntimeError("CUDA error: out of luck\nadvice")
    recorder.check("d", passed=True)
    assert verdict(recorder.lines) == FAIL
    read = read_results([tmp_path / "some.jsonl"])
    assert [line.get("status") for line in read] == [SKIP, None, FAIL, PASS]
    assert read[2]["why"] == "RuntimeError: CUDA error: out of luck"


def test_each_half_stays_below_ten_minutes_and_both_are_all_parts():
    assert [part for half in gpu.HALVES.values() for part in half] == list(gpu.PARTS)
    for parts in gpu.HALVES.values():
        assert sum(gpu.PARTS[part][1] for part in parts) < 10 * 60


@pytest.mark.parametrize("outcomes", [{}, {"a": "passed", "b": "failed", "c": "skipped"}])
def test_results_of_gpu_tests_are_kept_when_the_time_is_over(tmp_path, outcomes):
    results = tmp_path / "ended_tests"
    if outcomes:
        lines = [{"collected": 4}]
        for name, outcome in outcomes.items():
            test = f"tests/core/test_gpu.py::{name}"
            lines.append({"test": test, "outcome": outcome, "why": "E", "seconds": 1})
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorder = Recorder("gpu_tests")
    gpu_tests.report(recorder, results, "the time is over", on_gpu=True)
    statuses = {"passed": PASS, "failed": FAIL, "skipped": SKIP}
    assert {line["what"]: line["status"] for line in recorder.lines} == {
        **{f"test_gpu.py::{name}": statuses[outcome] for name, outcome in outcomes.items()},
        "all tests marked gpu have ended": FAIL,
    }


def test_checkout_says_its_version_without_being_installed(tmp_path):
    gpu.write_metadata(tmp_path)
    (found,) = distributions(path=[str(tmp_path)])
    (installed,) = distributions(name="bertscore-beam", path=[str(tmp_path)])
    assert found.metadata["Name"] == "bertscore-beam"
    assert installed.version in (kit.ROOT / "pyproject.toml").read_text()


def test_model_of_a_kit_comes_back_in_float32_nearly_as_it_was(tmp_path):
    generator = torch.Generator().manual_seed(0)
    weights = {
        "matrix": torch.randn(30, 20, generator=generator),
        "bias": torch.randn(20, generator=generator),
        "ids": torch.arange(4)[None],
        "row of zeros": torch.zeros(2, 3),
    }
    small = {}
    for name, values in weights.items():
        small |= in_8_bits(name, values)
    kit = tmp_path / "kit"
    kit.mkdir()
    (kit / "config.json").write_text("{}")
    save_file(small, kit / "model.safetensors")
    assert small["matrix"].dtype == torch.int8
    spread_out(kit, tmp_path / "model")
    found = load_file(tmp_path / "model" / "model.safetensors")
    assert (tmp_path / "model" / "config.json").exists()
    assert found.keys() == weights.keys()
    for name in ("bias", "ids", "row of zeros"):
        assert torch.equal(found[name], weights[name])
    limit = weights["matrix"].abs().amax(dim=1, keepdim=True) / 254
    assert ((found["matrix"] - weights["matrix"]).abs() <= limit * 1.001).all()


def test_idle_time_is_what_no_kernel_covers():
    def kernel(name, start, end):
        span = SimpleNamespace(start=start, end=end)
        return SimpleNamespace(
            name=name, device_type=torch.autograd.DeviceType.CUDA, time_range=span
        )

    recorder = Recorder("profiled")
    events = [
        kernel("long gemm", 0, 50),
        kernel("within it", 10, 20),
        kernel("flash", 80, 100),
        SimpleNamespace(name="of the host", device_type=torch.autograd.DeviceType.CPU),
    ]
    speed.report_kernels(recorder, "model", events)
    kernels, busy = recorder.lines
    assert kernels["kernels"] == 3
    assert kernels["attention_kernels"] == ["flash"]
    assert busy["idle"] == pytest.approx(0.3)
    assert busy["status"] == FAIL


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((9, 0), True), ((8, 9), True), ((8, 0), True), ((7, 5), False), ((10, 0), False)],
)
def test_device_runs_code_of_its_own_generation(capability, expected):
    built = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_103", "compute_120"]
    assert speed.is_built_for(capability, built) is expected


def arguments(out, *only, **options):
    flags = {"device": "cpu", "quick": True, "time_factor": 1.0, "kit": out / "none"}
    return argparse.Namespace(out=out, only=only, **(flags | options))


@pytest.mark.process
def test_part_that_takes_too_long_is_ended_and_fails(tmp_path):
    begun = time.monotonic()
    assert gpu.run(arguments(tmp_path, "card", time_factor=1e-3)) == 1
    assert time.monotonic() - begun < 60
    (*_, last) = read_results([tmp_path / "card.jsonl"])
    assert last["status"] == FAIL
    assert "took more than its" in last["why"]


@pytest.mark.long
@pytest.mark.process
def test_all_parts_run_on_a_cpu_as_far_as_they_go(tmp_path, capfd):
    """With times that a busy machine keeps to."""
    status = sum(gpu.run(arguments(tmp_path, half, time_factor=10)) for half in gpu.HALVES)
    said = capfd.readouterr().out
    lines = read_results(tmp_path.glob("*.jsonl"))
    assert [line for line in lines if line.get("status") == FAIL] == []
    assert status == 0
    assert {line["benchmark"] for line in lines} == set(gpu.PARTS)
    passed = gpu.PARTS.keys() - {"profiled"}  # of which a CPU has nothing
    assert all(f"PASS {name}, " in said for name in passed)
    assert "SKIP  the card  no CUDA device was asked for" in said
    assert "predicted" in said
