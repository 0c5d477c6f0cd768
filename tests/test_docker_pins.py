"""The image's versions: lock files, constraints, and the digests of its base images."""

import re
import runpy
import tomllib
import urllib.error
from importlib import metadata
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.support.containers import ROOT, read_dockerfile
from tests.support.web import Handler, serving

STAGES = read_dockerfile()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
CLOUD_BUILD = ROOT / "docker" / "cloudbuild.yaml"
DIGEST = f"sha256:{64 * 'a'}"
lock, pin_images = (
    SimpleNamespace(**runpy.run_path(str(ROOT / "docker" / f"{name}.py")))
    for name in ("lock", "pin_images")
)


def test_beam_and_python_are_the_same_in_image_constraints_and_lock_files():
    assert re.match(
        rf"apache/beam_python{lock.PYTHON}_sdk:{PINS['apache-beam']}(@|$)", STAGES["beam"].base
    )
    assert STAGES["base"].base.startswith(f"python:{lock.PYTHON}-slim-bookworm@sha256:")
    assert f"{lock.PYTHON}.0" in SpecifierSet(PROJECT["requires-python"])


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


def test_lock_files_hold_the_versions_of_the_constraints():
    pins = {canonicalize_name(name): version for name, version in PINS.items()}
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


def test_torch_of_pypi_comes_by_hash_and_for_the_cuda_that_is_checked():
    arguments = STAGES["gpu"].pairs("ARG")
    assert arguments["TORCH"] == "--no-deps --require-hashes -r docker/torch.lock"
    assert locked("torch")["cuda-toolkit"].startswith(f"{arguments['TORCH_CUDA']}.")


def test_every_build_of_the_cloud_is_by_digest_and_what_is_not_is_not_pushed():
    steps = {step["id"]: step for step in yaml.safe_load(CLOUD_BUILD.read_text())["steps"]}
    assert steps["pin"]["args"][-1] == "python docker/pin_images.py > base-images"
    for name in ("cpu", "gpu", "launcher"):
        assert steps[name]["entrypoint"] == "xargs"
        assert steps[name]["args"][:3] == ["--arg-file=base-images", "docker", "build"]
    assert 'test "$${by_digest}" -eq 3' in steps["smoke"]["args"][-1]
    assert steps["push"]["waitFor"] == ["smoke"]


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


class Registry(Handler):
    """Answers as registries do: a token for anyone, then the digest of `team/base:1`."""

    def do_GET(self):
        assert self.path.startswith("/token?service=here&scope=repository:team/base:pull")
        self.send(200, {}, b'{"token": "open sesame"}')

    def do_HEAD(self):
        host = self.headers["Host"]
        if self.headers.get("Authorization") != "Bearer open sesame":
            asked = f'Bearer realm="http://{host}/token",service="here",scope="repository:team/base:pull"'
            self.send(401, {"WWW-Authenticate": asked}, b"")
        elif self.path == "/v2/team/base/manifests/1":
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            self.send(200, {"Docker-Content-Digest": DIGEST}, b"")
        else:
            self.send(404 if self.path.endswith("/2") else 200, {}, b"")


@pytest.mark.process
def test_digests_are_those_that_the_registry_gives():
    with serving(Registry) as url:
        base = f"{url.removeprefix('http://')}/team/base"
        old = f"{base}:1@sha256:{64 * 'b'}"
        images = {"A_IMAGE": f"{base}:1", "B_IMAGE": old}
        kept = pin_images.pin(images, scheme="http")
        assert kept == {"A_IMAGE": f"{base}:1@{DIGEST}", "B_IMAGE": old}
        renewed = pin_images.pin(images, renew=True, scheme="http")
        assert renewed["B_IMAGE"] == f"{base}:1@{DIGEST}"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            pin_images.find_digest(f"{base}:2", "http")
        with pytest.raises(ValueError, match="names no digest: got ''"):
            pin_images.find_digest(f"{base}:3", "http")
