"""Tables of every type, Parquet files of them and the splits of those."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.parquet import read_layout
from bertscore_beam.dump.plan import Plan, plan_inputs
from bertscore_beam.dump.splits import Split, plan_file
from bertscore_beam.dump.texts import UnreadableText

ROWS = 50


BAD = UnreadableText.INVALID_UTF8


def every_type() -> pa.Table:
    """A table with a column of every type that a dump may hold, nulls in each."""
    texts = [None if i % 7 == 3 else f"text {i % 5} ü" for i in range(ROWS)]
    lists = [None if i % 5 == 4 else texts[: i % 4] for i in range(ROWS)]
    zone = datetime.UTC
    stamp = datetime.datetime(2026, 1, 1, 12, 30, 1, 123456, tzinfo=zone)
    every: dict[str, pa.Array] = {
        "candidate": pa.array(texts, pa.string()),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts, pa.string_view()),
        "dictionary": pa.array(texts).dictionary_encode(),
        "reference": pa.array(lists, pa.list_(pa.string())),
        "large_list": pa.array(lists, pa.large_list(pa.large_string())),
        "pair": pa.array([["x", None]] * ROWS, pa.list_(pa.string(), 2)),
        "struct": pa.array([None if i % 3 == 0 else {"a": i, "b": ["x"]} for i in range(ROWS)]),
        "struct of dictionary": pa.array(
            [None if i % 5 == 0 else {"a": texts[i]} for i in range(ROWS)],
            pa.struct({"a": pa.dictionary(pa.int32(), pa.string())}),
        ),
        "list of dictionary": pa.array(
            lists, pa.list_(pa.dictionary(pa.int32(), pa.large_string()))
        ),
        "map": pa.array([[("k", i)] for i in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        "utc": pa.array([stamp, None] * (ROWS // 2), pa.timestamp("us", "UTC")),
        "paris": pa.array([stamp, None] * (ROWS // 2), pa.timestamp("ns", "Europe/Paris")),
        "naive": pa.array([None, 7] * (ROWS // 2), pa.timestamp("ms")),
        "date": pa.array([datetime.date(2026, 1, 1), None] * (ROWS // 2)),
        "time": pa.array([1, None] * (ROWS // 2), pa.time64("us")),
        "duration": pa.array([1, None] * (ROWS // 2), pa.duration("s")),
        "decimal": pa.array([decimal.Decimal("1.50"), None] * (ROWS // 2), pa.decimal128(9, 2)),
        "bytes": pa.array([b"\xff", None] * (ROWS // 2)),
        "flag": pa.array([True, None] * (ROWS // 2)),
        "small": pa.array([i % 100 for i in range(ROWS)], pa.int8()),
        "unsigned": pa.array(range(ROWS), pa.uint64()),
        "float": pa.array([float("nan"), None] * (ROWS // 2), pa.float32()),
        "half": pa.array([1.5, None] * (ROWS // 2), pa.float16()),
        "nulls": pa.nulls(ROWS),
        "uuid": pa.array([bytes(16)] * ROWS, pa.uuid()),
    }
    fields = [
        pa.field(name, column.type, metadata={"origin": f"column {name}"})
        for name, column in every.items()
    ]
    schema = pa.schema(fields, metadata={"dump": "2026-01-01", "pandas": "{}"})
    return pa.table(list(every.values()), schema=schema)


def write(path: Path, table: pa.Table, row_group_size: int | None = None, **options: Any) -> str:
    pq.write_table(table, path, row_group_size=row_group_size, **options)
    return str(path)


def plan(path: str, target_rows: int) -> list[Split]:
    layout = read_layout(path)
    blank = Split(path=path, input_name="x.parquet", file_size=layout.file_size, file_version="")
    return plan_file(blank, layout.row_groups, target_rows=target_rows, target_bytes=10**9)


PAIRS = TableFields(candidate_column="candidate", reference_column="reference")


def plan_pairs(*globs: object, rows: int | None = 1000, **changes: Any) -> Plan:
    """Plan inputs with columns `candidate` and `reference`, without an import of text."""
    files = expand_inputs([str(glob) for glob in globs])
    usual = {"fields": PAIRS, "target_bytes": 10**9}
    return plan_inputs(files, target_rows=rows, **(usual | changes))


def same(left: pa.Table, right: pa.Table) -> bool:
    """Tell whether two tables are equal, NaN being equal to NaN, metadata included."""
    return bool(left.schema.equals(right.schema, check_metadata=True)) and repr(
        left.to_pylist()
    ) == repr(right.to_pylist())


def read_whole(path: str) -> pa.Table:
    file = pq.ParquetFile(path)
    return pa.concat_tables(map(file.read_row_group, range(file.num_row_groups)))
