"""What `.ci/audit` makes of pip-audit's reports.

The files in tests/support/pip_audit were written by pip-audit 2.10.1: two against an OSV server on
loopback, one behind a proxy that answers 404, and the last lines it wrote without a network and for
a requirement without a pin.
"""

import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "tests" / "support" / "pip_audit"
VERDICT = runpy.run_path(str(ROOT / ".ci" / "audit"))["verdict"]


@pytest.mark.parametrize(
    ("report", "errors", "status", "words"),
    [
        ("clean", None, 0, "no known vulnerability in 2 of 2 pinned packages."),
        ("vulnerable", None, 1, "jinja2 2.10: CVE-2019-10906, mended in 2.10.1"),
        ("skipped", None, 0, "NOTHING WAS AUDITED: the vulnerability service knew none of 2"),
        (None, "unreachable", 0, "NOTHING WAS AUDITED: the vulnerability service did not answer"),
        (None, "refused", 1, "six is not pinned to an exact version"),
        (None, None, 1, "pip-audit failed: no report and no message."),
    ],
)
def test_only_a_vulnerability_or_a_refused_call_fails(report, errors, status, words):
    made = None if report is None else (REPORTS / f"{report}.json").read_text()
    said = "" if errors is None else (REPORTS / f"{errors}.txt").read_text()
    found = VERDICT(made, said)
    assert found[0] == status
    assert words in found[1]


def test_packages_that_were_not_looked_up_are_named():
    clean = (REPORTS / "clean.json").read_text()
    partly = clean.replace('"version": "2026.6", "vulns": []', '"skip_reason": "not found"')
    assert VERDICT(partly, "") == (
        0,
        "no known vulnerability in 1 of 2 pinned packages. Not looked up: pytz.",
    )


def test_continuous_integration_audits_first_then_runs_every_layer():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    wanted = re.compile(r"(?:.* )?(\.ci/audit)$|(make \w+)")
    found = [m[1] or m[2] for m in map(wanted.match, lines) if m]
    layers = ["make lint", "make test", "make avx2", "make docs", "make engines"]
    assert found == [".ci/audit", *layers]
    assert all(os.access(ROOT / ".ci" / name, os.X_OK) for name in ("audit", "run"))
