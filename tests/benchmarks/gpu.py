"""First contact with a new GPU: ten parts in two calls, of six and of eight minutes at most.

    python -m tests.benchmarks.gpu --first-contact --only first
    python -m tests.benchmarks.gpu --first-contact --only second

Every part passes or fails, from the facts of the card to what a job does when memory is too small.
Each runs in its own process, with its own time limit, and what it finds is printed at once. They
need torch with CUDA, transformers, safetensors, numpy, pyarrow, pytest with xdist, and this
checkout; see `first_contact.kit` for a machine without network. The findings are in a file for each
part in the folder that `--out` names, and what the parts printed is in its `log.txt`. A table of
the rates and sentences for docs come last.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import KIT, MODULES, ROOT, SITE, unpack
from tests.benchmarks.harness import BUILD, FAIL, Recorder, in_words, verdict
from tests.benchmarks.table import read_results, to_markdown

PARTS: dict[str, tuple[str, int]] = {
    "card": ("speed", 40),
    "rates": ("speed", 70),
    "gpu_tests": ("gpu_tests", 140),
    "job": ("jobs", 110),
    "profiled": ("speed", 60),
    "sweep": ("speed", 80),
    "threads": ("jobs", 60),
    "faults": ("jobs", 80),
    "memory": ("memory", 50),
    "peer": ("against", 150),
}
"""The parts: a function of a module, and the seconds that it may take, start of the process
included."""

HALVES = {"first": list(PARTS)[:4], "second": list(PARTS)[4:]}
"""What belongs into one call, by the name that `--only` takes."""


def main() -> int:
    """Run the parts, or one part in this process; return 1 if any has failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first-contact", action="store_true", required=True)
    parser.add_argument("--device", default="cuda", help="cpu serves to try the script only")
    parser.add_argument("--out", type=Path, default=BUILD / "first-contact", help="findings")
    parser.add_argument("--work", type=Path, default=BUILD / "first-contact-work", help="the rest")
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
    lacking = [name for name in MODULES if find_spec(name) is None]
    if module == "jobs" and lacking:
        recorder.skip(flags.part, f"neither installed nor brought along: {' and '.join(lacking)}")
        return 0
    with recorder.guarded("runs to its end"):
        part = getattr(import_module(f"tests.benchmarks.first_contact.{module}"), flags.part)
        part(recorder, given_of(flags, flags.part))
    return int(verdict(recorder.lines) == FAIL)


def given_of(flags: argparse.Namespace, part: str) -> Given:
    """Return what a part is given."""
    paths = flags.kit.resolve(), flags.work.resolve()
    return Given(flags.device, *paths, flags.quick, PARTS[part][1] * flags.time_factor)


def run(flags: argparse.Namespace) -> int:
    """Run the parts, each in a process of its own; return 1 if any has failed.

    What earlier calls have found is kept beside, unless a part is run again.
    """
    flags.out.mkdir(parents=True, exist_ok=True)
    environment = _environment(flags.kit, flags.work)
    chosen = [part for name in flags.only for part in HALVES.get(name, [name])]
    models = given_of(flags, "card")
    models.minilm(), models.large()  # built before any clock starts
    statuses = {}
    for name in filter(chosen.__contains__, PARTS):
        print(f"{name} (at most {PARTS[name][1] * flags.time_factor:.0f} s)", flush=True)
        begun = time.monotonic()
        lines = _run_part(name, flags, environment)
        statuses[name] = verdict(lines)
        print(f"{statuses[name]} {name}, {time.monotonic() - begun:.1f} s", flush=True)
    found = read_results(flags.out.glob("*.jsonl"))
    rates = [line for line in found if "share_of_peak" in line]
    print(to_markdown(rates), *map(sentence, rates), sep="\n")
    print("  ".join(f"{name}={status}" for name, status in statuses.items()))
    print(f"the figures are in {flags.out}")
    return int(FAIL in statuses.values())


def sentence(line: Mapping[str, Any]) -> str:
    """Say a rate as docs do."""
    facts = line["machine"]
    return (
        f"On {facts.get('gpu', facts['cpu'])}, {line['what']}: {line['pairs_per_second']:,.0f} "
        f"pairs a second, {line['share_of_peak']:.0%} of the limit that its products have."
    )


def _run_part(
    name: str, flags: argparse.Namespace, environment: dict[str, str]
) -> list[dict[str, object]]:
    """Run a part, and print each of its lines when it comes; return them."""
    out, limit = flags.out / f"{name}.jsonl", PARTS[name][1] * flags.time_factor
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "--first-contact", "--part", name]
    command += ["--device", flags.device, "--kit", str(flags.kit.resolve())]
    command += ["--out", str(flags.out.resolve()), "--work", str(flags.work.resolve())]
    command += ["--time-factor", str(flags.time_factor), *(["--quick"] if flags.quick else [])]
    lines: list[dict[str, object]] = []
    ended, ends = "", time.monotonic() + limit
    with (flags.out / "log.txt").open("a", encoding="utf-8") as log:
        print(f"== {name}", file=log, flush=True)
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        while process.poll() is None and time.monotonic() < ends:
            time.sleep(0.1)
            _print_new(out, lines)
        if process.poll() is None:
            ended = f"took more than its {limit:.0f} s"
            os.killpg(process.pid, 9)  # its own children as well
            process.wait()
        elif process.returncode not in (0, 1):
            ended = f"the process ended with status {process.returncode}; expected 0"
    if not ended and not out.exists():
        ended = "the process ended before it had found anything"
    if ended:
        Recorder(name, out).check("runs to its end", passed=False, why=f"{ended}; see {log.name}")
    _print_new(out, lines)
    return lines


def _print_new(out: Path, lines: list[dict[str, object]]) -> None:
    """Print the lines of a file that have come since the last time, and add them to `lines`."""
    text = out.read_text(encoding="utf-8") if out.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines()[len(lines) :]:  # whole ones
        lines.append(json.loads(line))
        print(f"  {in_words(lines[-1])}", flush=True)


def _environment(kit: Path, work: Path) -> dict[str, str]:
    """Return the variables of a part: no network, and imports from this checkout and the kit."""
    site = work.resolve() / "site"
    shutil.rmtree(site, ignore_errors=True)
    if not all(map(find_spec, MODULES)):
        unpack(kit, SITE, site)
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
