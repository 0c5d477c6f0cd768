"""The CPU set of the benchmarks, one after the other.

    python -m tests.benchmarks                 # about a quarter of an hour on two quiet cores
    python -m tests.benchmarks --tiny          # a try of all scripts; its figures mean nothing

Results go to standard output and to build/bench/results.jsonl, which is begun anew; the tables are
printed at the end. Needs the reference's environment, which `make golden` makes.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.harness import BUILD
from tests.benchmarks.table import read_results, to_markdown

BUDGET_MINUTES = 15

SETS: dict[str, tuple[str, str]] = {
    "gemm": ("gemm", "gemm --seconds 0.1"),
    "embedded": ("peer --model embedded", "peer --model embedded --pairs 60 --rounds 1"),
    "bert-base": (
        "peer --model bert-base --rounds 2",
        "peer --model bert-base --pairs 10 --rounds 1",
    ),
    "roberta-large": (
        "peer --model roberta-large --rounds 2",
        "peer --model roberta-large --pairs 4 --rounds 1",
    ),
    "shapes": (
        "shapes --rounds 2 --mixed-pairs 600 --ours float32",
        "shapes --rounds 1 --mixed-pairs 40 --short-pairs 64 --long-pairs 2 --ours float32",
    ),
    "long-texts": ("long_texts", "long_texts --tokens 600 1200 --rounds 1"),
    "overhead": (
        "overhead --pairs 8000 --split-rows 1000 --scaling-pairs 4000 --rounds 1",
        "overhead --pairs 400 --split-rows 100 --scaling-pairs 400 --rounds 1",
    ),
    "host": (
        "host --threads 4 --splits 5",
        "host --threads 2 --splits 2 --rows 40 --only minilm-l4",
    ),
}
"""What runs, and how it is tried."""


def main() -> None:
    """Run the set and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--tiny", action="store_true", help="try the scripts with a few pairs")
    parser.add_argument(
        "--out", type=Path, help="default: build/bench/results.jsonl, or tiny.jsonl"
    )
    given = parser.parse_args()
    given.out = given.out or BUILD / ("tiny.jsonl" if given.tiny else "results.jsonl")
    given.out.unlink(missing_ok=True)
    taken: dict[str, float] = {}
    failed = []
    for name in given.only:
        module, *flags = SETS[name][given.tiny].split()
        command = [sys.executable, "-m", f"tests.benchmarks.{module}", *flags]
        started = time.perf_counter()
        status = subprocess.run([*command, "--out", str(given.out)]).returncode
        taken[name] = time.perf_counter() - started
        if status:
            failed.append(name)
    if given.out.exists():
        print(to_markdown(read_results([given.out])))
    total = sum(taken.values()) / 60
    each = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in taken.items())
    print(f"{total:.1f} of {BUDGET_MINUTES} minutes: {each}", file=sys.stderr)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
