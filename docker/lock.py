"""Write the lock files of the image: every package with the hash of the file that is installed.

    make lock

It needs Linux on x86-64 and the image's Python, and asks PyPI alone, whatever else pip is set up
to use. Versions are those of constraints.txt. Two files come out:

    docker/requirements.lock  everything but torch and the CUDA libraries
    docker/torch.lock         these, as PyPI has them (a build for CUDA 13.0)

Other indexes have other builds of torch, which PyPI's hashes do not fit; docker/Dockerfile says how
those are taken.
"""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "baseline,delta,demo,gcp,gcs,s3,tune"
"""Extras of pyproject.toml that the image has."""

PYTHON = "3.11"
OF_TORCH = re.compile(r"torch|triton|nvidia-.+|cuda-.+")
"""Packages that depend on the build of torch."""

HEADER = "# Made by `make lock` for {place}. Do not edit.\n"


def resolve() -> list[dict[str, Any]]:
    """Let pip choose the files, without installing them.

    Returns:
        pip's report of every package; see https://pip.pypa.io/en/stable/reference/installation-report/
    """
    outside = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    kept = {name: os.environ[name] for name in ("PIP_CERT", "PIP_PROXY") if name in os.environ}
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    words += ["--index-url", "https://pypi.org/simple", "--report", "-"]
    words += ["--constraint", "constraints.txt", f".[{EXTRAS}]"]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**outside, **kept, "PIP_CONFIG_FILE": os.devnull},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    installed: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return [one for one in installed if not one["download_info"]["url"].startswith("file:")]


def to_line(package: dict[str, Any]) -> tuple[str, str]:
    """Return the normalised name of a package and its line in a lock file."""
    metadata = package["metadata"]
    name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
    digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
    return name, f"{name}=={metadata['version']} --hash=sha256:{digest}\n"


def main() -> None:
    """Write both files."""
    here = f"Python {'.'.join(platform.python_version_tuple()[:2])}, {sys.platform}"
    wanted = f"Python {PYTHON}, linux"
    if (here, platform.machine()) != (wanted, "x86_64"):
        raise SystemExit(
            f"the lock files are for {wanted} on x86_64: got {here} on {platform.machine()}"
        )
    lines = dict(sorted(map(to_line, resolve())))
    header = HEADER.format(place=f"{wanted}, x86_64, extras {EXTRAS}")
    torch = {name for name in lines if OF_TORCH.fullmatch(name)}
    for file, names in (("requirements", lines.keys() - torch), ("torch", torch)):
        text = header + "".join(lines[name] for name in sorted(names))
        (ROOT / "docker" / f"{file}.lock").write_text(text, encoding="utf-8")
        print(f"docker/{file}.lock: {len(names)} packages")


if __name__ == "__main__":
    main()
