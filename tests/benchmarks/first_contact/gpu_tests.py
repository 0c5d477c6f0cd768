"""Part 2: the tests of the suite that need a GPU."""

import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.launch import ROOT
from tests.benchmarks.first_contact.report import Checks

_NO_MODEL = "the embedded default model is not installed"

PATHS = ["tests/core"]
"""What can be run where Beam is not installed."""


def run(checks: Checks, given: Given) -> None:
    """Run the tests marked `gpu`."""
    junit = given.work / "gpu_tests.xml"
    # Each test is a line, so that what ran over the time can be seen.
    command = [sys.executable, "-m", "pytest", *PATHS, "-m", "gpu", "-v", "-p", "no:cacheprovider"]
    command += ["--no-header", "--tb=short", f"--junitxml={junit}"]
    log = given.work / "gpu_tests.txt"
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            [*command, *(["--collect-only", "-q"] if not given.on_gpu else [])],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=max(given.seconds - 3, 10),
        )
    if not given.on_gpu:
        report_collection(checks, log.read_text(encoding="utf-8"), done.returncode)
        return
    started = time.perf_counter()
    cases = list(ElementTree.parse(junit).getroot().iter("testcase"))  # noqa: S314 - our own file
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        problem = next(
            (case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None
        )
        if case.find("skipped") is not None:
            checks.skip(name, str(case.find("skipped").get("message")))
        elif problem is not None and _NO_MODEL in ElementTree.tostring(problem, "unicode"):
            checks.skip(name, f"{_NO_MODEL}: its package was not brought along")
        else:
            why = "" if problem is None else str(problem.get("message")).splitlines()[0][:300]
            checks.check(name, problem is None, why, seconds=float(case.get("time", 0)))
    ran = sum(case.find("skipped") is None for case in cases)
    checks.check(
        "tests marked gpu have run",
        ran > 0 and done.returncode in (0, 1),
        f"pytest ended with {done.returncode}; see {log}",
        tests=ran,
        reading_seconds=time.perf_counter() - started,
    )


def report_collection(checks: Checks, text: str, status: int) -> None:
    """Say on a CPU how many tests would run."""
    found = re.search(r"(\d+)/\d+ tests collected|(\d+) tests collected", text)
    count = int(next(filter(None, found.groups()))) if found else 0
    checks.check(
        "tests marked gpu are found", count > 0 and status == 0, f"pytest: {status}", tests=count
    )
    checks.skip("tests marked gpu", "no CUDA device was asked for")
