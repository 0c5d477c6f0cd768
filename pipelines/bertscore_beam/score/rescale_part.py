"""Rescale one part of a run from its raw scores."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.logical_types import has_utc_times
from bertscore_beam.dump.parquet import open_parquet
from bertscore_beam.dump.parts import write_part
from bertscore_beam.score.scored_table import part_metadata
from bertscore_core.baseline import rescale
from bertscore_core.signature import Signature
from bertscore_core.tokens import FloatArray

_MEASURES = tuple(zip(columns.SCORES.values(), columns.RAW_SCORES.values(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaledPart:
    """A part with other scores.

    Attributes:
        data: The Parquet file.
        precision: Sum over its scored rows.
        recall: The same.
        f1: The same.
    """

    data: bytes
    precision: float
    recall: float
    f1: float


def rescaled_part(path: str, row: FloatArray, signature: Signature) -> RescaledPart:
    """Return a part as `score --rescale` would have written it.

    Args:
        path: The part.
        row: Precision, recall and F1 of the baseline. Shape (3,).
        signature: How the scores are made now.

    Raises:
        InputError: The part is damaged.
        OSError: It cannot be reached.
    """
    with open_parquet(path) as (file, _):
        table, utc_times = file.read(), has_utc_times(file.schema)
    inputs, before = columns.split_scores(table)
    raw = {name: before.get(raw_name, before[name]) for name, raw_name in _MEASURES}
    # All three at once, as the scorer does it. A null is not a number here, and a null afterwards.
    stacked = np.stack([_numbers(raw[name]) for name, _ in _MEASURES], axis=-1)
    final = rescale(stacked, row)
    missing = np.isnan(stacked[:, 0])
    after = dict(before)
    for number, (name, raw_name) in enumerate(_MEASURES):
        after[name] = pa.array(final[:, number], mask=missing)
        after[raw_name] = raw[name]
    precision, recall, f1 = (math.fsum(values.tolist()) for values in final[~missing].T)
    return RescaledPart(
        data=write_part(
            columns.append_scores(inputs, after, part_metadata(signature)), utc_times=utc_times
        ),
        precision=precision,
        recall=recall,
        f1=f1,
    )


def _numbers(column: Any) -> FloatArray:
    values: FloatArray = column.to_numpy(zero_copy_only=False).astype(np.float32)
    return values
