"""The tests of the suite that need a GPU, as a part of first contact."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.kit import ROOT
from tests.benchmarks.harness import Recorder

PATHS = [str(ROOT / "tests" / "core")]
"""What can be run where Beam is not installed."""

PROCESSES, CPU_PROCESSES = 8, 1


class Ended:
    """A plugin of pytest in the process that hands tests out.

    It records each test that fails when it has ended, and counts the others.

    Attributes:
        expected: How many tests there are.
        outcomes: How each test has gone, by its name.
        reasons: Why tests were skipped, and how many for that.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.expected = 0
        self.outcomes: dict[str, str] = {}
        self.reasons: Counter[str] = Counter()

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Count the tests: every process has them all."""
        self.expected = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at a test's begin, itself and its end, each of which may fail."""
        name = report.nodeid.rpartition("/")[2]
        if report.failed:
            self.outcomes[name] = "failed"
            self._recorder.check(name, passed=False, why=why(report), took=report.duration)
            print(report.longreprtext, flush=True)  # into the log, should time run out
        elif report.skipped:
            self.outcomes.setdefault(name, "skipped")
            self.reasons[report.longrepr[2][-200:]] += 1
        elif report.when == "teardown":
            self.outcomes.setdefault(name, "passed")


def why(report: pytest.TestReport) -> str:
    """Say why a test has failed: its error, and where that was raised."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return report.longreprtext[-300:]
    message = " ".join(crash.message.split())  # on one line
    return f"{message[:300]} ({Path(crash.path).name}:{crash.lineno})"


def gpu_tests(recorder: Recorder, given: Given) -> None:
    """Run the tests marked `gpu`; on a CPU, see that they are found and skipped."""
    # As many threads as processors. Of pytest's plugins only those that are needed: others warn in
    # several processes, or where pytest is called from Python, and warnings are errors.
    os.environ |= {"OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [*PATHS, "-m", "gpu", "-v", "--tb=short", "-p", "no:cacheprovider", "-p", "timeout"]
    command += ["-p", "xdist", "-n", str(PROCESSES if given.on_gpu else CPU_PROCESSES)]
    run(recorder, command, on_gpu=given.on_gpu)


def run(recorder: Recorder, command: Sequence[str], *, on_gpu: bool) -> None:
    """Run tests in several processes, and record what has come of them."""
    ended = Ended(recorder)
    status = pytest.main([*command], plugins=[ended])
    counts = Counter(ended.outcomes.values())
    well = status == 0 and len(ended.outcomes) == ended.expected > 0
    recorder.check(
        "all tests marked gpu have ended well",
        well and bool(counts["passed"]) == on_gpu,
        f"{len(ended.outcomes)} of {ended.expected} have ended; pytest's status is {int(status)}",
        outcomes=dict(counts),
        reasons=dict(ended.reasons) or None,
    )
