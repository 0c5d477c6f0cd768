"""Baselines: what random pairs score, and the rescaling that maps them to 0.

A table has a row for every layer, from 0 (the embeddings) to the last, and a value each for
precision, recall and F1. It belongs to one language and one model.
"""

import csv
import hashlib
import io
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import BaselineNotFoundError, ConfigError
from bertscore_core.registry import canonical_name, read_table
from bertscore_core.tokens import FloatArray

HEADER = ["LAYER", "P", "R", "F"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """The baseline of one (language, model).

    Attributes:
        name: Where it comes from: `language/model` for a published one, else `custom`.
        rows: Baseline of precision, recall, F1 by layer. Shape (L + 1, 3), float64.
    """

    name: str
    rows: npt.NDArray[np.float64]

    @property
    def fingerprint(self) -> str:
        """Digest of the numbers. 12 hexadecimal digits."""
        return hashlib.sha256(self.rows.astype("<f8").tobytes()).hexdigest()[:12]

    def row(self, layer: int) -> FloatArray:
        """Return the baseline of one layer. Shape (3,), float32.

        Raises:
            BaselineNotFoundError: the table ends below that layer.
        """
        if not 0 <= layer < len(self.rows):
            raise BaselineNotFoundError(
                f"baseline {self.name} has no row for layer {layer}; it has 0 to "
                f"{len(self.rows) - 1}. Compute one for the layer, or score without rescaling."
            )
        row: FloatArray = self.rows[layer].astype(np.float32)
        return row


def rescale(scores: FloatArray, baseline: FloatArray) -> FloatArray:
    """Map the baseline to 0 and leave 1 where it is: (x - b) / (1 - b), in float32.

    Args:
        scores: Raw scores; the last axis or axes are matched by `baseline` through broadcasting.
        baseline: Baseline values below 1.

    Example:
        >>> rescale(np.float32([0.8, 1.0]), np.float32(0.8)).tolist()
        [0.0, 1.0]
    """
    one = np.float32(1.0)
    return ((scores - baseline) / (one - baseline)).astype(np.float32)


@cache
def _published() -> dict[tuple[str, str], npt.NDArray[np.float64]]:
    """Return the published tables by (language, model)."""
    tables: dict[tuple[str, str], list[list[float]]] = {}
    for row in read_table("baselines.csv"):
        table = tables.setdefault((row["language"], row["model"]), [])
        if int(row["layer"]) != len(table):
            raise ConfigError(f"baselines.csv: layers out of order at {row}")
        table.append([float(row[name]) for name in ("precision", "recall", "f1")])
    return {key: np.array(table) for key, table in tables.items()}


def published_baselines() -> tuple[tuple[str, str], ...]:
    """Return (language, model) of every published baseline that comes with the package."""
    return tuple(_published())


def find_baseline(language: str, model: str) -> Baseline:
    """Return the published baseline of a language and a model.

    Raises:
        BaselineNotFoundError: none was published; the message lists what there is for either.
    """
    key = (language.lower(), canonical_name(model))
    try:
        return Baseline(name="/".join(key), rows=_published()[key])
    except KeyError:
        languages = sorted(name for name, other in _published() if other == key[1])
        models = sorted(other for name, other in _published() if name == key[0])
        raise BaselineNotFoundError(
            f"no published baseline for language {language!r} and model {model!r}. "
            f"Languages with one for this model: {', '.join(languages) or 'none'}; models with one "
            f"for this language: {', '.join(models) or 'none'}. Give a LAYER,P,R,F table as "
            "baseline, or score without rescaling."
        ) from None


def parse_baseline(text: str, source: str) -> Baseline:
    """Read a `LAYER,P,R,F` table, the format bert-score reads.

    Args:
        text: The file's content, comma-separated, one row a layer from 0 on.
        source: Its path, for error messages.

    Raises:
        ConfigError: header, row order or values are not those of a baseline.
    """
    try:
        rows = list(csv.reader(io.StringIO(text.strip())))
        if rows[0] != HEADER:
            raise ValueError(f"header {rows[0]}")
        if [int(row[0]) for row in rows[1:]] != list(range(len(rows) - 1)):
            raise ValueError("layers are not 0, 1, 2, ...")
        values = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
        if values.ndim != 2 or values.shape[1] != 3 or not (values < 1).all():
            raise ValueError("expected three numbers below 1 a row")
    except (IndexError, ValueError, csv.Error) as error:
        raise ConfigError(
            f"{source} is not a baseline table ({error}); expected the header LAYER,P,R,F and one "
            "row a layer from 0 on, each value below 1. See --baseline in the README."
        ) from error
    return Baseline(name="custom", rows=values)
