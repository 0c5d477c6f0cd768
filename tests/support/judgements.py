"""Made-up judgements of candidates that lack more or less of their reference."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.tune.judgements import Judgements, read_judgements
from bertscore_beam.tune.tune_options import TuneOptions

WORDS = {
    "en": "the cat sat on a mat while rain fell over old houses near the quiet river bank",
    "de": "die Katze sass auf einer Matte als Regen auf alte Häuser am stillen Fluss fiel",
}
SYSTEMS = ("strong", "middle", "weak")


def judgement_rows(items: int = 10) -> list[dict[str, Any]]:
    """Return rows of three systems for each item of two languages: 6 for each item."""
    choose = random.Random(7)
    rows = []
    for language, text in WORDS.items():
        words = text.split()
        for item in range(items):
            reference = [choose.choice(words) for _ in range(8 + item % 5)]
            for place, system in enumerate(SYSTEMS):
                lost = place + choose.randrange(3)
                kept = [
                    word if choose.random() > lost / 6 else choose.choice(words)
                    for word in reference
                ]
                right = sum(a == b for a, b in zip(kept, reference, strict=True)) / len(reference)
                rows.append(
                    {
                        "language": language,
                        "item": f"{language}-{item}",
                        "system": system,
                        "candidate": " ".join(kept),
                        "reference": " ".join(reference),
                        "human": round(right + choose.gauss(0, 0.1), 3),
                        "good": right > 0.6,
                    }
                )
    return rows


def write_judgements(path: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """Write rows as Parquet."""
    pq.write_table(pa.Table.from_pylist(judgement_rows() if rows is None else rows), path)
    return path


def read(path: Path, **options: Any) -> Judgements:
    """Read judgements by the scores in the column `human`, unless the options say other things."""
    chosen = {"judgements": (str(path),), "output": "out", "score_column": "human", **options}
    return read_judgements(TuneOptions(**chosen), "out")
