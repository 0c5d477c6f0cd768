"""Every input column comes out as it went in: read back by the engine that wrote the file."""

import datetime
import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import columns as dump_columns
from bertscore_beam.dump.columns import SCHEMA_KEY, TableFields, append_scores
from bertscore_beam.dump.parquet import read_layout, write_part
from bertscore_beam.dump.plan import Resources
from bertscore_beam.dump.read_rows import read_split
from bertscore_core import InputError
from tests.support.tables import plan_pairs

PAIR = "'a cat' AS candidate, 'the cat' AS reference"


def passed_through(path: Path) -> Path:
    """Write the one part of a file, with a score column, where no model is needed for it."""
    (split,) = plan_pairs(path).splits
    table = read_split(split)
    scores = {dump_columns.F1: pa.array(np.zeros(table.num_rows, np.float32))}
    part = path.with_name(f"{path.stem}-part.parquet")
    scored = append_scores(table, scores, {"bertscore": "x"})
    part.write_bytes(write_part(scored, utc_times=split.utc_times))
    return part


def why_rejected(path: Path, **changes: Any) -> str:
    """Plan a file beside a good one and return why it is rejected."""
    good = path.with_name("good.parquet")
    columns = {"candidate": ["a"], "reference": ["b"], "kept": ["c"], "utc": ["d"]}
    pq.write_table(pa.table(columns), good)
    (rejected,) = plan_pairs(path, good, **changes).rejected_files
    assert rejected.reason == "bad_columns"
    return rejected.message


# --- DuckDB ------------------------------------------------------------------------------------

DUCKDB_KEPT = (
    "true; -5::TINYINT; 200::UTINYINT; 60000::USMALLINT; 18446744073709551615::UBIGINT; NULL; "
    "170141183460469231731687303715884105727::HUGEINT; 1.5::DECIMAL(9,2); -1.5::DECIMAL(38,2); "
    "1.5::FLOAT; DATE '0001-01-01'; TIME '12:00:00.123456'; TIMETZ '12:00:00+02'; "
    "TIMESTAMP '9999-12-31 00:00:00'; '9999-12-31'::TIMESTAMP_MS; '101'::BIT; "
    "'2020-01-01 00:00:00.123456789'::TIMESTAMP_NS; TIMESTAMPTZ '2020-01-01 00:00:00+02'; "
    "'00112233-4455-6677-8899-aabbccddeeff'::UUID; '{\"a\":1}'::JSON; '\\xAA'::BLOB; "
    "'a'::ENUM('a','b'); [1,2]; [1,2]::INTEGER[2]; ['{}'::JSON]; {'a': 1, 'j': '{}'::JSON}; "
    "MAP{'a': TIMESTAMP '9999-12-31'}"
)
DUCKDB_REFUSED = {
    "interval": ("INTERVAL '1 month 2 days'", "'kept' (INTERVAL)"),
    "interval in a struct": ("{'a': 1, 'i': INTERVAL 1 DAY}", "'kept.i' (INTERVAL)"),
    "interval in a map": ("MAP{'a': INTERVAL 1 DAY}", "(INTERVAL)"),
    "variant": ("1::VARIANT", "'kept' (VARIANT)"),
    "times": ("TIMETZ '12:00:00+02' AS utc, TIME '12:00:00'", "'utc' (TIME in UTC"),
}


def write_duckdb(path: Path, expression: str) -> Path:
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {PAIR}, {expression} AS kept) TO '{path}'")
    return path


def read_duckdb(path: Path) -> tuple[Any, Any]:
    with duckdb.connect() as connection:
        query = f"SELECT candidate, reference, kept FROM '{path}'"  # noqa: S608 - our own path
        types = connection.execute(f"DESCRIBE {query}").fetchall()
        return [kind[:2] for kind in types], repr(connection.execute(query).fetchall())


@pytest.mark.parametrize("expression", DUCKDB_KEPT.split("; "))
def test_a_column_of_duckdb_has_its_type_and_values_in_the_output(tmp_path, expression):
    path = write_duckdb(tmp_path / "in.parquet", expression)
    assert read_duckdb(passed_through(path)) == read_duckdb(path)


@pytest.mark.parametrize("kind", DUCKDB_REFUSED)
def test_a_column_that_would_lose_its_type_is_left_out_or_refused_where_it_is_needed(
    tmp_path, kind
):
    expression, words = DUCKDB_REFUSED[kind]
    path = write_duckdb(tmp_path / "in.parquet", expression)
    plan = plan_pairs(path)
    (note,) = plan.notes
    assert words in note
    rest = ["candidate", "reference", *(["kept"] if kind == "times" else [])]
    assert read_split(plan.splits[0]).column_names == rest
    needed = "utc" if kind == "times" else "kept"
    message = why_rejected(path, resources=Resources(group_by=[needed]))
    assert "columns have types that would be lost: got" in message
    assert words in message


def test_a_file_whose_references_alone_are_read_may_have_any_other_column(tmp_path):
    path = write_duckdb(tmp_path / "in.parquet", DUCKDB_REFUSED["interval"][0])
    fields = TableFields(reference_column="reference")
    assert plan_pairs(path, fields=fields).rejected_files == ()


# --- Polars ------------------------------------------------------------------------------------


def polars_frame() -> pl.DataFrame:
    moment = datetime.datetime(9999, 12, 31, 1, 2, 3, 456789)
    return pl.DataFrame(
        {
            "candidate": ["a cat", "a"],
            "reference": ["the cat", "b"],
            "small": pl.Series([1, None], dtype=pl.Int8),
            "unsigned": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
            "half": pl.Series([1.5, None], dtype=pl.Float16),
            "decimal": pl.Series([decimal.Decimal("1.50"), None], dtype=pl.Decimal(20, 2)),
            "date": [datetime.date(1, 1, 1), None],
            "time": [datetime.time(1, 2, 3, 456789), None],
            "duration": [datetime.timedelta(days=1, microseconds=1), None],
            "nanoseconds": pl.Series([1, None], dtype=pl.Duration("ns")),
            "naive": [moment, None],
            "paris": pl.Series([1, None], dtype=pl.Datetime("ns", "Europe/Paris")),
            "category": pl.Series(["x", None], dtype=pl.Categorical),
            "enum": pl.Series(["x", None], dtype=pl.Enum(["x", "y"])),
            "bytes": [b"\xff", None],
            "lists": pl.Series([["x"], None], dtype=pl.List(pl.Categorical)),
            "array": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
            "struct": [{"a": 1, "b": [moment]}, {"a": None, "b": []}],
            "nothing": [None, None],
        }
    )


def test_columns_of_polars_have_their_types_and_values_in_the_output(tmp_path):
    frame = polars_frame()
    frame.write_parquet(tmp_path / "in.parquet")
    back = pl.read_parquet(passed_through(tmp_path / "in.parquet"))
    assert back.drop(dump_columns.F1).schema == frame.schema
    assert back.drop(dump_columns.F1).equals(frame)


# --- pandas and Hugging Face datasets: what they keep in the metadata --------------------------


def test_columns_and_index_of_pandas_come_back(tmp_path):
    frame = pd.DataFrame(
        {
            "candidate": ["a", "b"],
            "reference": ["c", "d"],
            "kind": pd.Categorical(["x", "y"]),
            "at": pd.to_datetime(["2020-01-01 00:00:00.123456789"] * 2),
        },
        index=pd.Index([5, 6], name="row"),
    )
    frame.to_parquet(tmp_path / "in.parquet")
    back = pd.read_parquet(passed_through(tmp_path / "in.parquet")).drop(columns=dump_columns.F1)
    pd.testing.assert_frame_equal(back, frame)


def test_features_of_datasets_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    label = datasets.ClassLabel(names=["x", "y"])
    text = datasets.Value("string")
    features = datasets.Features({"candidate": text, "reference": text, "label": label})
    rows = {"candidate": ["a"], "reference": ["b"], "label": [1]}
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(tmp_path / "in.parquet")
    part = str(passed_through(tmp_path / "in.parquet"))
    back = datasets.load_dataset("parquet", data_files=part, split="train")
    assert back.features == {**features, dump_columns.F1: datasets.Value("float32")}
    assert back[0] == {"candidate": "a", "reference": "b", "label": 1, dump_columns.F1: 0.0}


# --- INT96 -------------------------------------------------------------------------------------

FIRST, LAST = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)


def write_int96(path: Path, unit: str, values: list[Any], **options: Any) -> Path:
    """Write timestamps as INT96: a column, in a list, in a struct and in a map."""
    kind = pa.timestamp(unit)
    stamps = pa.array(values, kind)
    every = pa.array(range(len(values) + 1), pa.int32())
    table = pa.table(
        {
            "candidate": ["a"] * len(values),
            "reference": ["b"] * len(values),
            "stamp": stamps,
            "list": pa.ListArray.from_arrays(every, stamps),
            "struct": pa.StructArray.from_arrays([stamps, stamps.cast(pa.int64())], ["t", "n"]),
            "map": pa.MapArray.from_arrays(every, pa.array(["k"] * len(values)), stamps),
            "other": pa.array([datetime.date(2020, 1, 1)] * len(values)),
        }
    )
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **options)
    assert pq.ParquetFile(path).schema.column(2).physical_type == "INT96"
    return path


def stamps_of(path: Path) -> tuple[pa.DataType, list[list[Any]]]:
    """Return the type of the timestamps of a part, and their integers in each column."""
    table = pq.ParquetFile(path).read()
    found = [
        table["stamp"].combine_chunks(),
        table["list"].combine_chunks().flatten(),
        table["struct"].combine_chunks().field(0),
        table["map"].combine_chunks().items,
    ]
    assert len({array.type for array in found}) == 1
    return found[0].type, [array.cast(pa.int64()).to_pylist() for array in found]


@pytest.mark.parametrize("store_schema", [True, False])
def test_int96_of_all_years_is_the_same_in_microseconds(tmp_path, store_schema):
    values = [FIRST, None, datetime.datetime(2026, 1, 2, 3, 4, 5, 678901), LAST]
    path = write_int96(tmp_path / "in.parquet", "us", values, store_schema=store_schema)
    kind, found = stamps_of(passed_through(path))
    assert kind == pa.timestamp("us")
    assert found == [pa.array(values, kind).cast(pa.int64()).to_pylist()] * 4


def test_int96_in_nanoseconds_loses_none_of_them(tmp_path):
    values = [-(2**63) + 10**9, 1, None, 2**63 - 10**9 - 7]
    kind, found = stamps_of(passed_through(write_int96(tmp_path / "in.parquet", "ns", values)))
    assert kind == pa.timestamp("ns")
    assert found == [values] * 4


def test_the_unit_of_int96_is_one_for_all_parts_of_a_file(tmp_path):
    path = write_int96(tmp_path / "in.parquet", "ns", [1000] * 9 + [1], row_group_size=2)
    splits = plan_pairs(path, rows=2).splits
    assert [split.timestamp_unit for split in splits] == ["ns"] * 5
    assert {read_split(split).schema.field("stamp").type for split in splits} == {
        pa.timestamp("ns")
    }


def test_int96_that_no_unit_holds_is_rejected_and_its_columns_named(tmp_path):
    """Nanoseconds in one row and the year 9999 in another: two files joined by their bytes."""
    fine = write_int96(tmp_path / "fine.parquet", "ns", [1]).read_bytes()
    nanosecond, later = (
        number.to_bytes(8, "little") + (2_440_588).to_bytes(4, "little") for number in (1, 2)
    )
    assert fine.count(nanosecond) >= 4
    path = write_int96(
        tmp_path / "in.parquet", "ns", [1, 2], use_dictionary=False, compression="none"
    )
    far = later[:8] + (5_373_484).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(later, far))
    message = why_rejected(path)
    assert "'stamp', 'list.list.element', 'struct.t', 'map.key_value.value'" in message
    assert "finer than a microsecond and some before 1677 or after 2262" in message


def test_a_split_whose_int96_does_not_fit_the_unit_is_an_error_and_no_change(tmp_path):
    path = write_int96(tmp_path / "in.parquet", "ns", [1])
    (split,) = plan_pairs(path).splits
    with pytest.raises(InputError, match="stored as INT96, would change"):
        read_split(replace(split, timestamp_unit="us"))


# --- Other types that Arrow does not write as it reads them --------------------------------------


def write_json_as(path: Path, logical: str) -> Path:
    """Write a column of JSON and mark it otherwise in the footer: pyarrow writes no such types."""
    texts = pa.array(["x", None], pa.json_())
    table = pa.table({"candidate": ["a", "b"], "reference": ["c", "d"], "kept": texts})
    pq.write_table(table, path, store_schema=False)
    marked = {"ENUM": b"\x08\x4c\x4c\x00\x00", "BSON": b"\x28\x4c\xdc\x00\x00"}[logical]
    path.write_bytes(path.read_bytes().replace(b"\x26\x4c\xcc\x00\x00", marked))
    assert pq.ParquetFile(path).schema.column(2).logical_type.type == logical
    return path


def test_enum_comes_out_as_text(tmp_path):
    part = passed_through(write_json_as(tmp_path / "in.parquet", "ENUM"))
    assert pq.ParquetFile(part).schema.column(2).logical_type.type == "STRING"
    assert pq.ParquetFile(part).read()["kept"].to_pylist() == ["x", None]


def test_bson_is_left_out_by_name(tmp_path):
    assert "'kept' (BSON)" in plan_pairs(write_json_as(tmp_path / "in.parquet", "BSON")).notes[0]


def test_file_without_rows_keeps_extension_types_inside_lists(tmp_path):
    kind = pa.list_(pa.json_())
    schema = pa.schema({"candidate": pa.string(), "reference": pa.string(), "kept": kind})
    pq.ParquetWriter(tmp_path / "in.parquet", schema).close()
    part = passed_through(tmp_path / "in.parquet")
    assert read_layout(str(part)).schema.field("kept").type == kind


# --- Spark -------------------------------------------------------------------------------------

SPARK_ROWS = """
spark.sql('''
    select 'a cat' candidate, 'the cat' reference, timestamp'2020-01-01 00:00:00.123456' stamp,
        timestamp'9999-12-31 23:59:59.999999 UTC' last, timestamp'0001-01-01 00:00:00 UTC' first,
        timestamp_ntz'2020-01-01 00:00:00' naive, date'0001-01-01' day,
        interval '1' day days, interval '3' year years, cast(1 as tinyint) tiny,
        cast(1.5 as decimal(38, 2)) price, array(timestamp'9999-12-31 00:00:00 UTC') list,
        map('k', timestamp'9999-12-31 00:00:00 UTC') map,
        named_struct('t', timestamp'0001-01-01 00:00:00 UTC') struct, cast('xy' as binary) bytes
''').coalesce(1).write.parquet(arguments[0])
result = spark.conf.get("spark.sql.parquet.outputTimestampType")
"""
SPARK_COMPARED = """
def seen(path, *names):
    frame = spark.read.parquet(path)
    rows = frame.select(*[frame[name].cast("string") for name in names or frame.columns])
    return [frame.dtypes, [list(row) for row in rows.collect()]]
names = spark.read.parquet(arguments[0]).columns
result = [seen(arguments[0]), seen(arguments[1], *names)]
"""


@pytest.mark.long
@pytest.mark.process
def test_columns_of_spark_have_their_types_and_values_in_the_output_and_scores_are_seen(
    tmp_path, run_spark
):
    assert run_spark(SPARK_ROWS, tmp_path / "in") == "INT96"
    (path,) = (tmp_path / "in").glob("*.parquet")
    part = passed_through(path)
    (types, rows), (types_after, rows_after) = run_spark(SPARK_COMPARED, path, part)
    assert types_after == [*types, [dump_columns.F1, "float"]]
    assert len(rows[0]) == 15
    assert rows_after == rows


def test_what_spark_says_of_the_columns_is_left_out_where_it_cannot_be_read():
    table = pa.table({"candidate": ["a"]})
    scores = {
        dump_columns.F1: pa.array([0.5], pa.float32()),
        dump_columns.ERROR: pa.nulls(1, pa.string()),
    }
    for text in (b"", b"[]", b"{}", b'{"fields": 1}'):
        marked = table.replace_schema_metadata({SCHEMA_KEY: text, b"k": b"v"})
        assert append_scores(marked, scores, {}).schema.metadata == {b"k": b"v"}
    listed = b'{"type":"struct","fields":[{"name":"a"}]}'
    marked = table.replace_schema_metadata({SCHEMA_KEY: listed})
    seen = json.loads(append_scores(marked, scores, {}).schema.metadata[SCHEMA_KEY])
    names = [field["name"] for field in seen["fields"]]
    assert names == ["a", dump_columns.F1, dump_columns.ERROR]


# --- Arrow -------------------------------------------------------------------------------------

TEXT, BYTES = pa.string_view(), pa.binary_view()
VIEWS = {
    "text": pa.array(["a" * 20, None] * 10, TEXT),
    "bytes": pa.array([b"a" * 20, None] * 10, BYTES),
    "list": pa.array([["a" * 20, None], None] * 10, pa.list_(TEXT)),
    "map": pa.array([[("k", "v")], None] * 10, pa.map_(TEXT, TEXT)),
    "pair": pa.array([["a", "b"], [None, "c"]] * 10, pa.list_(TEXT, 2)),
}
STRUCT = {"x": TEXT, "b": BYTES}
IN_STRUCTS = {
    "struct": pa.array([{"x": "a" * 20, "b": b"\xff"}, None] * 10, pa.struct(STRUCT)),
    "structs": pa.array([[{"x": "a"}], [], None, [None]] * 5, pa.list_(pa.struct(STRUCT))),
    "map of structs": pa.array([[("k", {"x": "a"})], None] * 10, pa.map_(TEXT, pa.struct(STRUCT))),
}
"""Of these Arrow writes no slices, or none at all; other programs write them."""


@pytest.mark.parametrize("kept", [*VIEWS.values(), *IN_STRUCTS.values()], ids=[*VIEWS, *IN_STRUCTS])
def test_views_come_out_as_they_went_in_and_structs_of_them_with_large_values(kept):
    table = pa.table({"kept": kept})
    parts = [
        pq.read_table(pa.BufferReader(write_part(table.slice(first, 7))))["kept"]
        for first in range(0, 20, 7)
    ]
    written = pa.chunked_array([chunk for part in parts for chunk in part.chunks])
    assert written.to_pylist() == kept.to_pylist()
    is_kept = any(kept is one for one in VIEWS.values())
    assert (written.type == kept.type) == is_kept
