"""BERTScore on a frame of pandas or Polars, or an Arrow table, in one call."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from bertscore_beam.dump.columns import check_collisions
from bertscore_beam.pairs.batches import ScoreBatches
from bertscore_core.errors import InputError

_Frame = TypeVar("_Frame")

_LISTS = {list, tuple, np.ndarray}
"""What a list of texts may be in a column of pandas."""


def score_frame(
    frame: _Frame, *, candidate: str = "candidate", reference: str = "reference", **options: Any
) -> _Frame:
    """Return a frame with the score columns of `bertscore-beam score` after its own.

    No row is dropped, and order, index and the other columns are those of the frame. A row that
    cannot be scored has nulls, and its reason in `bertscore_error`.

    Args:
        frame: A pandas or Polars `DataFrame`, or a `pyarrow.Table`.
        candidate: Column of the candidates, by name or by a path into nested columns.
        reference: Column of the references: a text or a list of texts in each row. A column of
            pandas may mix both.
        **options: As for `ScoreBatches`, such as `model`, `language` and `device`.

    Raises:
        InputError: It is not such a frame, or a column is missing or has a wrong type.
        ConfigError: The options cannot work, or the frame has score columns already.

    Examples:
        >>> scored = score_frame(frame, candidate="answer", reference="gold", language="en")
    """
    scorer = ScoreBatches(candidate_column=(candidate,), reference_column=reference, **options)
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")  # who has a frame has it
    scored: _Frame
    if isinstance(frame, pa.Table):
        scored = scorer(frame)
    elif pandas is not None and isinstance(frame, pandas.DataFrame):
        wanted = _wanted(frame.columns, scorer)
        scores = _scores(scorer, _rows_of(frame[wanted]))
        added = {name: column.array for name, column in scores.to_pandas().items()}
        scored = frame.assign(**added)
    elif polars is not None and isinstance(frame, polars.DataFrame):
        scores = _scores(scorer, _rows_of_polars(frame.select(_wanted(frame.columns, scorer))))
        scored = frame.hstack(polars.from_arrow(scores))
    else:
        raise InputError(
            f"the frame cannot be scored: got {type(frame).__name__}; expected a DataFrame of "
            "pandas or Polars, or a pyarrow.Table. Collect a lazy frame first; of a Dataset of "
            "Hugging Face give `.to_pandas()`; `BertScorer` takes lists."
        )
    return scored


def _wanted(names: Sequence[Any], scorer: ScoreBatches) -> list[Any]:
    """Return the columns of a frame that are read: the others may be of any type."""
    check_collisions(pa.schema([(str(name), pa.null()) for name in names]))

    def is_at(used: str, name: Any) -> bool:
        return used == name or used.startswith((f"{name}.", f"{name}["))

    for used in scorer.columns:
        if not any(is_at(used, name) for name in names):
            raise InputError(
                f"the frame has no column {used!r}: got the columns {[*map(str, names)]}; expected "
                "one. Name the column of candidates with candidate=, of references with reference=."
            )
    return [name for name in names if any(is_at(used, name) for used in scorer.columns)]


def _rows_of(frame: Any) -> pa.Table:
    """Return the columns of a frame of pandas as Arrow has them, in their order."""
    names = [*map(str, frame.columns)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(
            f"the frame has two columns {doubled[0]!r}; expected each column once. Rename one."
        )
    return pa.table([_array_of(name, frame[name]) for name in frame.columns], names)


def _rows_of_polars(frame: Any) -> pa.Table:
    try:
        return frame.to_arrow()
    except pa.ArrowException as error:
        raise InputError(
            f"the frame cannot be read: got columns of the types {[*map(str, frame.dtypes)]}; "
            "expected types that Arrow has, with texts. Convert the column."
        ) from error


def _array_of(name: object, values: Any) -> pa.Array | pa.ChunkedArray:
    """Return a column of pandas as Arrow has it; beside lists of texts, a text is a list of one."""
    if values.dtype == object:  # Arrow takes no float32 NaN for missing
        values = values.where(values.notna(), None)
    kinds = set(map(type, values))
    if str in kinds and not kinds.isdisjoint(_LISTS):
        values = [[value] if isinstance(value, str) else value for value in values]
    try:
        return pa.array(values, from_pandas=True)
    except UnicodeEncodeError:
        got = "a lone surrogate, which is not a character"
        cure = "Decode the source with errors='replace'."
    except (pa.ArrowException, ValueError, TypeError):  # whose messages quote values
        got = "values of the types " + ", ".join(sorted(_kinds_of(values)))
        cure = "Make all of them texts, or lists of texts."
    raise InputError(
        f"the column {str(name)!r} cannot be read: got {got}; expected texts, or lists of texts "
        f"where there may be several. {cure}"
    )


def _kinds_of(values: Iterable[Any]) -> set[str]:
    kinds: set[str] = set()
    for value in values:
        kind = type(value).__name__
        inner = _kinds_of(value) if type(value) in _LISTS else ()
        kinds |= {f"{kind} of {within}" for within in inner} or {kind}
    return kinds


def _scores(scorer: ScoreBatches, rows: pa.Table) -> pa.Table:
    return scorer(rows).drop_columns(rows.column_names)
