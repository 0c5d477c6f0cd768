"""Estimate the demo's baseline: random pairs of the sample's own references, every layer.

    python configs/demo/make_baseline.py

writes baseline.csv and, beside it, baseline.json with what it was made from. It shows what
rescaling does; it is no baseline to publish with, since the sample is small and made of templates.
"""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from bertscore_core import EMBEDDED_MODEL, BertScorer, ScorerConfig

FOLDER = Path(__file__).parent
SEED = 20
MATCHINGS = 8


def random_pairs() -> list[tuple[str, str]]:
    """Pair the references of each language at random, several times, each text once a time."""
    by_language: dict[str, set[str]] = {}
    for path in sorted((FOLDER / "sample").glob("*.parquet")):
        for row in pq.read_table(path, columns=["language", "reference"]).to_pylist():
            several = row["reference"]
            texts = [several] if isinstance(several, str) else several or []
            by_language.setdefault(row["language"], set()).update(texts)
    generator, pairs = random.Random(SEED), []  # noqa: S311 - a sample, no secret
    for _, texts in sorted(by_language.items()):
        for _ in range(MATCHINGS):
            shuffled = generator.sample(sorted(texts), len(texts))
            pairs += zip(shuffled[::2], shuffled[1::2], strict=False)
    return pairs


if __name__ == "__main__":
    first, second = zip(*random_pairs(), strict=True)
    scorer = BertScorer(ScorerConfig(all_layers=True, device="cpu"))
    scores = scorer.score(first, second)
    means = np.stack(
        [values.mean(axis=1) for values in (scores.precision, scores.recall, scores.f1)]
    )
    rows = [f"{layer},{p:.6f},{r:.6f},{f:.6f}" for layer, (p, r, f) in enumerate(means.T)]
    (FOLDER / "baseline.csv").write_text("\n".join(["LAYER,P,R,F", *rows]) + "\n")
    about = {
        "what": "random pairs of references of configs/demo/sample within each language",
        "use": "demonstration only: small sample, template sentences",
        "model": EMBEDDED_MODEL,
        "pairs": len(first),
        "seed": SEED,
        "matchings": MATCHINGS,
        "signature": scorer.signature().format(),
    }
    (FOLDER / "baseline.json").write_text(json.dumps(about, indent=2) + "\n")
