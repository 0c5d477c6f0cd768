"""The image's definition agrees with itself and with the project; Docker is not needed to tell."""

import dataclasses
import http.server
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
import tomllib
import urllib.error
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from google.cloud.dataflow_v1beta3 import TemplateMetadata
from google.cloud.devtools.cloudbuild_v1 import Build
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from bertscore_core import resolve
from configs.generate import TEMPLATE_LEFT_OUT
from pipelines.cli import flex
from pipelines.options.flags import split_arguments
from pipelines.options.score import ScoreOptions
from tests.support.containers import (
    DOCKERFILE,
    ROOT,
    context_files,
    copy_sources,
    read_dockerfile,
)

READ = read_dockerfile()
TARGETS = ("cpu", "gpu")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
CLOUD_BUILD = ROOT / "docker" / "cloudbuild.yaml"
DIGEST = f"sha256:{64 * 'a'}"
check_image, lock, pin_images = (
    SimpleNamespace(**runpy.run_path(str(ROOT / "docker" / f"{name}.py")))
    for name in ("check_image", "lock", "pin_images")
)
PARAMETERS = json.loads((ROOT / "docker/flex/score.json").read_text())["parameters"]


@pytest.fixture(params=TARGETS)
def target(request):
    return READ.stages[request.param]


def test_beam_is_the_same_in_image_constraints_and_range():
    python, version = re.match(
        r"apache/beam_python(\d+\.\d+)_sdk:([\d.]+)(@|$)", READ.stages["beam"].base
    ).groups()[:2]
    assert version == PINS["apache-beam"]
    assert READ.stages["base"].base.startswith(f"python:{python}-slim-bookworm")
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    wanted += [Requirement(t) for extra in PROJECT["optional-dependencies"].values() for t in extra]
    ranges = [needed.specifier for needed in wanted if needed.name == "apache-beam"]
    assert len(ranges) == 2
    assert all(version in allowed for allowed in ranges)


def test_python_is_that_of_the_lock_files_and_allowed():
    assert READ.stages["base"].base.startswith(f"python:{lock.PYTHON}-slim-bookworm@sha256:")
    assert f"{lock.PYTHON}.0" in SpecifierSet(PROJECT["requires-python"])


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_ranges_admit_what_is_pinned(package):
    needed = next(r for r in map(Requirement, PROJECT["dependencies"]) if r.name == package)
    assert PINS[package] in needed.specifier


def test_versions_of_packages_are_only_in_the_constraints(target):
    for command in [*target.values("RUN"), *target.pairs("ARG").values()]:
        assert not re.search(r"[=~<>]=\s*\d", command)
    installs = [command for command in target.values("RUN") if " install " in command]
    assert installs[0].startswith(
        "python -m pip install --no-deps --require-hashes -r docker/requirements.lock"
    )
    assert installs[0].endswith("&& python -m pip install ${PIP_ARGS} ${TORCH}")
    assert installs[1:] == [command for command in installs if command.endswith('"${TORCH_CUDA}"')]


def locked(name: str) -> dict[str, str]:
    """Return the versions of a lock file by package; every line must have one hash."""
    lines = (ROOT / "docker" / f"{name}.lock").read_text().splitlines()
    found = {}
    for line in lines[1:]:
        package, version = re.fullmatch(
            r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line
        ).groups()
        found[package] = version
    assert len(found) == len(lines) - 1
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_lock_files_hold_the_versions_of_the_constraints():
    pins = {normal(name): version for name, version in PINS.items()}
    packages, torch = locked("requirements"), locked("torch")
    assert len(packages) > 150
    assert {name: pins.get(name) for name in packages} == packages
    assert {"torch": pins["torch"], "triton": pins["triton"]}.items() <= torch.items()
    # The CUDA libraries are no constraint, since each build of torch pins its own.
    others = torch.keys() - {"torch", "triton"}
    assert others
    assert all(name.startswith(("nvidia-", "cuda-")) for name in others)


def test_lock_files_are_whole():
    """Everything that pyproject.toml asks for is there, and what that asks for in turn."""
    packages = locked("requirements") | {"torch": PINS["torch"]}
    optional = PROJECT["optional-dependencies"]
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    todo += [Requirement(text) for extra in lock.EXTRAS.split(",") for text in optional[extra]]
    seen = set()
    while todo:
        needed = todo.pop()
        name, extras = normal(needed.name), ("", *sorted(needed.extras))
        if (name, extras) in seen or lock.OF_TORCH.fullmatch(name):
            continue
        seen.add((name, extras))
        assert packages[name] in needed.specifier, needed
        for text in metadata.requires(needed.name) or []:
            below = Requirement(text)
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in extras):
                todo.append(below)
    assert len(seen) > 150


def test_comments_speak_of_the_torch_that_is_pinned():
    named = re.findall(r"torch (\d+\.\d+)|(\d+\.\d+)\.\d+\+cpu", DOCKERFILE.read_text())
    assert len(named) == 2
    assert {first or second for first, second in named} == {PINS["torch"].rpartition(".")[0]}


def test_extras_are_the_projects():
    extras = lock.EXTRAS.split(",")
    assert {"gcp", "gcs", "s3"} < set(extras) <= PROJECT["optional-dependencies"].keys()
    for name in ("requirements", "torch"):
        first = (ROOT / "docker" / f"{name}.lock").read_text().partition("\n")[0]
        assert f" extras {lock.EXTRAS}. " in first
        assert f" Python {lock.PYTHON}, " in first


def test_targets_start_boot_without_rights_and_without_the_hub(target):
    assert target.lines[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')
    assert target.lines[-2] == ("USER", "${RUN_AS}")
    user = target.pairs("ARG")["RUN_AS"]
    assert user not in ("root", "0")
    assert any(f" {user} " in command for command in READ.stages["base"].values("RUN"))
    environment = target.pairs("ENV")
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert not set(check_image.STOPS_THREADS) & environment.keys()
    assert environment["RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT"] == "1"
    home = READ.stages["base"].pairs("ENV")["HOME"]
    assert not Path(environment["HF_HOME"]).is_relative_to(home)


def test_targets_differ_in_base_and_source_of_torch_only():
    cpu, gpu = (READ.stages[name] for name in TARGETS)
    assert (cpu.base, gpu.base) == ("base", "cuda")
    assert READ.stages["cuda"].base == "base"
    different = [pair for pair in zip(cpu.lines, gpu.lines, strict=True) if pair[0] != pair[1]]
    names = [name for line, _ in different for name in line[1].split("=")[:1]]
    assert names == ["PIP_ARGS", "TORCH", "TORCH_CUDA"]
    assert cpu.pairs("ARG")["TORCH_CUDA"] == ""


def test_torch_of_pypi_comes_by_hash_and_for_the_cuda_that_is_checked():
    arguments = READ.stages["gpu"].pairs("ARG")
    assert arguments["TORCH"] == "--no-deps --require-hashes -r docker/torch.lock"
    assert locked("torch")["cuda-toolkit"].startswith(f"{arguments['TORCH_CUDA']}.")


def test_final_stages_hold_only_what_can_be_rehearsed(target):
    names = {name for name, _ in target.lines}
    assert names <= {"ARG", "ENV", "COPY", "WORKDIR", "RUN", "USER", "ENTRYPOINT"}
    for command in target.values("RUN"):
        steps = [part.split("/")[0].split() for part in command.split("&&")]
        assert all("python" in words or words == ["touch", "README.md"] for words in steps)


def test_code_is_copied_after_what_takes_long_to_install(target):
    commands = [value for name, value in target.lines if name in ("COPY", "RUN")]
    code = commands.index("pipelines pipelines")
    assert [word for value in commands[code:] for word in value.split() if word == "--no-deps"]
    assert not any("${PIP_ARGS}" in value or "${MODELS}" in value for value in commands[code:])


def test_what_is_copied_is_in_the_context_and_nothing_else(target):
    files = context_files()
    sources = copy_sources(target)
    for source in sources:
        assert any(file == source or file.startswith(f"{source}/") for file in files), source
    needless = [
        file
        for file in files
        if not any(file == source or file.startswith(f"{source}/") for source in sources)
    ]
    assert needless in ([], [".dockerignore"])


def test_package_is_whole_in_the_context():
    tracked = {
        str(path.relative_to(ROOT))
        for package in ("bertscore_core", "pipelines")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".csv", ".typed")
    }
    assert len(tracked) > 50
    assert tracked <= set(context_files())


def test_other_images_come_from_stages_with_names(target):
    froms = [value.split()[0] for value in target.values("COPY") if value.startswith("--from=")]
    assert froms == ["--from=beam", "--from=launcher"]
    assert not READ.stages["launcher"].base.endswith(":latest")


def test_base_images_that_have_a_digest_have_a_whole_one():
    images = pin_images.base_images(DOCKERFILE.read_text())
    assert images.keys() == {"PYTHON_IMAGE", "BEAM_IMAGE", "LAUNCHER_IMAGE"}
    for image in images.values():
        name, _, digest = image.partition("@")
        assert re.fullmatch(r"[\w./-]+:[\w.-]+", name)
        assert digest == "" or pin_images.DIGEST.fullmatch(digest)
    labels = READ.stages["base"].values("LABEL")
    assert all(any(f"${{{name}}}" in label for label in labels) for name in images)


def test_every_build_of_the_cloud_is_by_digest_and_what_is_not_is_not_pushed():
    steps = {step["id"]: step for step in yaml.safe_load(CLOUD_BUILD.read_text())["steps"]}
    assert steps["pin"]["args"][-1] == "python docker/pin_images.py > base-images"
    for name in ("cpu", "gpu", "launcher"):
        assert steps[name]["entrypoint"] == "xargs"
        assert steps[name]["args"][:3] == ["--arg-file=base-images", "docker", "build"]
    assert 'test "$${by_digest}" -eq 3' in steps["smoke"]["args"][-1]
    assert steps["push"]["waitFor"] == ["smoke"]


@pytest.mark.process
def test_the_builds_get_the_digests_as_arguments(tmp_path):
    """What the step `pin` writes, read as the builds read it, with `echo` for docker."""
    arguments = [f"--build-arg={name}=a:b@{DIGEST}" for name in ("PYTHON_IMAGE", "BEAM_IMAGE")]
    (tmp_path / "base-images").write_text("".join(f"{line}\n" for line in arguments))
    done = subprocess.run(
        ["xargs", "--arg-file=base-images", "echo", "build", "--target=cpu", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["build", "--target=cpu", ".", *arguments]


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("python:3.11-slim", "https://registry-1.docker.io/v2/library/python/manifests/3.11-slim"),
        ("apache/beam:2.77.0", "https://registry-1.docker.io/v2/apache/beam/manifests/2.77.0"),
        ("gcr.io/a/b:c", "https://gcr.io/v2/a/b/manifests/c"),
        (f"localhost:5000/a:b@{'sha256:' + 64 * '0'}", "https://localhost:5000/v2/a/manifests/b"),
    ],
)
def test_a_registry_is_asked_for_the_tag(image, url):
    assert pin_images.manifest_url(image) == url


class Registry(http.server.BaseHTTPRequestHandler):
    """Answers as registries do: a token for anyone, then the digest of `team/base:1`."""

    def do_GET(self):
        assert self.path.startswith("/token?service=here&scope=repository:team/base:pull")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"token": "open sesame"}')

    def do_HEAD(self):
        host = self.headers["Host"]
        if self.headers.get("Authorization") != "Bearer open sesame":
            asked = f'Bearer realm="http://{host}/token",service="here",scope="repository:team/base:pull"'
            self.send_response(401)
            self.send_header("WWW-Authenticate", asked)
        elif self.path == "/v2/team/base/manifests/1":
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            self.send_response(200)
            self.send_header("Docker-Content-Digest", DIGEST)
        else:
            self.send_response(404 if self.path.endswith("/2") else 200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.process
def test_digests_are_those_that_the_registry_gives():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"127.0.0.1:{server.server_address[1]}/team/base"
        old = f"{base}:1@sha256:{64 * 'b'}"
        images = {"A_IMAGE": f"{base}:1", "B_IMAGE": old}
        try:
            kept = pin_images.pin(images, scheme="http")
            assert kept == {"A_IMAGE": f"{base}:1@{DIGEST}", "B_IMAGE": old}
            renewed = pin_images.pin(images, renew=True, scheme="http")
            assert renewed["B_IMAGE"] == f"{base}:1@{DIGEST}"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                pin_images.find_digest(f"{base}:2", "http")
            with pytest.raises(ValueError, match="names no digest: got ''"):
                pin_images.find_digest(f"{base}:3", "http")
        finally:
            server.shutdown()


def test_an_image_with_another_build_of_torch_or_bound_threads_is_refused(monkeypatch):
    built = torch.version.cuda or ""
    for name in check_image.STOPS_THREADS:
        monkeypatch.delenv(name, raising=False)
    assert check_image.faults(built) == []
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    wrong, bound = check_image.faults("12.6" if built != "12.6" else "13.0")
    assert re.match(rf"torch {re.escape(torch.__version__)} is built for CUDA .*: expected", wrong)
    assert bound == "TOKENIZERS_PARALLELISM is set to 'false'"


@pytest.mark.process
def test_hadolint_finds_nothing():
    done = subprocess.run(
        [str(Path(sys.executable).parent / "hadolint"), "--no-color", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


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


def test_compose_offers_the_pool_to_this_machine_only():
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    assert {s["build"]["target"] for s in compose["services"].values()} == set(TARGETS)
    for service in compose["services"].values():
        assert service["command"] == ["--worker_pool"]
        assert [port.partition(":")[0] for port in service["ports"]] == ["127.0.0.1"]
        assert all(port.endswith(":50000") for port in service["ports"])
        context = ROOT / "docker" / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).resolve() == DOCKERFILE
        assert service["build"]["args"].keys() <= READ.stages["cpu"].pairs("ARG").keys()
        data, models = service["volumes"]
        assert data["source"] == data["target"]
        name, _, place = models.partition(":")
        assert name in compose["volumes"]
        assert place == READ.stages["cpu"].pairs("ENV")["HF_HOME"]
    devices = compose["services"]["pool"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["capabilities"] == ["gpu"]
    assert "deploy" not in compose["services"]["pool-cpu"]
    assert compose["services"]["pool-cpu"]["profiles"] == ["cpu"]


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
    assert set(given) <= READ.stages["gpu"].pairs("ARG").keys()
    used = set(re.findall(r"(?<!\$)\$\{(_\w+)\}", text))
    assert used == build.substitutions.keys()
    assert "bertscore-beam --version; python -m pip check" in steps["smoke"][-1]
    # A single dollar is a substitution of Cloud Build's.
    assert not re.search(r"(?<!\$)\$(?![{$])", text.partition("steps:")[2])
    assert build.substitutions["_GPU_CUDA"] == "12.6"
    assert build.substitutions["_GPU_PIP_ARGS"].endswith("/cu126")
    assert 'gpu) cuda="${_GPU_CUDA}"' in steps["smoke"][-1]
    # Every step waits for what it needs.
    assert all(before in ("-", *steps) for step in build.steps for before in step.wait_for)


def test_template_is_what_dataflow_takes():
    metadata = TemplateMetadata.from_json((ROOT / "docker/flex/score.json").read_text())
    assert len(metadata.parameters) == len(PARAMETERS)
    for parameter in metadata.parameters:
        assert re.fullmatch(r"[a-z][a-z_]*", parameter.name)
        assert parameter.label
        assert parameter.help_text.endswith(".")


def test_template_offers_every_option_of_the_score_job_that_makes_sense_there():
    fields = {field.name: field for field in dataclasses.fields(ScoreOptions)}
    offered = [parameter["name"] for parameter in PARAMETERS]
    assert len(offered) == len(set(offered))
    assert TEMPLATE_LEFT_OUT.keys() <= fields.keys()
    assert set(offered) == (fields.keys() - TEMPLATE_LEFT_OUT.keys()) | {"config"}
    required = {name for name, f in fields.items() if f.default is dataclasses.MISSING}
    assert {p["name"] for p in PARAMETERS if not p.get("isOptional")} == required


def test_template_accepts_the_defaults():
    defaults = {field.name: field.default for field in dataclasses.fields(ScoreOptions)}
    checked = 0
    for parameter in PARAMETERS:
        default = defaults.get(parameter["name"])
        if default is None or default is dataclasses.MISSING:
            continue
        text = str(default).lower() if isinstance(default, bool) else str(default)
        for regex in parameter.get("regexes", []):
            assert re.search(regex, text), parameter["name"]
            checked += 1
    assert checked > 8


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("input", "gs://b/a.parquet s3://c/*.parquet", "/tmp/a"),
        ("output", "gs://bucket/scores", "https://host/scores"),
        ("max_length", "unlimited", "0"),
        ("max_reject_fraction", "0.05", "5%"),
        ("max_reject_fraction", ".5", "2"),
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


def test_template_offers_nothing_that_would_be_taken_for_beams():
    given = [f"--{parameter['name']}=true" for parameter in PARAMETERS]
    command = flex.command("score", [*given, "--project=a-project"])
    ours, beam = split_arguments(command)
    assert beam == ["--project=a-project"]
    assert [flag for flag in ours if flag.startswith("--config")] == ["--config=true"]


def test_template_starts_the_file_that_is_copied(target):
    place = target.pairs("ENV")["FLEX_TEMPLATE_PYTHON_PY_FILE"]
    assert f"docker/flex/score.py {place}" in target.values("COPY")
