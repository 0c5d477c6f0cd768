"""Runs one part of first contact in this process; `launch` starts it."""

import argparse
import importlib
from pathlib import Path

from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.first_contact.launch import PARTS
from tests.benchmarks.first_contact.report import FAIL, Checks, verdict


def main() -> None:
    """Run a part; the status is 1 if it has failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--device", required=True)
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    checks = Checks(given.part, given.out)
    with checks.guarded("runs to its end"):
        module = importlib.import_module(f"tests.benchmarks.first_contact.{given.part}")
        module.run(
            checks, Given(given.device, given.kit, given.out.parent, given.quick, given.seconds)
        )
    raise SystemExit(int(verdict(checks.findings) == FAIL))


if __name__ == "__main__":
    main()
