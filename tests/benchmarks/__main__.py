"""Every benchmark, by name.

    python -m tests.benchmarks CASE --help     # what it measures, and its flags
    python -m tests.benchmarks                 # the CPU set: 15 minutes on two quiet cores
    python -m tests.benchmarks --tiny          # a try of the set; its figures mean nothing
    python -m tests.benchmarks table FILE...   # tables of JSON lines, as in RESULTS.md

Results of the set go to standard output and to build/bench/results.jsonl, which is begun anew; the
tables are printed at the end. Needs the reference's environment, which `make golden` makes.
A benchmark of a GPU has a command of its own: `python -m tests.benchmarks.gpu`.
"""

import argparse
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.benchmarks.harness import BUILD, run_case
from tests.benchmarks.table import read_results, to_markdown

CASES = {
    "peer": "peer",
    "overhead": "command",
    "job_memory": "command",
    "start": "command",
    "host": "host",
    "host_steps": "host",
    "million": "million",
    "season": "season",
}
"""The benchmarks, functions of these names, and the module of each."""

SET: dict[str, tuple[str, str]] = {
    "peer --model embedded": ("", "--pairs 60 --rounds 1"),
    "peer --model bert-base": ("--rounds 2", "--pairs 10 --rounds 1"),
    "peer --model roberta-large": ("--rounds 2", "--pairs 4 --rounds 1"),
    "overhead --rounds 1": ("--pairs 8000 --split-rows 1000", "--pairs 400 --split-rows 100"),
    "host": ("--threads 4 --splits 5", "--threads 2 --splits 2 --rows 40 --only minilm-l4"),
}
"""The CPU set: what runs, its other flags, and how it is tried."""


def main() -> None:
    """Run a benchmark, the set, or print tables."""
    words = sys.argv[1:]
    if words and words[0] in CASES:
        module = import_module(f"tests.benchmarks.{CASES[words[0]]}")
        run_case(getattr(module, words[0]), words[1:])
    elif words and words[0] == "table":
        print(to_markdown(read_results(map(Path, words[1:]))), end="")
    else:
        parser = argparse.ArgumentParser(
            description=__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=f"cases: {', '.join(CASES)}",
        )
        parser.add_argument("--tiny", action="store_true", help="try the set with a few pairs")
        run_set(tiny=parser.parse_args().tiny)


def run_set(*, tiny: bool) -> None:
    """Run the CPU set, each benchmark in a process of its own, and print the tables."""
    out = BUILD / ("tiny.jsonl" if tiny else "results.jsonl")
    out.unlink(missing_ok=True)
    failed, started = [], time.monotonic()
    for name, flags in SET.items():
        words = [*name.split(), *flags[tiny].split(), "--out", str(out)]
        if subprocess.run([sys.executable, "-m", "tests.benchmarks", *words]).returncode:
            failed.append(name)
    print(to_markdown(read_results([out] if out.exists() else [])))
    print(f"{(time.monotonic() - started) / 60:.1f} of 15 minutes", file=sys.stderr)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
