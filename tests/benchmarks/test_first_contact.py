"""First contact with a GPU, tried without one."""

import argparse
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from safetensors.torch import load_file, save_file

from tests.benchmarks import gpu
from tests.benchmarks.first_contact import kit, speed
from tests.benchmarks.first_contact.kit import in_8_bits, spread_out
from tests.benchmarks.harness import FAIL, PASS, SKIP, Recorder, verdict
from tests.benchmarks.table import read_results
from tests.support.hiding import environment_without


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


def test_each_half_stays_below_its_minutes_and_both_are_all_parts():
    assert [part for half in gpu.HALVES.values() for part in half] == list(gpu.PARTS)
    seconds = {
        name: sum(gpu.PARTS[part][1] for part in parts) for name, parts in gpu.HALVES.items()
    }
    assert seconds["first"] <= 6 * 60
    assert seconds["second"] <= 8 * 60  # 14 minutes of a card in all


TESTS = """
import pytest

@pytest.mark.gpu
def test_good(): pass

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(2))
def test_bad(number): assert number == 5, "out of luck"

@pytest.mark.gpu
def test_ends_badly(request): request.addfinalizer(lambda: 1 / 0)

@pytest.mark.gpu
def test_left_out(): pytest.skip("no such card")

def test_of_a_cpu(): assert False
"""


@pytest.mark.long
@pytest.mark.process
def test_each_gpu_test_that_fails_is_named_with_its_error_and_the_others_are_counted(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    code = (
        "from tests.benchmarks.first_contact import gpu_tests as g; from pathlib import Path\n"
        f"recorder = g.Recorder('gpu_tests', Path({str(tmp_path / 'found')!r}))\n"
        f"words = [{str(tmp_path)!r}, '-n', '1', '-m', 'gpu', '-c', '/dev/null', '-W', 'ignore']\n"
        "g.run(recorder, words, on_gpu=True)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=kit.ROOT, check=True)
    *failed, last = read_results([tmp_path / "found"])
    assert {line["what"].rpartition("::")[2]: line["status"] for line in failed} == dict.fromkeys(
        ["test_bad[0]", "test_bad[1]", "test_ends_badly"], FAIL
    )
    assert all("test_some.py:" in line["why"] for line in failed)
    assert sum("AssertionError: out of luck" in line["why"] for line in failed) == 2
    assert last["status"] == FAIL
    assert last["outcomes"] == {"passed": 1, "failed": 3, "skipped": 1}
    assert last["why"].startswith("5 of 5 have ended")
    assert last["reasons"] == {"Skipped: no such card": 1}


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
    return argparse.Namespace(out=out, work=out / "work", only=only, **(flags | options))


@pytest.mark.process
def test_part_that_takes_too_long_is_ended_and_fails(tmp_path):
    begun = time.monotonic()
    assert gpu.run(arguments(tmp_path, "card", time_factor=1e-3)) == 1
    assert time.monotonic() - begun < 60
    (*_, last) = read_results([tmp_path / "card.jsonl"])
    assert last["status"] == FAIL
    assert "took more than its" in last["why"]


def packages_of_a_machine():
    """Return what a machine for PyTorch has, with what this needs in the versions that are here."""
    folder = Path(kit.__file__).parent
    lines = (folder / "packages_for_pytorch.txt").read_text(encoding="utf-8").splitlines()
    waiting, found = [line for line in lines if not line.startswith("#")], set()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            with suppress(PackageNotFoundError):
                needs = map(Requirement, requires(name) or [])
                asked = [one for one in needs if not one.marker or one.marker.evaluate()]
                waiting += [canonicalize_name(one.name) for one in asked]
    return found


@pytest.mark.long
@pytest.mark.process
def test_kit_has_all_that_a_job_imports_and_the_machine_lacks(tmp_path, monkeypatch):
    """In each of the job's processes."""
    there = packages_of_a_machine()
    assert not there & {"apache-beam", "orjson"}
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    kept = there | {*kit.PACKAGES[kit.SITE], "bertscore-beam"}
    for name, value in environment_without(hidden, kept).items():
        monkeypatch.setenv(name, value)
    asked = "import orjson, importlib.util as u; print(u.find_spec('openvino'))"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert found.stdout == "None\n", found.stderr
    status = gpu.run(arguments(tmp_path, "job", time_factor=10))
    (line,) = read_results([tmp_path / "job.jsonl"])
    assert (status, line["status"]) == (0, PASS), line
    assert line["device_busy_seconds"] > 0


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
    passed = gpu.PARTS.keys() - {"profiled", "memory", "peer"}  # of which a CPU has nothing
    assert all(f"PASS {name}, " in said for name in passed)
    assert "SKIP  the card  no CUDA device was asked for" in said
    assert "of the limit that its products have" in said
