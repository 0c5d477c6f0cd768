"""Columns: which can be scored, ours, those from the names of folders, and nested ones by path."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import (
    OUTPUT_COLUMNS,
    TableFields,
    append_scores,
    check_collisions,
    check_columns,
)
from bertscore_beam.dump.partitions import partitions_of, with_partitions
from bertscore_beam.dump.paths import Column, column_of
from bertscore_beam.dump.read_rows import read_split
from bertscore_core.errors import ConfigError, InputError
from tests.support.tables import PAIRS
from tests.support.text_files import plan_text, read_plan, to_csv, write_text

GOOD_TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.large_string()),
    pa.null(),
]


GOOD_LISTS = [
    pa.large_list(pa.large_string()),
    pa.list_(pa.string(), 3),
    *map(pa.list_, GOOD_TEXTS),
]


@pytest.mark.parametrize("kind", GOOD_TEXTS + GOOD_LISTS, ids=str)
def test_text_types_are_accepted_and_lists_for_references_only(kind):
    check_columns(pa.schema([("c", pa.string()), ("r", kind)]), "c", "r")
    check_columns(pa.schema([("r", kind)]), None, "r")
    if kind in GOOD_LISTS:
        with pytest.raises(InputError, match=r"candidate column 'r' holds no texts: got type"):
            check_columns(pa.schema([("r", kind)]), "r", "r")
    else:
        check_columns(pa.schema([("r", kind)]), "r", "r")


@pytest.mark.parametrize("name", OUTPUT_COLUMNS)
def test_input_with_one_of_our_columns_is_refused(name):
    with pytest.raises(ConfigError, match=rf"already has score columns: got {name}; expected none"):
        check_collisions(pa.schema([(name, pa.int8())]))
    check_collisions(pa.schema([("bertscore_other", pa.int8())]))


def test_scores_follow_the_input_in_a_fixed_order_and_keep_its_metadata():
    table = pa.table({"a": [1]}, metadata={"kept": "1", "replaced": "old"})
    scores = {
        columns.ERROR: pa.array([None], pa.string()),
        columns.F1: pa.array([0.5], pa.float32()),
        columns.SCORES["precision"]: pa.array([0.5], pa.float32()),
    }
    got = append_scores(table, scores, {"replaced": "new ü"})
    assert got.column_names == ["a", "bertscore_precision", columns.F1, columns.ERROR]
    assert got.schema.metadata == {b"kept": b"1", b"replaced": "new ü".encode()}
    assert table.column_names == ["a"]


# --- From the names of folders, and by dotted path ----------------------------------------------

TABLE = pa.table(
    {
        "response": [{"text": "a", "meta": {"lang": "de"}}, None],
        "a.b": ["exact", "name"],
        "a": [{"b": "nested"}, {"b": "column"}],
    }
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/d/dt=2026-01-01/lang=de/x.parquet", {"dt": "2026-01-01", "lang": "de"}),
        ("s3://b/a%20b=x%2Fy/x.parquet", {"a b": "x/y"}),
        ("https://h/k=1/x.parquet?k2=a/b=3", {"k": "1"}),
        ("/d/k=__HIVE_DEFAULT_PARTITION__/x=1.parquet", {"k": None}),
        ("/d/k=1/k=2/x.parquet", {"k": "2"}),
        ("/d/a=b=c/=d/x.parquet", {"a": "b=c"}),
        ("/d/k=/x.parquet", {"k": ""}),
        ("/d/x=3/x.parquet", {}),  # the file's own column comes first
    ],
)
def test_folders_of_the_form_key_value_are_columns(path, expected):
    table = with_partitions(pa.table({"x": [1, 2]}), partitions_of(path))
    assert table.to_pylist() == [{"x": 1, **expected}, {"x": 2, **expected}]
    empty = pa.Table.from_batches([], pa.schema({"x": pa.int64()}))
    assert with_partitions(empty, partitions_of(path)).schema.equals(table.schema)


def test_partitioned_folders_of_both_kinds_are_read_with_their_columns(tmp_path):
    rows = {"candidate": ["a"], "reference": ["b"]}
    source = tmp_path / "dump"
    (source / "dt=2026-01-01").mkdir(parents=True)
    pq.write_table(pa.table(rows), source / "dt=2026-01-01" / "x.parquet")
    write_text(source / "dt=2026-01-02" / "x.csv", to_csv([list(rows), ["c", "d"]]))
    plan = plan_text(source, tmp_path / "out", fields=replace(PAIRS, group=("dt",)))
    table, _ = read_plan(plan)
    assert table["dt"].to_pylist() == ["2026-01-01", "2026-01-02"]
    assert read_split(plan.splits[0], ["dt"]).column_names == ["dt"]
    assert [bool(split.reading) for split in plan.splits] == [True, True]


@pytest.mark.parametrize(
    ("name", "root", "values"),
    [
        ("response.text", "response", ["a", None]),
        ("response.meta.lang", "response", ["de", None]),
        ("a.b", "a.b", ["exact", "name"]),
        ("a", "a", [{"b": "nested"}, {"b": "column"}]),
    ],
)
def test_column_by_path_through_structs_with_their_nulls(name, root, values):
    column = Column.find(TABLE.schema, name)
    assert column is not None
    assert column.top.name == root
    assert column_of(TABLE, name).to_pylist() == values


def test_path_that_is_not_there_is_an_error_that_knows_near_ones():
    with pytest.raises(InputError, match=r"Did you mean 'response\.text'"):
        check_columns(TABLE.schema, "response.txt", "a.b")
    with pytest.raises(KeyError):
        column_of(TABLE, "response.none")


def test_nested_parquet_columns_can_be_scored_and_counted(tmp_path):
    source = tmp_path / "x.parquet"
    pq.write_table(TABLE, source, row_group_size=1)
    fields = TableFields(candidate_column="response.text", reference_column="response.meta.lang")
    plan = plan_text(source, tmp_path / "out", 1, fields=fields)
    assert read_plan(plan)[0].equals(TABLE)
    found = read_split(plan.splits[0], ["response.meta.lang"])
    assert column_of(found, "response.meta.lang").to_pylist() == ["de"]


def test_a_field_that_a_struct_has_twice_is_not_unique():
    schema = pa.schema([("r", pa.struct([("c", pa.string())] * 2)), ("reference", pa.string())])
    with pytest.raises(InputError, match=r"'r\.c' is not unique: got 2 columns of that name"):
        check_columns(schema, "r.c", "reference")
    check_columns(schema.append(pa.field("r.c", pa.string())), "r.c", "reference")
