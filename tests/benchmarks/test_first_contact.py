"""First contact with a GPU, tried without one."""

import argparse
import json
import time
from importlib.metadata import distributions
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.benchmarks import gpu
from tests.benchmarks.first_contact import gpu_tests, kit, speed, works
from tests.benchmarks.first_contact.kit import in_8_bits, spread_out
from tests.benchmarks.first_contact.report import (
    FAIL,
    NOTE,
    PASS,
    SKIP,
    Checks,
    conclusion,
    read_findings,
    verdict,
)


def test_part_fails_with_any_failure_and_passes_if_anything_was_seen(tmp_path):
    checks = Checks("some", tmp_path / "some.jsonl")
    assert verdict(checks.findings) == SKIP
    checks.skip("a", "no device")
    assert verdict(checks.findings) == SKIP
    checks.note("b", rate=2.5)
    assert verdict(checks.findings) == PASS
    with checks.guarded("c"):
        raise RuntimeError("CUDA error: out of luck\nadvice")
    checks.check("d", passed=True)
    assert verdict(checks.findings) == FAIL
    read = read_findings(tmp_path / "some.jsonl")
    assert read == checks.findings
    assert [finding.status for finding in read] == [SKIP, NOTE, FAIL, PASS]
    assert read[2].why == "RuntimeError: CUDA error: out of luck"


def test_each_half_stays_below_ten_minutes_and_both_are_all_parts():
    assert [part for half in gpu.HALVES.values() for part in half] == list(gpu.PARTS)
    for parts in gpu.HALVES.values():
        assert sum(gpu.PARTS[part][1] for part in parts) < 10 * 60


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ["FAIL all tests marked gpu have ended"]),
        (
            [
                {"collected": 4},
                {"test": "tests/core/test_gpu.py::a", "outcome": "passed", "why": "", "seconds": 1},
                {
                    "test": "tests/core/test_gpu.py::b",
                    "outcome": "failed",
                    "why": "E",
                    "seconds": 1,
                },
                {"test": "tests/core/test_gpu.py::c", "outcome": "skipped", "why": "old"},
            ],
            [
                "PASS test_gpu.py::a",
                "FAIL test_gpu.py::b",
                "SKIP test_gpu.py::c",
                "FAIL all tests marked gpu have ended",
            ],
        ),
    ],
)
def test_results_of_gpu_tests_are_kept_when_the_time_is_over(tmp_path, lines, expected):
    results = tmp_path / "gpu_tests.jsonl"
    if lines:
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    checks = Checks("gpu_tests")
    gpu_tests.report(checks, results, "the time is over", on_gpu=True)
    assert [f"{found.status} {found.what}" for found in checks.findings] == expected


def test_conclusion_says_rates_predictions_and_shares():
    rate = {"tokens_per_second": 900.0, "predicted": 1000.0, "share_of_peak": 0.4}
    parts = {
        "card": {"findings": [{"what": "a CUDA device", "figures": {"name": "NVIDIA L4"}}]},
        "rates": {"findings": [{"what": "large", "figures": rate | {"pairs_per_second": 16.0}}]},
        "compiled": {"findings": [{"what": "compiled", "figures": {"tokens_per_second": 950.0}}]},
    }
    table, *sentences = conclusion(parts).rsplit("\n", 1)
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["large", "900", "1,000", "90%", "40%"],
        ["compiled", "950", "0"],
    ]
    assert sentences == [
        "On NVIDIA L4, large: 16 pairs a second, 40% of the limit that its products have "
        "(measured; predicted 1.11 times it)."
    ]
    assert conclusion({"card": parts["card"]}) == ""


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

    checks = Checks("profiled")
    events = [
        kernel("long gemm", 0, 50),
        kernel("within it", 10, 20),
        kernel("flash", 80, 100),
        SimpleNamespace(name="of the host", device_type=torch.autograd.DeviceType.CPU),
    ]
    speed.report_kernels(checks, "model", events)
    kernels, busy = checks.findings
    assert kernels.figures["kernels"] == 3
    assert kernels.figures["attention_kernels"] == ["flash"]
    assert busy.figures["idle"] == pytest.approx(0.3)
    assert busy.status == FAIL


def test_families_beyond_their_tolerance_fail():
    checks = Checks("families")
    expected = np.array([0.5, 0.7, np.nan])
    for found in ([0.5, 0.7004, np.nan], [0.5, 0.702, np.nan], [0.5, 0.7, 0.1]):
        works.compare(checks, "bert, float16", "float16", np.array(found), expected)
    assert [finding.status for finding in checks.findings] == [PASS, FAIL, FAIL]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((9, 0), True), ((8, 9), True), ((8, 0), True), ((7, 5), False), ((10, 0), False)],
)
def test_device_runs_code_of_its_own_generation(capability, expected):
    built = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_103", "compute_120"]
    assert works.is_built_for(capability, built) is expected


def arguments(out, *only, **options):
    flags = {"device": "cpu", "quick": True, "time_factor": 1.0, "kit": out / "none"}
    return argparse.Namespace(out=out, only=only, **(flags | options))


@pytest.mark.process
def test_part_that_takes_too_long_is_ended_and_fails(tmp_path):
    begun = time.monotonic()
    assert gpu.run(arguments(tmp_path, "card", time_factor=1e-3)) == 1
    assert time.monotonic() - begun < 60
    part = json.loads((tmp_path / "first_contact.json").read_text())["parts"]["card"]
    assert part["status"] == FAIL
    assert "took more than its" in part["findings"][-1]["why"]


@pytest.mark.long
@pytest.mark.process
def test_all_parts_run_on_a_cpu_as_far_as_they_go(tmp_path, capfd):
    """With times that a busy machine keeps to."""
    status = sum(gpu.run(arguments(tmp_path, half, time_factor=10)) for half in gpu.HALVES)
    said = capfd.readouterr().out
    document = json.loads((tmp_path / "first_contact.json").read_text())
    failed = [
        (name, found["what"], found["why"])
        for name, part in document["parts"].items()
        for found in part["findings"]
        if found["status"] == FAIL
    ]
    assert failed == []
    assert status == 0
    assert list(document["parts"]) == list(gpu.PARTS)
    assert all(f"PASS {name}, " in said for name in gpu.PARTS)
    assert "SKIP the card  no CUDA device was asked for" in said
