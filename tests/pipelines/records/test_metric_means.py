"""The means of metrics of one's own, in groups, whatever the size of their numbers."""

import json
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.records.groups import (
    described,
    group_row,
    group_rows,
    merge_statistics,
    statistics_of,
)
from bertscore_beam.records.show_groups import show_groups


def test_means_of_a_metric_of_any_size_are_right_and_shown_with_four_digits():
    """A mean was a multiple of 2^-36 / rows once, as if every metric were an F1."""
    values = {
        "small": [3.2e-20, 8e-21, 0.0, 0.0],
        "large": [1e308] * 4,
        "sentinels": [sys.float_info.max, -sys.float_info.max, 1e-6, -0.0],
        "least": [5e-324, 1e-308, 5e-324, 1e-308],
        "whole": [2.0**60, 1, 1, 2.0**60 + 256],
        "plain": [0.5, 0.25, 0.5, 0.75],
        "zero": [0.0, -0.0, -0.0, -0.0],
    }
    shown = {"small": "1.000e-20", "large": "1.000e+308", "sentinels": "2.500e-07"}
    shown |= {"least": "5.000e-309", "whole": "5.765e+17", "plain": "0.5000", "zero": "0.000"}
    table = pa.table(
        {name: np.full(4, 0.5) for name in columns.SCORES.values()}
        | {f"metric_{name}": own for name, own in values.items()}
        | {"by": list("aabb"), columns.ERROR: pa.array([None] * 4, pa.string())}
        | {columns.TRUNCATED: [False] * 4}
    )
    pieces = [statistics_of(table.slice(at, 1), ("by",), None, metrics=values) for at in range(4)]
    for parts in (pieces, pieces[::-1]):
        rows = group_rows(merge_statistics(parts))
        for row, places in zip(rows, (slice(4), slice(2), slice(2, 4)), strict=True):
            for name, own in values.items():
                mean = float(sum(map(Fraction, own[places])) / len(own[places]))
                assert row.values[f"metric_{name}_mean"] == mean
    plain = [described(row, ("by",)) for row in rows]
    json.dumps(plain, allow_nan=False)
    made = show_groups(plain, ("by",), 2)
    whole = dict(zip(made.columns, made.rows[0], strict=True))
    assert {name: whole[f"mean {name}"] for name in shown} == shown
    place, absent = table.column_names.index("metric_small"), pa.array([None] * 4, pa.float64())
    none = table.set_column(place, "metric_small", absent)
    values = group_row((), statistics_of(none, (), None, metrics=values).total).values
    assert (values["metric_small_mean"], values["metric_small_rows"]) == (None, 0)
