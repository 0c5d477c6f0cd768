"""Seconds and memory of one pair of long texts, cut and in windows.

    python -m tests.benchmarks.long_texts --tokens 600 5000 50000

Every length and rule runs in a process of its own, whose peak memory is reported, the model
included. A short pair is scored first, so that no first call is measured. The ratio is the time of
the windows against that of the cut texts.
"""

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.benchmarks.harness import Recorder, add_out
from tests.benchmarks.models import BUILDERS, BenchModel, prepare
from tests.benchmarks.texts import fixed
from tests.benchmarks.worker import Worker, write_pairs

RULES = ("truncate", "windows")
WARM_TOKENS = 300


def measure(model: BenchModel, tokens: int, rule: str, rounds: int) -> tuple[list[float], float]:
    """Score one pair in a fresh process; return the seconds of each round and peak memory in MB."""
    with TemporaryDirectory() as folder:
        warm = write_pairs(Path(folder) / "warm.json", fixed(1, WARM_TOKENS))
        pair = write_pairs(Path(folder) / "pair.json", fixed(1, tokens))
        with Worker("tests.benchmarks.serve_ours", folder=model.folder) as worker:
            layers = model.shape.layers
            worker.ask("load", model=str(model.path), num_layers=layers, long_text=rule)
            worker.ask("score", path=str(warm))
            replies = [worker.ask("score", path=str(pair)) for _ in range(rounds)]
    return [reply["seconds"] for reply in replies], replies[-1]["peak_mb"]


def main() -> None:
    """Measure every length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(BUILDERS), default="embedded")
    parser.add_argument("--tokens", type=int, nargs="+", default=[600, 5_000, 50_000])
    parser.add_argument("--rounds", type=int, default=3)
    add_out(parser)
    given = parser.parse_args()
    recorder = Recorder("long texts", given.out)
    model = prepare(given.model)
    for tokens in given.tokens:
        cut = 0.0
        for rule in RULES:
            seconds, peak = measure(model, tokens, rule, given.rounds)
            cut = cut or median(seconds)
            recorder.add(
                model=model.name,
                what=f"{tokens:,} tokens: {rule}",
                n=1,
                seconds=seconds,
                ratio=median(seconds) / cut,
                peak_mb=peak,
            )


if __name__ == "__main__":
    main()
