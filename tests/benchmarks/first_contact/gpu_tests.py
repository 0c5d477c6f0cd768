"""The tests of the suite that need a GPU, as a part of first contact."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.harness import Recorder

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
    line = json.dumps({"collected": len(session.items)})
    Path(os.environ[_LINES]).write_text(line + "\n", encoding="utf-8")


def gpu_tests(recorder: Recorder, given: Given) -> None:
    """Run the tests marked `gpu`; on a CPU, collect them."""
    results = given.work / "ended_tests"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *PATHS, "-m", "gpu", "-p", "no:cacheprovider"]
    command += ["-p", __name__, "--tb=short", *([] if given.on_gpu else ["--collect-only"])]
    environment = {**os.environ, _LINES: str(results)}
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=2, env=environment, timeout=max(given.seconds - 5, 10)
        )
        ended = f"pytest ended with {done.returncode}; see its words in the log"
    except subprocess.TimeoutExpired:
        ended = "the time is over"
    report(recorder, results, ended, given.on_gpu)


def report(recorder: Recorder, results: Path, ended: str, on_gpu: bool) -> None:
    """Record what the tests have written, as far as they came."""
    written = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    collected, *lines = map(json.loads, written or ['{"collected": 0}'])
    expected = collected["collected"]
    if not on_gpu:
        recorder.check("tests marked gpu are found", expected > 0, ended, tests=expected)
        recorder.skip("tests marked gpu")
        return
    for line in lines:
        name = line["test"].rpartition("/")[2]
        if line["outcome"] == "skipped" or _NO_MODEL in line["why"]:
            recorder.skip(name, line["why"][-300:])
        else:
            why = line["why"][-300:] or None
            recorder.check(name, line["outcome"] == "passed", why, took=line["seconds"])
    ran = sum(line["outcome"] != "skipped" for line in lines)
    recorder.check(
        "all tests marked gpu have ended",
        ran > 0 and len(lines) >= expected,
        f"{len(lines)} of {expected}; {ended}",
        tests=ran,
    )
