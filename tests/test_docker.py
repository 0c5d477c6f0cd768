"""The image's definition agrees with itself and with the project; Docker is not needed to tell."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from google.cloud.dataflow_v1beta3 import TemplateMetadata
from google.cloud.devtools.cloudbuild_v1 import Build

from bertscore_beam.options import ScoreOptions, declared
from bertscore_core.model import resolve
from tests.support.containers import DOCKERFILE, ROOT, context_files, copy_sources, read_dockerfile

STAGES = read_dockerfile()
TARGETS = ("cpu", "gpu")
flex_template = SimpleNamespace(**runpy.run_path(str(ROOT / "docker" / "flex_template.py")))
check_image = SimpleNamespace(**runpy.run_path(str(ROOT / "docker" / "check_image.py")))
PARAMETERS = json.loads((ROOT / "docker/flex/score.json").read_text())["parameters"]


@pytest.fixture(params=TARGETS)
def target(request):
    return STAGES[request.param]


def test_versions_of_packages_are_only_in_the_constraints(target):
    for command in [*target.values("RUN"), *target.pairs("ARG").values()]:
        assert not re.search(r"[=~<>]=\s*\d", command)
    installs = [command for command in target.values("RUN") if " install " in command]
    assert installs[0].startswith(
        "python -m pip install --no-deps --require-hashes -r docker/requirements.lock"
    )
    assert installs[0].endswith("&& python -m pip install ${PIP_ARGS} ${TORCH}")
    assert installs[1:] == [command for command in installs if command.endswith('"${TORCH_CUDA}"')]


def test_targets_start_boot_without_rights_and_without_the_hub(target):
    assert target.lines[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')
    assert target.lines[-2] == ("USER", "${RUN_AS}")
    user = target.pairs("ARG")["RUN_AS"]
    assert user not in ("root", "0")
    assert any(f" {user} " in command for command in STAGES["base"].values("RUN"))
    environment = target.pairs("ENV")
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert not set(check_image.STOPS_THREADS) & environment.keys()
    assert environment["RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT"] == "1"
    home = STAGES["base"].pairs("ENV")["HOME"]
    assert not Path(environment["HF_HOME"]).is_relative_to(home)


def test_targets_differ_in_base_and_source_of_torch_only():
    cpu, gpu = (STAGES[name] for name in TARGETS)
    assert (cpu.base, gpu.base) == ("base", "cuda")
    assert STAGES["cuda"].base == "base"
    different = [pair for pair in zip(cpu.lines, gpu.lines, strict=True) if pair[0] != pair[1]]
    names = [name for line, _ in different for name in line[1].split("=")[:1]]
    assert names == ["PIP_ARGS", "TORCH", "TORCH_CUDA"]
    assert cpu.pairs("ARG")["TORCH_CUDA"] == ""


def test_what_is_copied_is_in_the_context_whole_and_nothing_else(target):
    files, sources = set(context_files()), copy_sources(target)
    copied = {
        source: {file for file in files if file == source or file.startswith(f"{source}/")}
        for source in sources
    }
    assert all(copied.values())
    assert files - set().union(*copied.values()) <= {".dockerignore"}
    tracked = {
        str(path.relative_to(ROOT))
        for package in ("bertscore_core", "pipelines")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".csv", ".typed")
    }
    assert tracked <= files


def test_an_image_with_another_build_of_torch_or_bound_threads_is_refused(monkeypatch):
    built = torch.version.cuda or ""
    for name in check_image.STOPS_THREADS:
        monkeypatch.delenv(name, raising=False)
    assert check_image.faults(built) == []
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    wrong, bound = check_image.faults("12.6" if built != "12.6" else "13.0")
    assert re.match(rf"torch {re.escape(torch.__version__)} is built for CUDA .*: expected", wrong)
    assert bound == "TOKENIZERS_PARALLELISM is set to 'false'"


def test_models_are_fetched_as_the_package_looks_for_them(target):
    fetch = (ROOT / "docker/fetch_models.py").read_text()
    patterns = re.search(r"PATTERNS = (\[.+?\])", fetch)
    assert json.loads(patterns[1]) == resolve._SAFE_PATTERNS
    command = next(value for value in target.values("RUN") if "fetch_models.py" in value)
    assert command.endswith(" ${MODELS}")
    assert target.pairs("ARG")["MODELS"] == ""


def fetch_models(home: Path, *models: str) -> "subprocess.CompletedProcess[str]":
    """Run what bakes models in, without a network."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, str(ROOT / "docker/fetch_models.py"), *models],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_model_that_cannot_be_baked_in_ends_the_build(tmp_path, tiny_folder):
    commit = "0123456789" * 4
    cached = tmp_path / "hub/models--ours--tiny"
    shutil.copytree(tiny_folder("bert"), cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    assert fetch_models(tmp_path).returncode == 0
    assert fetch_models(tmp_path, "ours/tiny", f"ours/tiny@{commit}").returncode == 0
    assert fetch_models(tmp_path, "ours/tiny", "ours/other").returncode != 0
    next((cached / "snapshots" / commit).glob("model*.safetensors")).unlink()
    done = fetch_models(tmp_path, "ours/tiny")
    assert done.returncode != 0
    assert "'ours/tiny' has no weights to bake in" in done.stderr


def test_compose_runs_the_command_on_all_gpus_and_opens_no_port():
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert service["entrypoint"] == ["bertscore-beam"]
    assert "ports" not in service
    target = STAGES[service["build"]["target"]]
    assert target.base == "cuda"
    context = ROOT / "docker" / service["build"]["context"]
    assert (context / service["build"]["dockerfile"]).resolve() == DOCKERFILE
    assert service["build"]["args"].keys() <= target.pairs("ARG").keys()
    data, models = service["volumes"]
    assert data["source"] == data["target"]
    name, _, place = models.partition(":")
    assert name in compose["volumes"]
    assert place == target.pairs("ENV")["HF_HOME"]
    (devices,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert devices["capabilities"] == ["gpu"]
    assert devices["count"] == "all"


def test_cloud_build_is_what_its_interface_takes_and_builds_both_targets():
    text = (ROOT / "docker/cloudbuild.yaml").read_text()
    build = Build.from_json(json.dumps(yaml.safe_load(text)))
    steps = {step.id: list(step.args) for step in build.steps}
    assert [arg for args in steps.values() for arg in args if arg.startswith("--target=")] == [
        "--target=cpu",
        "--target=gpu",
        "--target=cpu",
    ]
    flags = dict(
        arg[2:].split("=", 1) for args in steps.values() for arg in args if "=" in arg[:20]
    )
    for flag in ("file", "metadata-file"):
        assert (ROOT / flags[flag]).is_file()
    given = re.findall(r"--build-arg=(\w+)", text)
    assert set(given) <= STAGES["gpu"].pairs("ARG").keys()
    used = set(re.findall(r"(?<!\$)\$\{(_\w+)\}", text))
    assert used == build.substitutions.keys()
    assert "bertscore-beam --version; python -m pip check" in steps["smoke"][-1]
    # A single dollar is a substitution of Cloud Build's.
    assert not re.search(r"(?<!\$)\$(?![{$])", text.partition("steps:")[2])
    # The versions of torch and of CUDA fit: the Dockerfile says so at its build for CUDA.
    assert build.substitutions["_GPU_CUDA"] == "12.6"
    assert build.substitutions["_GPU_PIP_ARGS"].endswith("/cu126")
    assert 'gpu) cuda="${_GPU_CUDA}"' in steps["smoke"][-1]
    # Every step waits for what it needs.
    assert all(before in ("-", *steps) for step in build.steps for before in step.wait_for)


def test_template_is_what_the_options_give():
    assert (ROOT / "docker/flex/score.json").read_text() == flex_template.template(), (
        "run `make configs`"
    )


def test_template_is_what_dataflow_takes():
    metadata = TemplateMetadata.from_json((ROOT / "docker/flex/score.json").read_text())
    assert len(metadata.parameters) == len(PARAMETERS)
    assert all(re.fullmatch(r"[a-z][a-z_]*", parameter.name) for parameter in metadata.parameters)
    assert all(parameter.label for parameter in metadata.parameters)
    assert all(parameter.help_text.endswith(".") for parameter in metadata.parameters)


def test_template_offers_every_option_of_the_score_job_that_makes_sense_there():
    fields = {option.name: option for option in declared(ScoreOptions)}
    offered = [parameter["name"] for parameter in PARAMETERS]
    assert flex_template.LEFT_OUT.keys() <= fields.keys()
    assert sorted(offered) == sorted((fields.keys() - flex_template.LEFT_OUT.keys()) | {"config"})
    required = {name for name, option in fields.items() if option.is_needed}
    assert {p["name"] for p in PARAMETERS if not p.get("isOptional")} == required


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("input", "gs://b/a.parquet s3://c/*.parquet", "/tmp/a"),
        ("output", "gs://bucket/scores", "https://host/scores"),
        ("max_length", "unlimited", "none"),
        ("max_reject_fraction", "0.05", "5%"),
        ("max_reject_fraction", ".5", "a half"),
        ("max_truncated_fraction", "0.05", "5%"),
        ("min_rows", "0", "-1"),
        ("device", "cuda:1", "gpu"),
        ("accelerator", "type:nvidia-l4;count:1;install-nvidia-driver", "nvidia-l4"),
        ("rescale", "true", "yes"),
    ],
)
def test_template_tells_good_values_from_bad(name, good, bad):
    (regex,) = next(p["regexes"] for p in PARAMETERS if p["name"] == name)
    assert re.search(regex, good)
    assert not re.search(regex, bad)


def test_template_starts_the_file_that_is_copied(target):
    place = target.pairs("ENV")["FLEX_TEMPLATE_PYTHON_PY_FILE"]
    assert f"docker/flex/score.py {place}" in target.values("COPY")
