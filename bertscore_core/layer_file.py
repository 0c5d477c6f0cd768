"""A file of layers: which layer of a model agreed best with people, and how that was found.

`bertscore-beam tune` writes it, and `score --registry` reads it. It is JSON:

    {"format": "bertscore-layers/1",
     "models": [{"model": "all-MiniLM-L6-v2", "weights": "0a1b2c3d4e5f", "num_layers": 5,
                 "source": {"judgements": "...", "statistic": "pearson", ...}}]}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bertscore_core.errors import ConfigError
from bertscore_core.registry import canonical_name

FORMAT = "bertscore-layers/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedLayer:
    """The layer of one model.

    Attributes:
        model: Name of the model, as in a signature.
        weights: Digest of its weight files, as in a signature.
        num_layers: The layer.
        source: How it was found, for people; nothing is computed from it.
    """

    model: str
    weights: str
    num_layers: int
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """What a row is found by: names alone do not tell folders apart."""
        return canonical_name(self.model), self.weights


def format_layers(rows: Iterable[TunedLayer]) -> bytes:
    """Return the file of some rows, sorted by model."""
    models = [asdict(row) for row in sorted(rows, key=lambda row: row.key)]
    text = json.dumps({"format": FORMAT, "models": models}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()


def parse_layers(data: bytes, source: str) -> list[TunedLayer]:
    """Read the rows of a file.

    Args:
        data: What the file holds.
        source: Its name, for messages.

    Raises:
        ConfigError: It is no file of layers.
    """
    try:
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}")
        rows = [TunedLayer(**row) for row in content["models"]]
        for row in rows:
            _check(row)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{source} is no file of layers ({type(error).__name__}: {str(error)[:200]}); expected "
            "what `bertscore-beam tune --registry FILE` writes. Check the path."
        ) from error
    return rows


def _check(row: TunedLayer) -> None:
    """Raise ValueError for a row that `tune` does not write."""
    # By `type`, since True is an `int`, too.
    kinds = (type(row.model), type(row.weights), type(row.num_layers))
    if kinds != (str, str, int) or row.num_layers < 0:
        raise ValueError(f"a row of model {str(row.model)[:50]!r} that does not fit")


def with_layers(old: Iterable[TunedLayer], new: Iterable[TunedLayer]) -> list[TunedLayer]:
    """Return the old rows with the new ones in the place of those of the same models."""
    return list({row.key: row for row in (*old, *new)}.values())


def find_layer(rows: Sequence[TunedLayer], model: str, weights: str, source: str) -> TunedLayer:
    """Return the row of a model.

    Raises:
        ConfigError: There is none, or only one of other weights.
    """
    wanted = canonical_name(model)
    named = [row for row in rows if canonical_name(row.model) == wanted]
    for row in named:
        if row.weights == weights:
            return row
    if named:
        raise ConfigError(
            f"the layer of {model} in {source} was found with other weights: got "
            f"{', '.join(row.weights for row in named)}; expected {weights}. Run `bertscore-beam "
            "tune` with these weights, or give --num-layers."
        )
    known = ", ".join(sorted({row.model for row in rows})) or "none"
    raise ConfigError(
        f"{source} names no layer for {model}: got rows for {known}; expected one for each model "
        "that scores. Run `bertscore-beam tune --registry` for it, or give --num-layers."
    )
