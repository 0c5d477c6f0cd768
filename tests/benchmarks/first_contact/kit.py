"""Makes the folder to bring to a machine with a GPU and without network.

    python -m tests.benchmarks.first_contact.kit

Bring the checkout (`git ls-files`) and this folder, build/first-contact-kit by default. There, with
a Python that has torch with CUDA, transformers, pyarrow and pytest:

    python -m tests.benchmarks.gpu --first-contact --only first
    python -m tests.benchmarks.gpu --first-contact --only second

Nothing is installed: what the project's version is, and the packages of the kit, are unpacked into
a folder that is put on the path of imports. bert-score and the older transformers that it needs
have another. The embedded model is brought in 8 bits a weight, rounded row by row, and is spread
out again there: speeds are those of the model, and scores differ from its own by a few thousandths,
the same on each device. Without the kit, models are random, and parts that need Beam or bert-score
are skipped. To make it, pip must reach an index, and `strip` (binutils) must be there.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from packaging.utils import canonicalize_name
from safetensors.torch import load_file, save_file

from bertscore_core.model.resolve import resolve_model
from tests.benchmarks.harness import BUILD

ROOT = Path(__file__).parents[3]

KIT = BUILD.parent / "first-contact-kit"

MOST_BYTES = 64 << 20
"""What may be brought, the checkout included."""

SITE, PEER_SITE = "site.zip", "peer-site.zip"

# Beam needs a protobuf below 7.
PACKAGES = {
    SITE: (
        *("apache-beam", "beartype", "cffi", "cryptography", "fastavro", "fasteners", "httplib2"),
        *("jsonpickle", "objsize", "orjson", "proto-plus", "protobuf", "pytz", "zstandard"),
    ),
    PEER_SITE: ("bert-score", "huggingface-hub", "tokenizers", "transformers"),
}
"""What a machine for PyTorch lacks: what a job imports, and what the peer needs in versions of its
own. `packages_for_pytorch.txt` has the packages that such a machine has."""

PINS = {SITE: ROOT / "constraints.txt", PEER_SITE: ROOT / "tests/golden/requirements.txt"}
"""The versions: those that the project is tested with, and those of the golden scores."""

MODULES = ("apache_beam", "orjson")
"""What must be there for a job to run without the kit."""

PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 28, 17)] + ["manylinux2014_x86_64"]

TOKENIZER = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
WEIGHTS, SCALE = "model.safetensors", ".scale"


def make_model(folder: Path) -> None:
    """Write the embedded model with weights of 8 bits, and a scale for each row."""
    source = resolve_model(None).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER:
        shutil.copyfile(source / name, folder / name)
    small: dict[str, torch.Tensor] = {}
    for name, values in load_file(source / WEIGHTS).items():
        small |= in_8_bits(name, values)
    save_file(small, folder / WEIGHTS, metadata={"format": "pt"})


def in_8_bits(name: str, values: torch.Tensor) -> dict[str, torch.Tensor]:
    """Round a matrix row by row to 255 levels; leave the rest as it is."""
    if values.dim() != 2 or not values.is_floating_point():
        return {name: values}
    scale = values.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
    return {name: (values / scale).round().to(torch.int8), name + SCALE: scale}


def spread_out(source: Path, target: Path) -> None:
    """Write a model from a kit in float32, in the form that transformers reads."""
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft)
    small = load_file(source / WEIGHTS)
    weights = {}
    for name, values in small.items():
        if name + SCALE in small:
            weights[name] = values.float() * small[name + SCALE].float()
        elif not name.endswith(SCALE):
            weights[name] = values.float() if values.is_floating_point() else values
    save_file(weights, draft / WEIGHTS, metadata={"format": "pt"})
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)


def make_site(folder: Path, site: str, python: str) -> None:
    """Download packages for another machine, and pack them as one site without debug symbols.

    These are more than half of the compiled libraries of some.
    """
    pinned = {
        canonicalize_name(line.partition("==")[0]): line.strip()
        for line in PINS[site].read_text(encoding="utf-8").splitlines()
    }
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", python, "--implementation", "cp"]
    command += [flag for platform in PLATFORMS for flag in ("--platform", platform)]
    with TemporaryDirectory() as draft:
        wheels, unpacked = Path(draft, "wheels"), Path(draft, "unpacked")
        names = [pinned[name] for name in PACKAGES[site]]
        subprocess.run([*command, "--quiet", "--dest", str(wheels), *names], check=True)
        for wheel in wheels.iterdir():
            shutil.unpack_archive(wheel, unpacked, "zip")
        libraries = [path for path in unpacked.rglob("*.so*") if path.is_file()]
        subprocess.run(["strip", "--strip-unneeded", *map(str, libraries)], check=True)
        shutil.make_archive(str(folder / Path(site).stem), "zip", unpacked)


def unpack(kit: Path, site: str, folder: Path) -> bool:
    """Unpack one of the sites of a kit; tell whether it has it."""
    if found := (kit / site).is_file():
        shutil.unpack_archive(kit / site, folder)
    return found


def main() -> None:
    """Make the folder, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=KIT)
    parser.add_argument("--sites", nargs="*", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--python", default="3.12", help="version of Python there")
    given = parser.parse_args()
    shutil.rmtree(given.to, ignore_errors=True)
    make_model(given.to / "model")
    for site in given.sites:
        make_site(given.to, site, given.python)
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    brought = {"checkout": [ROOT / name for name in listed.split("\0")], "kit": given.to.rglob("*")}
    sizes = {
        name: sum(path.stat().st_size for path in paths if path.is_file())
        for name, paths in brought.items()
    }
    print(json.dumps({name: f"{size / 2**20:.1f} MiB" for name, size in sizes.items()}))
    if sum(sizes.values()) > MOST_BYTES:
        raise SystemExit(
            f"too large: {sum(sizes.values()) / 2**20:.1f} MiB; expected {MOST_BYTES >> 20} at "
            "most. Name fewer --sites."
        )


if __name__ == "__main__":
    main()
