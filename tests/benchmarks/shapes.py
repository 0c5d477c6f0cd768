"""Texts of unusual shape: the shortest, the longest, and references shared by several systems.

    python -m tests.benchmarks.shapes

Runs the contest of `tests.benchmarks.peer` on texts of 3 tokens, texts of 512 tokens, pairs whose
references are each shared by 8 systems, and as many pairs without sharing. The last two run in the
same rounds; a line a contestant gives the ratio of their pairs per second.
"""

import argparse
from statistics import median

from tests.benchmarks.contest import Contest, add_contest_flags
from tests.benchmarks.harness import Recorder
from tests.benchmarks.models import BUILDERS, BenchModel, prepare
from tests.benchmarks.texts import Pairs, fixed, mixed

CASES = ("3 tokens", "512 tokens", "shared", "distinct")
SYSTEMS = 8


def make_case(case: str, count: int, model: BenchModel) -> Pairs:
    """Make the pairs of a case."""
    if case == "3 tokens":
        return fixed(count, 3, words=whole_words(model))
    if case == "512 tokens":
        return fixed(count, 512)
    return mixed(count, systems=SYSTEMS if case == "shared" else 1)


def whole_words(model: BenchModel) -> list[str]:
    """List the words that the model's WordPiece vocabulary holds whole."""
    vocabulary = model.path / "vocab.txt"
    if not vocabulary.exists():
        return []
    pieces = vocabulary.read_text(encoding="utf-8").split("\n")
    return [piece for piece in pieces if piece.isascii() and piece.isalpha() and len(piece) > 2]


def main() -> None:
    """Run every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(BUILDERS), default="embedded")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--short-pairs", type=int, default=3000)
    parser.add_argument("--long-pairs", type=int, default=32)
    parser.add_argument("--mixed-pairs", type=int, default=1000)
    add_contest_flags(parser, (64, 16))
    given = parser.parse_args()
    counts = {"3 tokens": given.short_pairs, "512 tokens": given.long_pairs}
    recorder = Recorder("shapes", given.out)
    model = prepare(given.model)
    with Contest(model, recorder, peer_batches=given.peer_batches, ours=given.ours) as contest:
        cases = {
            case: make_case(case, counts.get(case, given.mixed_pairs), model)
            for case in given.cases
        }
        seconds = contest.run(cases, given.rounds)
    if {"shared", "distinct"} <= set(seconds):
        for name, shared in seconds["shared"].items():
            distinct = seconds["distinct"][name]
            recorder.add(
                model=model.name,
                what=f"shared against distinct: {name}",
                n=given.mixed_pairs,
                seconds=shared,
                ratio=median(distinct) / median(shared),
            )


if __name__ == "__main__":
    main()
