"""The image's definition agrees with itself and with the project; Docker is not needed to tell."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from google.cloud.dataflow_v1beta3 import TemplateMetadata
from google.cloud.devtools.cloudbuild_v1 import Build
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bertscore_beam.cli import flex
from bertscore_beam.options.declare import declared
from bertscore_beam.options.flags import split_arguments
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_core.model import resolve
from tests.support.containers import ROOT, TARGETS, context_files, copy_sources, read_dockerfile

STAGES = read_dockerfile()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
CLOUD_BUILD = (ROOT / "docker/cloudbuild.yaml").read_text()
lock, flex_template = (
    SimpleNamespace(**runpy.run_path(str(ROOT / "docker" / f"{name}.py")))
    for name in ("lock", "flex_template")
)
PARAMETERS = {
    parameter["name"]: parameter
    for parameter in json.loads((ROOT / "docker/flex/score.json").read_text())["parameters"]
}


@pytest.fixture(params=TARGETS)
def target(request):
    return STAGES[request.param]


def test_targets_install_by_hash_and_start_boot_without_rights_and_without_the_hub(target):
    installs = [command for command in target.values("RUN") if " install " in command]
    assert installs[:2] == [
        "python -m pip install --no-deps --require-hashes -r docker/requirements.lock",
        "python -m pip install ${PIP_ARGS} ${TORCH}",
    ]
    assert installs[2:] == [command for command in installs if command.endswith('"${TORCH_CUDA}"')]
    assert target.lines[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')
    assert target.lines[-2] == ("USER", "${RUN_AS}")
    user = target.pairs("ARG")["RUN_AS"]
    assert user not in ("root", "0")
    assert any(f" {user} " in command for command in STAGES["base"].values("RUN"))
    environment = target.pairs("ENV")
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT"] == "1"
    # They would take the cores of a large machine from the tokenizers or from torch.
    assert not {"TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS", "OMP_NUM_THREADS"} & {*environment}
    place = environment["FLEX_TEMPLATE_PYTHON_PY_FILE"]
    assert f"docker/flex/score.py {place}" in target.values("COPY")


def test_targets_differ_in_base_and_source_of_torch_only():
    cpu, gpu = (STAGES[name] for name in TARGETS)
    assert (cpu.base, gpu.base, STAGES["cuda"].base) == ("common", "cuda", "common")
    assert STAGES["common"].base == "base"
    different = [pair for pair in zip(cpu.lines, gpu.lines, strict=True) if pair[0] != pair[1]]
    names = [name for line, _ in different for name in line[1].split("=")[:1]]
    assert names == ["PIP_ARGS", "TORCH", "TORCH_CUDA"]
    assert cpu.pairs("ARG")["TORCH_CUDA"] == ""
    arguments = gpu.pairs("ARG")
    assert arguments["TORCH"] == "--no-deps --require-hashes -r docker/torch.lock"
    assert locked("torch")["cuda-toolkit"].startswith(f"{arguments['TORCH_CUDA']}.")


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


def test_model_that_cannot_be_baked_in_ends_the_build(tmp_path, tiny_folder):
    """Models are fetched as the package looks for them."""
    script = ROOT / "docker/fetch_models.py"
    assert runpy.run_path(str(script))["PATTERNS"] == resolve._SAFE_PATTERNS

    def fetch(*models):
        environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
        return subprocess.run(
            [sys.executable, script, *models], env=environment, capture_output=True, text=True
        )

    commit = "0123456789" * 4
    cached = tmp_path / "hub/models--ours--tiny"
    shutil.copytree(tiny_folder("bert"), cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    assert fetch().returncode == 0
    assert fetch("ours/tiny", f"ours/tiny@{commit}").returncode == 0
    assert fetch("ours/tiny", "ours/other").returncode != 0
    next((cached / "snapshots" / commit).glob("model*.safetensors")).unlink()
    done = fetch("ours/tiny")
    assert done.returncode != 0
    assert "'ours/tiny' has no weights to bake in" in done.stderr


def test_compose_runs_the_command_on_all_gpus_and_opens_no_port():
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert service["entrypoint"] == ["bertscore-beam"]
    assert "ports" not in service
    target = STAGES[service["build"]["target"]]
    assert target.base == "cuda"
    assert service["build"]["args"].keys() <= target.pairs("ARG").keys()
    data, models = service["volumes"]
    assert data["source"] == data["target"]
    assert models.endswith(f":{target.pairs('ENV')['HF_HOME']}")
    (devices,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert (devices["capabilities"], devices["count"]) == (["gpu"], "all")


def test_cloud_build_is_what_its_interface_takes_and_builds_both_targets_by_digest():
    build = Build.from_json(json.dumps(yaml.safe_load(CLOUD_BUILD)))
    steps = {step.id: step for step in build.steps}
    for name, target in (("cpu", "cpu"), ("gpu", "gpu"), ("launcher", "cpu")):
        assert steps[name].entrypoint == "xargs"
        assert steps[name].args[:3] == ["--arg-file=base-images", "docker", "build"]
        assert f"--target={target}" in steps[name].args
    assert "sh docker/smoke.sh" in steps["smoke"].args[-1]
    assert steps["push"].wait_for == ["smoke"]
    assert all(before in ("-", *steps) for step in build.steps for before in step.wait_for)
    assert set(re.findall(r"--build-arg=(\w+)", CLOUD_BUILD)) <= STAGES["gpu"].pairs("ARG").keys()
    used = set(re.findall(r"(?<!\$)\$\{(_\w+)\}", CLOUD_BUILD))
    assert used == build.substitutions.keys()
    # A single dollar is a substitution of Cloud Build's.
    assert not re.search(r"(?<!\$)\$(?![{$])", CLOUD_BUILD.partition("steps:")[2])
    # The versions of torch and of CUDA fit: the Dockerfile says so at its build for CUDA.
    assert build.substitutions["_GPU_CUDA"] == "12.6"
    assert build.substitutions["_GPU_PIP_ARGS"].endswith("/cu126")


def run_with_docker(
    folder: Path, answer: str, script: str, *words: str
) -> subprocess.CompletedProcess:
    """Run a script of `docker` with a docker that gives one answer, and says nothing of a pull."""
    docker = folder / "docker"
    docker.write_text(f'#!/bin/sh\ntest "$1" = pull || test "$1" = run || echo "{answer}"\n')
    docker.chmod(0o755)
    return subprocess.run(
        ["sh", f"docker/{script}", *words],
        cwd=ROOT,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.process
@pytest.mark.parametrize(("digests", "passes"), [(3, True), (2, False)])
def test_an_image_is_pushed_only_if_its_three_bases_have_digests(digests, passes, tmp_path):
    answer = r"{" + r"\"a@sha256:{}\",".format("0" * 64) * digests + "}"
    done = run_with_docker(tmp_path, answer, "smoke.sh", "image")
    assert (done.returncode == 0) == passes


@pytest.mark.process
def test_base_images_are_build_arguments_by_digest(tmp_path):
    """With a docker that tells a digest for each image."""
    done = run_with_docker(tmp_path, "name@sha256:of-${4##*/}", "base_images.sh")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.partition("=")[2].partition("=")[0] for line in lines] == [
        *("PYTHON_IMAGE", "BEAM_IMAGE", "LAUNCHER_IMAGE")
    ]
    for line in lines:
        assert re.fullmatch(r"--build-arg=\w+=[\w./-]+:[\w.-]+@sha256:of-[\w.:@-]+", line)
    beam = f"apache/beam_python{lock.PYTHON}_sdk:{PINS['apache-beam']}"
    assert STAGES["beam"].base.partition("@")[0] == beam
    assert STAGES["base"].base.startswith(f"python:{lock.PYTHON}-slim-bookworm@sha256:")


def locked(name: str) -> dict[str, str]:
    """Return the versions of a lock file by package; every line must have one hash."""
    first, *lines = (ROOT / "docker" / f"{name}.lock").read_text().splitlines()
    assert f" Python {lock.PYTHON}, " in first
    assert f" extras {lock.EXTRAS}. " in first
    pattern = r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}"
    found = dict(re.fullmatch(pattern, line).groups() for line in lines)
    assert len(found) == len(lines)
    return found


def test_lock_files_hold_the_versions_of_the_constraints():
    pins = {canonicalize_name(name): version for name, version in PINS.items()}
    packages, torch = locked("requirements"), locked("torch")
    assert {name: pins.get(name) for name in packages} == packages
    assert {"torch": pins["torch"], "triton": pins["triton"]}.items() <= torch.items()
    # The CUDA libraries are no constraint, since each build of torch pins its own.
    assert all(lock.OF_TORCH.fullmatch(name) for name in torch)


def test_lock_files_are_whole():
    """Everything that pyproject.toml asks for is there, and what that asks for in turn."""
    packages = locked("requirements") | {"torch": PINS["torch"]}
    optional = PROJECT["optional-dependencies"]
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    todo += [Requirement(text) for extra in lock.EXTRAS.split(",") for text in optional[extra]]
    seen = set()
    while todo:
        needed = todo.pop()
        name, extras = canonicalize_name(needed.name), ("", *sorted(needed.extras))
        if (name, extras) in seen or lock.OF_TORCH.fullmatch(name):
            continue
        seen.add((name, extras))
        assert packages[name] in needed.specifier, needed
        for text in metadata.requires(needed.name) or []:
            below = Requirement(text)
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in extras):
                todo.append(below)
    assert len(seen) > 150


def test_template_is_what_the_options_give_and_what_dataflow_takes():
    """Every option that makes sense there is offered, and none would be taken for Beam's."""
    text = (ROOT / "docker/flex/score.json").read_text()
    assert text == flex_template.template(), "run `make configs`"
    assert len(TemplateMetadata.from_json(text).parameters) == len(PARAMETERS)
    fields = {option.name: option for option in declared(ScoreOptions)}
    assert flex_template.LEFT_OUT.keys() <= fields.keys()
    assert PARAMETERS.keys() == (fields.keys() - flex_template.LEFT_OUT.keys()) | {"config"}
    for name, parameter in PARAMETERS.items():
        assert parameter["label"]
        assert parameter["helpText"].endswith(".")
        option = fields.get(name)
        assert ("isOptional" in parameter) != (option is not None and option.is_needed)
        if option is not None and option.default not in (None, ()) and not option.is_needed:
            default = " ".join(option.default) if option.is_list else str(option.default)
            default = default.lower() if option.hint is bool else default
            for regex in parameter.get("regexes", []):
                assert re.search(regex, default), name
    given = [f"--{name}=true" for name in PARAMETERS]
    ours, beam = split_arguments(flex.command("score", [*given, "--project=a-project"]))
    assert beam == ["--project=a-project"]
    assert [flag for flag in ours if flag.startswith("--config")] == ["--config=true"]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("input", "gs://b/a.parquet s3://c/*.parquet", "/tmp/a"),
        ("output", "gs://bucket/scores", "https://host/scores"),
        ("max_length", "unlimited", "none"),
        ("max_reject_fraction", ".5", "5%"),
        ("min_rows", "0", "-1"),
        ("device", "cuda:1", "gpu"),
        ("accelerator", "type:nvidia-l4;count:1;install-nvidia-driver", "nvidia-l4"),
        ("rescale", "true", "yes"),
        ("by", "system language", " "),
    ],
)
def test_template_tells_good_values_from_bad(name, good, bad):
    (regex,) = PARAMETERS[name]["regexes"]
    assert re.search(regex, good)
    assert not re.search(regex, bad)


def test_configs_name_the_image_of_this_version():
    texts = [CLOUD_BUILD, *(path.read_text() for path in ROOT.glob("configs/*/dataflow.yaml"))]
    tags = re.findall(r"(?:_TAG=|/[cg]pu:)(\d[\w.]*)", "\n".join(texts))
    assert len(tags) == 5
    assert {*tags} == {PROJECT["version"]}
