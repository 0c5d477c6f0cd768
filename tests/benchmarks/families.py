"""Every architecture, by the path that all share, against bert-score.

    python -m tests.benchmarks.families
    python -m tests.benchmarks.families --families bert roberta deberta_v2

Models have random weights, hidden size 256 and 4 layers, with the tokenizers of the tests; those
cut words into small pieces, so texts are made of fewer words to have about 25 tokens. Useful work
is counted as for BERT, which is near the truth for most; go by the ratio.
"""

import argparse

from tests.benchmarks.contest import Contest, add_contest_flags
from tests.benchmarks.harness import Recorder
from tests.benchmarks.models import FAMILIES, prepare_family
from tests.benchmarks.texts import Pairs, mixed

PIECES_PER_WORD = 2.5
"""Tokens the tests' tokenizers make of a word, about."""


def shortened(pairs: Pairs) -> Pairs:
    """Cut the texts down to the words that make as many tokens as they had words."""

    def cut(text: str) -> str:
        words = text.split()
        return " ".join(words[: max(round(len(words) / PIECES_PER_WORD), 1)])

    return Pairs([cut(text) for text in pairs.candidates], [cut(text) for text in pairs.references])


def main() -> None:
    """Run the contest on every family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--pairs", type=int, default=200)
    add_contest_flags(parser, (64,))
    parser.set_defaults(ours=["float32"])
    given = parser.parse_args()
    recorder = Recorder("families", given.out)
    pairs = shortened(mixed(given.pairs))
    for family in given.families:
        model = prepare_family(family)
        try:
            with Contest(
                model, recorder, peer_batches=given.peer_batches, ours=given.ours
            ) as contest:
                contest.run({"": pairs}, given.rounds)
        except RuntimeError as error:  # one family must not cost the others their results
            recorder.add(model=family, what="failed", n=given.pairs, seconds=[], error=str(error))


if __name__ == "__main__":
    main()
