"""What every statistic of agreement takes, and the rule for numbers that are missing.

Scores come as S settings (a layer, a measure, with idf or without) of the same N rows, so that all
settings are compared on the same segments. **Missing numbers:** a statistic takes none; leave rows
out with `complete_rows`, for all settings together. **Constant numbers:** a side that does not vary
orders nothing, and what needs an order is NaN.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import InputError
from bertscore_core.tokens import BoolArray, IntArray

Doubles = npt.NDArray[np.float64]


def complete_rows(people: npt.ArrayLike, scores: npt.ArrayLike) -> BoolArray:
    """Return which rows have a judgement and a score of every setting.

    Args:
        people: Judgements; NaN or infinite where there is none. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).

    Returns:
        Shape (N,).
    """
    judged = np.isfinite(np.asarray(people, dtype=np.float64))
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    return np.asarray(judged & np.isfinite(rows).all(axis=0), dtype=np.bool_)


def checked(people: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    """Return judgements (N,) and scores (S, N) as float64.

    Raises:
        InputError: shapes do not fit, or a number is missing.
    """
    judged = np.asarray(people, dtype=np.float64)
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if judged.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(judged):
        raise InputError(
            f"judgements and scores do not fit: got shapes {judged.shape} and {rows.shape}; "
            "expected (rows,) and (settings, rows)."
        )
    missing = int((~complete_rows(judged, rows)).sum())
    if missing:
        raise InputError(
            f"{missing} of {len(judged)} rows have no judgement or no score of some setting; "
            "expected finite numbers. Leave these rows out (complete_rows finds them)."
        )
    return judged, rows


def numbered(
    keys: npt.NDArray[np.generic] | Sequence[object], rows: int, name: str
) -> tuple[IntArray, int]:
    """Number the different keys of rows from 0, in sorted order.

    Args:
        keys: One key for each row, such as an item or a system.
        rows: Number of rows, N.
        name: What the keys are, for the message.

    Returns:
        The number of each row's key, shape (N,), and how many keys there are.

    Raises:
        InputError: there is not one key for each row.
    """
    if len(keys) != rows:
        raise InputError(f"got {len(keys)} {name} for {rows} rows; expected one for each row.")
    found, numbers = np.unique(np.asarray(keys), return_inverse=True)
    return numbers.astype(np.int64), len(found)
