"""First contact with a new GPU: eight parts in two calls of less than ten minutes each.

    python -m tests.benchmarks.gpu --first-contact --only first
    python -m tests.benchmarks.gpu --first-contact --only second

Every part passes or fails, from the facts of the card to what a job does when the GPU fails. Each
runs in its own process, with its own time limit. They need torch with CUDA, transformers,
safetensors, numpy and this checkout; see `first_contact.kit` for a machine without network. The
findings are printed, and are in a file for each part in the folder that `--out` names, as the
results of all benchmarks are; a table of the rates, measured and predicted, and sentences for docs
come last.

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
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import KIT, ROOT
from tests.benchmarks.harness import BUILD, FAIL, Recorder, in_words, verdict
from tests.benchmarks.table import read_results, to_markdown

PARTS: dict[str, tuple[str, int]] = {
    "card": ("speed", 40),
    "gpu_tests": ("gpu_tests", 190),
    "profiled": ("speed", 60),
    "rates": ("speed", 70),
    "sweep": ("speed", 130),
    "threads": ("jobs", 90),
    "faults": ("jobs", 110),
    "compiled": ("speed", 150),
}
"""The parts: a function of a module, and the seconds that it may take, start of the process
included."""

HALVES = {"first": list(PARTS)[:4], "second": list(PARTS)[4:]}
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
    flags = parser.parse_args()
    if flags.part is None:
        return run(flags)
    module, _ = PARTS[flags.part]
    recorder = Recorder(flags.part, flags.out / f"{flags.part}.jsonl")
    if flags.device.startswith("cuda"):
        with recorder.guarded("the name of the card"):
            import torch  # here, since it takes seconds

            recorder.facts["gpu"] = torch.cuda.get_device_name(flags.device)
    with recorder.guarded("runs to its end"):
        part = getattr(import_module(f"tests.benchmarks.first_contact.{module}"), flags.part)
        part(recorder, given_of(flags, flags.part))
    return int(verdict(recorder.lines) == FAIL)


def given_of(flags: argparse.Namespace, part: str) -> Given:
    """Return what a part is given."""
    paths = flags.kit.resolve(), flags.out.resolve()
    return Given(flags.device, *paths, flags.quick, PARTS[part][1] * flags.time_factor)


def run(flags: argparse.Namespace) -> int:
    """Run the parts, each in a process of its own; return 1 if any has failed.

    What earlier calls have found is kept beside, unless a part is run again.
    """
    flags.out.mkdir(parents=True, exist_ok=True)
    environment = _environment(flags.kit, flags.out)
    chosen = [part for name in flags.only for part in HALVES.get(name, [name])]
    models = given_of(flags, "card")
    models.minilm(), models.large()  # built before any clock starts
    statuses = {}
    for name in filter(chosen.__contains__, PARTS):
        print(f"{name} (at most {PARTS[name][1] * flags.time_factor:.0f} s)", flush=True)
        begun = time.monotonic()
        lines = _run_part(name, flags, environment)
        statuses[name] = verdict(lines)
        print(*(f"  {in_words(line)}" for line in lines), sep="\n")
        print(f"{statuses[name]} {name}, {time.monotonic() - begun:.1f} s", flush=True)
    found = read_results(flags.out.glob("*.jsonl"))
    rates = [line for line in found if "predicted" in line]
    print(to_markdown(rates), *map(sentence, rates), sep="\n")
    print("  ".join(f"{name}={status}" for name, status in statuses.items()))
    print(f"the figures are in {flags.out}")
    return int(FAIL in statuses.values())


def sentence(line: Mapping[str, Any]) -> str:
    """Say a rate as docs do."""
    facts, predicted = line["machine"], line["predicted"] / line["tokens_per_second"]
    return (
        f"On {facts.get('gpu', facts['cpu'])}, {line['what']}: {line['pairs_per_second']:,.0f} "
        f"pairs a second, {line['share_of_peak']:.0%} of the limit that its products have "
        f"(measured; predicted {predicted:.2f} times it)."
    )


def _run_part(
    name: str, flags: argparse.Namespace, environment: dict[str, str]
) -> list[dict[str, object]]:
    """Run a part, and return its lines."""
    out, limit = flags.out / f"{name}.jsonl", PARTS[name][1] * flags.time_factor
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "--first-contact", "--part", name]
    command += ["--device", flags.device, "--kit", str(flags.kit.resolve())]
    command += ["--out", str(flags.out.resolve()), "--time-factor", str(flags.time_factor)]
    command += ["--quick"] if flags.quick else []
    ended = ""
    with (flags.out / f"{name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            status = process.wait(limit)
            if status not in (0, 1):
                ended = f"the process ended with status {status}; expected 0"
        except subprocess.TimeoutExpired:
            ended = f"took more than its {limit:.0f} s"
            os.killpg(process.pid, 9)  # its own children as well
            process.wait()
    if not ended and not out.exists():
        ended = "the process ended before it had found anything"
    if ended:
        Recorder(name, out).check("runs to its end", passed=False, why=f"{ended}; see {log.name}")
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


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
