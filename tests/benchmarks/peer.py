"""This library against bert-score 0.3.13, in turn, in one run.

    python -m tests.benchmarks.peer --model embedded
    python -m tests.benchmarks.peer --model bert-base --peer-batches 64 16 --ours float32 bfloat16

Each contestant is a process of its own with its model loaded; every round runs all of them once,
and measures the matrix product peak. Reported are medians over rounds, the ratio to bert-score at
its default batch of 64, useful FLOP/s (padding excluded; see `Shape.flops`) as a share of the peak
of the same number format, the share of padding, each process's peak memory, and how far F1 is from
that of the first contestant (`f1_*`; bert-score's padding moves its own scores) and from our
float32 (`drift_*`). `--ours float32:torch` asks for a backend by name.
"""

import argparse

from tests.benchmarks.contest import Contest, add_contest_flags
from tests.benchmarks.harness import Recorder
from tests.benchmarks.models import BUILDERS, prepare
from tests.benchmarks.texts import mixed

DEFAULT_PAIRS = {"embedded": 3000, "bert-base": 400, "roberta-large": 100}


def main() -> None:
    """Run the contest on one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(BUILDERS), default="embedded")
    parser.add_argument("--pairs", type=int, help=f"default: {DEFAULT_PAIRS}")
    add_contest_flags(parser, (64,))
    given = parser.parse_args()
    pairs = mixed(given.pairs or DEFAULT_PAIRS[given.model])
    recorder = Recorder("peer", given.out)
    with Contest(
        prepare(given.model), recorder, peer_batches=given.peer_batches, ours=given.ours
    ) as contest:
        contest.run({"": pairs}, given.rounds)


if __name__ == "__main__":
    main()
