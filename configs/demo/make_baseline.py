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


def references_by_language() -> dict[str, list[str]]:
    """Return the distinct references of the sample, by language."""
    found: dict[str, set[str]] = {}
    for path in sorted((FOLDER / "sample").glob("*.parquet")):
        table = pq.read_table(path, columns=["language", "reference"])
        for row in table.to_pylist():
            several = row["reference"]
            texts = [several] if isinstance(several, str) else several or []
            found.setdefault(row["language"], set()).update(texts)
    return {language: sorted(texts) for language, texts in sorted(found.items())}


def random_pairs(texts: list[str], generator: random.Random) -> list[tuple[str, str]]:
    """Pair texts at random, each at most once."""
    shuffled = generator.sample(texts, len(texts))
    return list(zip(shuffled[::2], shuffled[1::2], strict=False))


def main() -> None:
    """Score the pairs and write both files."""
    generator = random.Random(SEED)  # noqa: S311 - a sample, no secret
    pairs = [
        pair
        for texts in references_by_language().values()
        for _ in range(MATCHINGS)
        for pair in random_pairs(texts, generator)
    ]
    scorer = BertScorer(ScorerConfig(all_layers=True, device="cpu"))
    scores = scorer.score([first for first, _ in pairs], [second for _, second in pairs])
    means = np.stack(
        [values.mean(axis=1) for values in (scores.precision, scores.recall, scores.f1)], axis=1
    )
    rows = [f"{layer},{p:.6f},{r:.6f},{f:.6f}" for layer, (p, r, f) in enumerate(means)]
    (FOLDER / "baseline.csv").write_text("\n".join(["LAYER,P,R,F", *rows]) + "\n")
    about = {
        "what": "random pairs of references of configs/demo/sample within each language",
        "use": "demonstration only: small sample, template sentences",
        "model": EMBEDDED_MODEL,
        "pairs": len(pairs),
        "seed": SEED,
        "matchings": MATCHINGS,
        "signature": scorer.signature().format(),
    }
    (FOLDER / "baseline.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
