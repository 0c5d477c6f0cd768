"""First contact with a new GPU: nine parts in two calls of less than ten minutes each.

    python -m tests.benchmarks.gpu --first-contact --only first
    python -m tests.benchmarks.gpu --first-contact --only second

Every part passes or fails, from the facts of the card to what a job does when the GPU fails. Each
runs in its own process, with its own time limit. They need torch with CUDA, transformers,
safetensors, numpy and this checkout; see `first_contact.kit` for a machine without network. The
findings are printed, and are in `first_contact.json` in the folder that `--out` names; a table
of the rates, measured and predicted, and sentences for the docs come last.

`python -m tests.benchmarks peer --model roberta-large --device cuda` compares with bert-score.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import KIT, ROOT
from tests.benchmarks.first_contact.report import (
    FAIL,
    Checks,
    Finding,
    conclusion,
    read_findings,
    verdict,
)
from tests.benchmarks.harness import BUILD, machine

PARTS: dict[str, tuple[str, int]] = {
    "card": ("works", 40),
    "gpu_tests": ("gpu_tests", 110),
    "families": ("works", 80),
    "profiled": ("speed", 60),
    "rates": ("speed", 70),
    "sweep": ("speed", 130),
    "threads": ("jobs", 90),
    "faults": ("jobs", 110),
    "compiled": ("speed", 150),
}
"""The parts: a function of a module, and the seconds that it may take, start of the process
included."""

HALVES = {"first": list(PARTS)[:5], "second": list(PARTS)[5:]}
"""Parts that together stay below ten minutes, by the name that `--only` takes."""


def main() -> int:
    """Run the parts, or one part in this process; return 1 if any has failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first-contact", action="store_true", required=True)
    parser.add_argument("--device", default="cuda", help="cpu serves to try the script only")
    parser.add_argument("--out", type=Path, default=BUILD / "first-contact", help="folder")
    parser.add_argument("--kit", type=Path, default=KIT, help="what was brought along (see kit.py)")
    parser.add_argument("--only", nargs="+", choices=[*HALVES, *PARTS], default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="tiny sizes; figures mean nothing")
    parser.add_argument(
        "--time-factor", type=float, default=1.0, help="stretches every part's time"
    )
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    return run(flags) if flags.part is None else run_here(flags)


def given_of(flags: argparse.Namespace) -> Given:
    """Return what a part is given."""
    paths = flags.kit.resolve(), flags.out.resolve()
    return Given(flags.device, *paths, flags.quick, flags.seconds)


def run_here(flags: argparse.Namespace) -> int:
    """Run a part in this process."""
    checks = Checks(flags.part, flags.out / f"{flags.part}.jsonl")
    with checks.guarded("runs to its end"):
        module = import_module(f"tests.benchmarks.first_contact.{PARTS[flags.part][0]}")
        getattr(module, flags.part)(checks, given_of(flags))
    return int(verdict(checks.findings) == FAIL)


def run(flags: argparse.Namespace) -> int:
    """Run the parts, each in a process of its own; return 1 if any has failed.

    What earlier calls have found is kept beside, unless a part is run again.
    """
    flags.out.mkdir(parents=True, exist_ok=True)
    flags.seconds = 0.0
    environment = _environment(flags.kit, flags.out)
    results = flags.out / "first_contact.json"
    earlier = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    document: dict[str, Any] = {
        "machine": dict(machine()),
        "device": flags.device,
        "parts": earlier.get("parts", {}),
    }
    chosen = [part for name in flags.only for part in HALVES.get(name, [name])]
    models = given_of(flags)
    models.minilm(), models.large()  # built before any clock starts
    started = time.monotonic()
    for number, name in enumerate(PARTS, start=1):
        if name not in chosen:
            continue
        limit = PARTS[name][1] * flags.time_factor
        print(f"{number}. {name} (at most {limit:.0f} s)", flush=True)
        begun = time.monotonic()
        findings = _run_part(name, flags, environment, limit)
        seconds = round(time.monotonic() - begun, 1)
        status = verdict(findings)
        print(f"{status} {name}, {seconds} s", flush=True)
        document["parts"][name] = {
            "status": status,
            "seconds": seconds,
            "findings": [asdict(finding) for finding in findings],
        }
        document["seconds"] = round(time.monotonic() - started, 1)
        results.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    statuses = {name: document["parts"][name]["status"] for name in chosen}
    print(conclusion(document["parts"]))
    print("  ".join(f"{name}={status}" for name, status in statuses.items()))
    print(f"{document['seconds']} s; the figures are in {results}")
    return int(FAIL in statuses.values())


def _run_part(
    name: str, flags: argparse.Namespace, environment: dict[str, str], limit: float
) -> list[Finding]:
    lines = flags.out / f"{name}.jsonl"
    lines.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "--first-contact", "--part", name]
    command += ["--device", flags.device, "--kit", str(flags.kit.resolve())]
    command += ["--out", str(flags.out.resolve()), "--seconds", str(limit)]
    command += ["--quick"] if flags.quick else []
    ended = ""
    with (flags.out / f"{name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=log, start_new_session=True
        )
        try:
            status = process.wait(limit)
            if status not in (0, 1):
                ended = f"the process ended with status {status}; expected 0"
        except subprocess.TimeoutExpired:
            ended = f"took more than its {limit:.0f} s"
            os.killpg(process.pid, 9)  # its own children as well
            process.wait()
    findings = read_findings(lines)
    if ended:
        last = Finding(name, "runs to its end", FAIL, f"{ended}; see {log.name}")
        print(f"  {last.line()}", flush=True)
        findings.append(last)
    return findings


def _environment(kit: Path, folder: Path) -> dict[str, str]:
    """Return the variables of a part: no network, and imports from this checkout and the kit."""
    site = folder.resolve() / "site"
    shutil.rmtree(site, ignore_errors=True)
    if find_spec("apache_beam") is None:
        for wheel in sorted(kit.glob("wheels/*.whl")):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(site)
    write_metadata(site)
    paths = [str(ROOT), str(ROOT / "pipelines"), str(site), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def write_metadata(site: Path) -> None:
    """Say which version of this project a checkout is, as its installation would.

    Signatures name it. The file is looked for on the path of imports.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = site / f"bertscore_beam-{project['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    raise SystemExit(main())
