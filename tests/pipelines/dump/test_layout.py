from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bertscore_beam.dump.layout import read_layout
from bertscore_beam.dump.parts import write_part
from bertscore_beam.dump.read_split import read_split
from bertscore_core.errors import InputError
from tests.support.tables import every_type, plan, write


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def broken_footer(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length] + bytes(length) + data[-8:]


def lying_length(data: bytes) -> bytes:
    return data[:-8] + b"\xff\xff\xff\x7fPAR1"


@pytest.mark.parametrize(
    "damage",
    [truncated, broken_footer, lying_length, lambda data: b"", lambda data: b"candidate,reference"],
    ids=["truncated", "broken footer", "lying length", "empty", "csv"],
)
def test_file_that_is_no_parquet_is_an_input_error(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(damage(write_part(every_type())))
    with pytest.raises(InputError, match=r"a.parquet' cannot be read as Parquet: got .*; expected"):
        read_layout(str(path))


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_layout(str(tmp_path / "none.parquet"))


def test_null_in_lists_of_fixed_size_is_told_from_the_footer(tmp_path: Path) -> None:
    pair = pa.list_(pa.string(), 2)
    table = pa.table(
        {
            "whole": pa.array([["a", None]] * 3, pair),
            "broken": pa.array([["a", "b"], None, ["c", "d"]], pair),
        }
    )
    path = write(tmp_path / "a.parquet", table)
    assert read_layout(path).null_lists == ("broken",)
    assert read_split(plan(path, 10)[0], ["whole"]).num_rows == 3
    with pytest.raises(InputError, match="where one of them is null: got such a list in a column"):
        read_split(plan(path, 10)[0])
