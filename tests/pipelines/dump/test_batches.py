"""Rows of a stream of batches are taken once."""

import pyarrow as pa
import pytest

from bertscore_beam.dump.batches import Batches

ROWS = pa.table({"n": list(range(30))})


def taken(batches: Batches, start: int, rows: int) -> list[int]:
    return [n for batch in batches.take(start, rows) for n in batch.column("n").to_pylist()]


@pytest.mark.parametrize("size", [1, 4, 30])
def test_rows_are_taken_in_order_and_some_are_passed_over(size: int) -> None:
    batches = Batches(iter(ROWS.to_batches(size)))
    assert taken(batches, 0, 5) == [0, 1, 2, 3, 4]
    assert taken(batches, 5, 1) == [5]
    assert taken(batches, 11, 6) == [11, 12, 13, 14, 15, 16]
    assert taken(batches, 28, 9) == [28, 29]


def test_rows_that_were_passed_are_an_error_and_not_other_rows() -> None:
    batches = Batches(iter(ROWS.to_batches(4)))
    assert taken(batches, 10, 2) == [10, 11]
    with pytest.raises(ValueError, match="row 3 was passed: the stream is at row 12"):
        taken(batches, 3, 2)
