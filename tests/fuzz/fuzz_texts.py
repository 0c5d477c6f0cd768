"""Score made-up texts for as long as told: `python -m tests.fuzz.fuzz_texts -max_total_time=60`.

The bytes are decoded with errors replaced; byte 0x1E parts texts, byte 0x1F the rows.
"""

import tempfile
from pathlib import Path

from tests.fuzz.engine import instrumented, run

with instrumented():
    from bertscore_core import BertScorer, ScorerConfig
    from tests.fuzz.oracles import score_any_texts
    from tests.golden.texts import PAIRS
    from tests.support.tiny_models import build_tiny_model

FAMILIES = ("bert", "roberta", "t5")


def rows_of(data: bytes) -> tuple[list[str], list[list[str]]]:
    """Read candidates and references out of bytes; at most eight rows."""
    rows = [row.split("\x1e") for row in data.decode("utf-8", "replace").split("\x1f")[:8]]
    return [row[0] for row in rows], [row[1:] or [""] for row in rows]


def main() -> None:
    """Fuzz a tiny model of each kind of tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        scorers = [
            BertScorer(
                ScorerConfig(
                    model=str(build_tiny_model(family, Path(folder) / family)),
                    num_layers=1,
                    max_length=32,
                    device="cpu",
                )
            )
            for family in FAMILIES
        ]

        def check(data: bytes) -> None:
            for scorer in scorers:
                score_any_texts(scorer, *rows_of(data))

        run(check, [f"{pair.candidate}\x1e{pair.reference}".encode() for pair in PAIRS])


if __name__ == "__main__":
    main()
