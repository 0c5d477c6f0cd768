"""Pairs as dicts, and what comes out of a pipeline that scores them."""

import pickle
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from bertscore_core import BertScorer, ScorerConfig
from tests.support.dumps import pair_rows

CONFIG = ScorerConfig(device="cpu")
MEASURES = ("precision", "recall", "f1")
BAD = {
    "null_candidate": {"candidate": None, "reference": "a cat"},
    "null_reference": {"candidate": "a cat", "reference": ["a cat", None]},
    "no_references": {"candidate": "a cat", "reference": []},
    "not_text": {"candidate": "a cat", "reference": 7},
}
"""Pairs that cannot be scored, by reason."""


@dataclass(frozen=True)
class Attributes:
    """A pair that is neither a dict nor a row."""

    candidate: object
    reference: object


def pairs(count: int = 12) -> list[dict[str, Any]]:
    """Return pairs as dicts, with ids from 0."""
    return pa.table(pair_rows(count)).to_pylist()


def measured(rows: Iterable[Mapping[str, Any]]) -> np.ndarray:
    """Return the scores by measure, in the order of the ids. Shape (3, N), float32."""
    ordered = sorted(rows, key=lambda row: row["id"])
    return np.array(
        [[row[f"bertscore_{name}"] for row in ordered] for name in MEASURES], np.float32
    )


def library(rows: Sequence[Mapping[str, Any]], **config: Any) -> np.ndarray:
    """Return what the library gives for the same rows."""
    scorer = BertScorer(ScorerConfig(device="cpu", **config))
    scores = scorer.score([row["candidate"] for row in rows], [row["reference"] for row in rows])
    return np.stack([scores.precision, scores.recall, scores.f1])


class Keep(beam.DoFn):
    """Keep each element in a file, with its time and window, whichever process it comes out in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, element, timestamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        kept = pickle.dumps((element, float(timestamp), float(window.max_timestamp())))
        (self.folder / uuid.uuid4().hex).write_bytes(kept)


def kept_in(folder: Path) -> list[tuple[Any, float, float]]:
    """Return (element, timestamp, end of its window) for each that was kept."""
    return [pickle.loads(path.read_bytes()) for path in folder.iterdir()]  # noqa: S301 - our own
