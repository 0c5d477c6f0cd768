"""BERTScore on a frame of pandas or Polars, or an Arrow table, in one call."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from bertscore_beam.dump.columns import check_collisions
from bertscore_beam.pairs.batches import ScoreBatches
from bertscore_core.errors import InputError

_Frame = TypeVar("_Frame")


def score_frame(
    frame: _Frame, *, candidate: str = "candidate", reference: str = "reference", **options: Any
) -> _Frame:
    """Return a frame with the score columns of `bertscore-beam score` after its own.

    No row is dropped, and order, index and the other columns are those of the frame. A row that
    cannot be scored has nulls, and its reason in `bertscore_error`.

    Args:
        frame: A pandas or Polars `DataFrame`, or a `pyarrow.Table`.
        candidate: Column of the candidates, by name or by a path into nested columns.
        reference: Column of the references: a text or a list of texts in each row.
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
        scores = _scores(scorer, lambda: pa.Table.from_pandas(frame[wanted], preserve_index=False))
        added = {name: column.array for name, column in scores.to_pandas().items()}
        scored = frame.assign(**added)
    elif polars is not None and isinstance(frame, polars.DataFrame):
        scores = _scores(scorer, frame.select(_wanted(frame.columns, scorer)).to_arrow)
        scored = frame.hstack(polars.from_arrow(scores))
    else:
        raise InputError(
            f"the frame cannot be scored: got {type(frame).__name__}; expected a DataFrame of "
            "pandas or Polars, or a pyarrow.Table. Collect a lazy frame first; `BertScorer` takes "
            "lists."
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


def _scores(scorer: ScoreBatches, read: Callable[[], pa.Table]) -> pa.Table:
    try:
        table = read()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"the columns cannot be read: got {str(error).splitlines()[0]!r}; expected each column "
            "once, with values of one type. Make all values of a column texts, or all lists of "
            "texts."
        ) from error
    return scorer(table).drop_columns(table.column_names)
