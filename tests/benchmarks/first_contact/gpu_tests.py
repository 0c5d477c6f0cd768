"""Part 2: the tests of the suite that need a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.first_contact.report import Checks

_NO_MODEL = "the embedded default model is not installed"
_LINES = "FIRST_CONTACT_TESTS"

PATHS = ["tests/core"]
"""What can be run where Beam is not installed."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a line for each test that has ended, so that no result is lost if time runs out."""
    if report.when == "call" or report.outcome != "passed":
        why = str(report.longrepr[2] if report.skipped else report.longreprtext)
        line = {"test": report.nodeid, "outcome": report.outcome, "why": why}
        with Path(os.environ[_LINES]).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line | {"seconds": report.duration}) + "\n")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write how many tests there are."""
    with Path(os.environ[_LINES]).open("w", encoding="utf-8") as lines:
        lines.write(json.dumps({"collected": len(session.items)}) + "\n")


def gpu_tests(checks: Checks, given: Given) -> None:
    """Run the tests marked `gpu`; on a CPU, collect them."""
    results = given.work / "ended_tests.jsonl"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *PATHS, "-m", "gpu", "-p", "no:cacheprovider"]
    command += ["-p", __name__, "--tb=short", *([] if given.on_gpu else ["--collect-only"])]
    log = given.work / "gpu_tests.txt"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, _LINES: str(results)},
        )
        try:
            ended = f"pytest ended with {process.wait(max(given.seconds - 5, 10))}; see {log}"
        except subprocess.TimeoutExpired:
            process.kill()
            ended = "the time is over"
    report(checks, results, ended, given.on_gpu)


def report(checks: Checks, results: Path, ended: str, on_gpu: bool) -> None:
    """Record what the tests have written, as far as they came."""
    written = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    collected, *lines = map(json.loads, written or ['{"collected": 0}'])
    expected = collected["collected"]
    if not on_gpu:
        checks.check("tests marked gpu are found", expected > 0, ended, tests=expected)
        checks.without_gpu("tests marked gpu")
        return
    for line in lines:
        name = line["test"].rpartition("/")[2]
        if line["outcome"] == "skipped":
            checks.skip(name, line["why"])
        elif _NO_MODEL in line["why"]:
            checks.skip(name, f"{_NO_MODEL}: its package was not brought along")
        else:
            why = "" if line["outcome"] == "passed" else line["why"][-300:]
            checks.check(name, line["outcome"] == "passed", why, seconds=line["seconds"])
    ran = sum(line["outcome"] != "skipped" for line in lines)
    checks.check(
        "all tests marked gpu have ended",
        ran > 0 and len(lines) >= expected,
        f"{len(lines)} of {expected}; {ended}",
        tests=ran,
    )
