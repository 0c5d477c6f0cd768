"""Makes the folder to bring to a machine with a GPU and without network.

    python -m tests.benchmarks.first_contact.kit

Bring the checkout (`git ls-files`) and this folder, build/first-contact-kit by default. There, with
a Python that has torch with CUDA, transformers, pyarrow and pytest:

    python -m tests.benchmarks.gpu --first-contact --only first
    python -m tests.benchmarks.gpu --first-contact --only second

Nothing is installed: what the project's version is, and the wheels of the kit, are unpacked into
the folder of the results, which is put on the path of imports. The embedded model is brought in
8 bits a weight, rounded row by row, and is spread out again there: speeds are those of the model,
and scores differ from its own by a few thousandths, the same on each device. Without the kit,
models are random, and parts that need Beam are skipped.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from bertscore_core.model import resolve_model
from tests.benchmarks.harness import BUILD

ROOT = Path(__file__).parents[3]

KIT = BUILD.parent / "first-contact-kit"

MOST_BYTES = 64 << 20
"""What may be brought, the checkout included."""

# Beam needs a protobuf below 7.
WHEELS = (
    *("apache-beam", "beartype", "cffi", "cryptography", "fastavro", "fasteners", "httplib2"),
    *("jsonpickle", "objsize", "proto-plus", "protobuf", "pytz", "zstandard"),
)
"""Beam and what it imports that a machine for PyTorch lacks."""

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


def fetch_wheels(folder: Path, python: str) -> None:
    """Download the wheels for another machine, in the versions that the project is tested with."""
    pinned = {
        line.partition("==")[0].lower(): line.strip()
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", python, "--implementation", "cp", "--dest", str(folder)]
    command += [flag for platform in PLATFORMS for flag in ("--platform", platform)]
    subprocess.run([*command, *(pinned[name] for name in WHEELS)], check=True)


def main() -> None:
    """Make the folder, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=KIT)
    parser.add_argument("--without-beam", action="store_true", help="leave out the wheels")
    parser.add_argument("--python", default="3.12", help="version of Python there")
    given = parser.parse_args()
    shutil.rmtree(given.to / "model", ignore_errors=True)
    shutil.rmtree(given.to / "wheels", ignore_errors=True)
    make_model(given.to / "model")
    if not given.without_beam:
        fetch_wheels(given.to / "wheels", given.python)
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
            "most. Use --without-beam."
        )


if __name__ == "__main__":
    main()
