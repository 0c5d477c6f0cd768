import datetime
import decimal
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertscore_core.errors import ConfigError, InputError
from pipelines.io import columns, parquet
from pipelines.io.columns import (
    OUTPUT_COLUMNS,
    UnreadableText,
    append_scores,
    check_collisions,
    check_columns,
    reference_texts,
    texts_from_column,
)
from pipelines.io.files import write_atomically
from pipelines.io.nested import check_indices
from pipelines.io.parquet import read_layout, read_split, write_part
from pipelines.splits import Split, plan_file
from tests.support.s3 import over_http, s3_bucket

ROWS = 50


def every_type(rows: int = ROWS) -> pa.Table:
    """A table with a column of every type that a dump may hold, nulls in each."""
    texts = [None if i % 7 == 3 else f"text {i % 5} ü" for i in range(rows)]
    lists = [None if i % 5 == 4 else texts[: i % 4] for i in range(rows)]
    zone = datetime.UTC
    stamp = datetime.datetime(2026, 1, 1, 12, 30, 1, 123456, tzinfo=zone)
    every: dict[str, pa.Array] = {
        "candidate": pa.array(texts, pa.string()),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts, pa.string_view()),
        "dictionary": pa.array(texts).dictionary_encode(),
        "reference": pa.array(lists, pa.list_(pa.string())),
        "large_list": pa.array(lists, pa.large_list(pa.large_string())),
        "pair": pa.array([["x", None]] * rows, pa.list_(pa.string(), 2)),
        "struct": pa.array([None if i % 3 == 0 else {"a": i, "b": ["x"]} for i in range(rows)]),
        "map": pa.array([[("k", i)] for i in range(rows)], pa.map_(pa.string(), pa.int64())),
        "utc": pa.array([stamp, None] * (rows // 2), pa.timestamp("us", "UTC")),
        "paris": pa.array([stamp, None] * (rows // 2), pa.timestamp("ns", "Europe/Paris")),
        "naive": pa.array([None, 7] * (rows // 2), pa.timestamp("ms")),
        "date": pa.array([datetime.date(2026, 1, 1), None] * (rows // 2)),
        "time": pa.array([1, None] * (rows // 2), pa.time64("us")),
        "duration": pa.array([1, None] * (rows // 2), pa.duration("s")),
        "decimal": pa.array([decimal.Decimal("1.50"), None] * (rows // 2), pa.decimal128(9, 2)),
        "bytes": pa.array([b"\xff", None] * (rows // 2)),
        "flag": pa.array([True, None] * (rows // 2)),
        "small": pa.array([i % 100 for i in range(rows)], pa.int8()),
        "unsigned": pa.array(range(rows), pa.uint64()),
        "float": pa.array([float("nan"), None] * (rows // 2), pa.float32()),
        "half": pa.array([1.5, None] * (rows // 2), pa.float16()),
        "nulls": pa.nulls(rows),
        "uuid": pa.array([bytes(16)] * rows, pa.uuid()),
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
    return plan_file(
        path,
        "x.parquet",
        layout.row_groups,
        target_rows=target_rows,
        target_bytes=10**9,
        file_size=layout.file_size,
    )


def same(left: pa.Table, right: pa.Table) -> bool:
    """Tell whether two tables are equal, NaN being equal to NaN, metadata included."""
    return bool(left.schema.equals(right.schema, check_metadata=True)) and repr(
        left.to_pylist()
    ) == repr(right.to_pylist())


def read_whole(path: str) -> pa.Table:
    return pq.ParquetFile(path).read()


@pytest.mark.parametrize(
    ("row_group_size", "target_rows"),
    [(ROWS, ROWS), (10, 25), (7, 1000), (ROWS, 8), (20, 6), (1, 1)],
    ids=["whole file", "grouped", "all groups", "cut", "each group cut", "row by row"],
)
def test_splits_hold_every_row_once_with_its_type_and_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_size: int, target_rows: int
) -> None:
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 4)
    path = write(tmp_path / "a.parquet", every_type(), row_group_size)
    whole = read_whole(path)
    pieces = [read_split(split) for split in plan(path, target_rows)]
    assert len(pieces) >= ROWS // target_rows
    assert all(same(piece.slice(0, 0), whole.slice(0, 0)) for piece in pieces)
    assert same(pa.concat_tables(pieces), whole)


@pytest.mark.parametrize("name", every_type().column_names)
def test_every_type_survives_being_read_scored_and_written(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.parquet", every_type().select([name]), 10)
    source = pa.concat_tables([read_split(split) for split in plan(path, 6)])
    scored = append_scores(source, {columns.F1: pa.nulls(ROWS, pa.float32())}, {"bertscore": "x"})
    (tmp_path / "part.parquet").write_bytes(write_part(scored))
    back = read_whole(str(tmp_path / "part.parquet"))
    assert back.schema.field(0).equals(source.schema.field(0), check_metadata=True)
    assert repr(back[name].to_pylist()) == repr(source[name].to_pylist())
    assert back.schema.metadata[b"dump"] == b"2026-01-01"
    assert back.schema.metadata[b"bertscore"] == b"x"


@given(st.integers(1, 12), st.integers(1, 15), st.integers(1, 9))
def test_any_cut_reads_back_as_the_file(
    tmp_path_factory: pytest.TempPathFactory, row_group_size: int, target_rows: int, batch: int
) -> None:
    table = pa.table({"n": range(40), "d": pa.array(list("abcd") * 10).dictionary_encode()})
    path = write(tmp_path_factory.getbasetemp() / "cut.parquet", table, row_group_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_BATCH_ROWS", batch)
        pieces = [read_split(split) for split in plan(path, target_rows)]
    assert pa.concat_tables(pieces).to_pylist() == table.to_pylist()


def test_only_the_columns_asked_for_are_read_in_that_order(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "a.b": [3, 4], "list": [["x"], ["y"]], "z": ["p", "q"]})
    path = write(tmp_path / "a.parquet", table)
    for rows in (1, 2):
        got = read_split(plan(path, rows)[0], ["list", "a"])
        assert got.to_pydict() == {"list": [["x"], ["y"]][:rows], "a": [1, 2][:rows]}


def test_reading_stops_after_the_last_row_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"n": range(1000)}))
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 10)
    taken: list[int] = []
    original = parquet.take

    def counted(
        batches: Iterator[pa.RecordBatch], skip: int, rows: int
    ) -> Iterator[pa.RecordBatch]:
        def count() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                taken.append(batch.num_rows)
                yield batch

        return original(count(), skip, rows)

    monkeypatch.setattr(parquet, "take", counted)
    splits = plan(path, 100)
    assert read_split(splits[1])["n"].to_pylist() == list(range(100, 200))
    assert sum(taken) == 200


@pytest.mark.parametrize("empty", [every_type().slice(0, 0), pa.table({"x": pa.nulls(0)})])
def test_file_without_rows_gives_an_empty_table_with_its_schema(
    tmp_path: Path, empty: pa.Table
) -> None:
    path = write(tmp_path / "a.parquet", empty)
    (split,) = plan(path, 10)
    table = read_split(split)
    assert table.num_rows == 0
    assert table.schema.equals(read_layout(path).schema, check_metadata=True)
    assert pq.read_table(pa.BufferReader(write_part(table))).num_rows == 0


def test_columns_of_one_name_pass_through(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["same", "same"])
    (split,) = plan(write(tmp_path / "a.parquet", table), 10)
    got = pq.ParquetFile(pa.BufferReader(write_part(read_split(split)))).read()
    assert [column.to_pylist() for column in got.columns] == [[1], [2]]


def test_file_written_without_arrow_schema_is_read(tmp_path: Path) -> None:
    table = pa.table({"candidate": ["a"], "reference": [["b"]]})
    path = write(tmp_path / "a.parquet", table, store_schema=False, use_compliant_nested_type=False)
    (split,) = plan(path, 10)
    assert read_split(split).to_pylist() == [{"candidate": "a", "reference": ["b"]}]


def test_part_is_compressed_has_statistics_and_is_the_same_every_time() -> None:
    table = every_type()
    footer = pq.ParquetFile(pa.BufferReader(write_part(table))).metadata
    column = footer.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.statistics.has_min_max
    assert write_part(table) == write_part(every_type())


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


def test_damaged_pages_are_an_input_error_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    data = bytearray(write_part(pa.table({"n": [f"text {i}" for i in range(1000)]})))
    data[20:2000] = bytes(1980)
    path.write_bytes(data)
    for rows in (1000, 100):
        with pytest.raises(InputError, match="cannot be read as Parquet"):
            read_split(plan(str(path), rows)[0])


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_layout(str(tmp_path / "none.parquet"))


def test_file_that_changed_since_it_was_planned_is_an_input_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"n": range(10)}))
    (split,) = plan(path, 100)
    write(tmp_path / "a.parquet", pa.table({"n": range(11)}))
    with pytest.raises(InputError, match=r"has changed since it was planned: got 11 rows"):
        read_split(split)
    with pytest.raises(InputError, match="has changed since it was planned"):
        read_split(replace(split, file_rows=11))


@pytest.mark.parametrize("kind", ["memory", "s3", "http"])
def test_splits_are_read_through_fsspec(kind: str) -> None:
    table = every_type()
    with s3_bucket() as bucket:
        path = f"{bucket}/a b.parquet" if kind != "memory" else "memory://in/a b.parquet"
        write_atomically(path, write_part(table))
        if kind == "http":
            path = over_http(path)
        got = pa.concat_tables([read_split(split) for split in plan(path, 20)])
    assert repr(got.to_pylist()) == repr(table.to_pylist())


def test_no_more_is_fetched_from_an_object_store_than_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet, "_BUFFER_BYTES", 1000)
    fetched: list[int] = []
    file_type = importlib.import_module("s3fs.core").S3File
    fetch = file_type._fetch_range

    def counted(file: object, start: int, end: int) -> object:
        fetched.append(end - start)
        return fetch(file, start, end)

    monkeypatch.setattr(file_type, "_fetch_range", counted)
    table = pa.table({"text": [f"{i * 7919 % 10**8:08d}" * 4 for i in range(40_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, 10_000, compression="none", use_dictionary=False, data_page_size=4_000
    )
    data = bytes(sink.getvalue())
    with s3_bucket() as bucket:
        path = f"{bucket}/big.parquet"
        write_atomically(path, data)
        # The footer, a look at the first rows of each row group (37 kB), and the rows.
        for rows, most in ((40_000, 1.2), (10_000, 0.35), (100, 0.2)):
            first = plan(path, rows)[0]
            fetched.clear()
            assert read_split(first).num_rows == rows
            assert sum(fetched) < most * len(data)


def repeated(kind: str) -> pa.Table:
    """20,000 rows that each repeat one of three texts of 10,000 bytes; small on disk."""
    texts = pa.array([c * 10_000 for c in "xyz"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1] * 5000, pa.int32()), texts)
    if kind == "list":
        column = pa.ListArray.from_arrays(pa.array(range(20_001), pa.int32()), column)
    if kind == "struct":
        column = pa.StructArray.from_arrays([column], names=["text"])
    if kind == "map":
        keys = pa.array(["k"] * 20_000)
        column = pa.MapArray.from_arrays(pa.array(range(20_001), pa.int32()), keys, column)
    return pa.table({"n": range(20_000), "text": column})


@pytest.mark.parametrize("kind", ["string", "list", "struct", "map"])
def test_rows_far_larger_in_memory_than_on_disk_are_refused_before_they_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    limit = 8 << 20
    monkeypatch.setattr(parquet, "MAX_DECODED_BYTES", limit)
    monkeypatch.setattr(parquet, "_BATCH_BYTES", limit // 8)
    path = write(tmp_path / "a.parquet", repeated(kind), store_schema=False)
    assert os.path.getsize(path) < 200_000
    (whole,) = plan(path, 20_000)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(
            InputError,
            match=r"rows 0 to \d+ of '.*a.parquet' are too large: got \d+ bytes in memory, .*"
            r"expected at most 8388608 .*--split-rows \d+ or less",
        ):
            read_split(whole)
        small = plan(path, 400)
        assert read_split(small[-1])["n"].to_pylist() == list(range(19_600, 20_000))
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 4 * limit
    assert read_split(small[3]).equals(read_whole(path).slice(1200, 400))
    assert read_split(whole, ["n"]).num_rows == 20_000


def test_repeated_texts_are_no_burden_as_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_DECODED_BYTES", 8 << 20)
    table = repeated("string")
    path = write(tmp_path / "a.parquet", table)
    assert read_split(plan(path, 20_000)[0]).equals(table)


def test_rows_as_large_on_disk_as_was_asked_for_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_DECODED_BYTES", 1000)
    table = pa.table({"text": [f"{number}" * 1000 for number in range(50)]})
    path = write(tmp_path / "a.parquet", table, use_dictionary=False)
    assert read_split(plan(path, 50)[0]).equals(table)


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


def test_index_beside_its_dictionary_is_found() -> None:
    """Found by fuzzing: Arrow reads such a column without a word."""
    beside = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), ["a"], safe=False)
    for column in (beside, pa.ListArray.from_arrays([0, 1, 2], beside)):
        with pytest.raises(pa.ArrowInvalid, match="indices from 0 to 7 for 1 values"):
            check_indices(column)
    whole = pa.array(["a", None]).dictionary_encode()
    for column in (whole, whole[:0], pa.StructArray.from_arrays([whole, whole], ["x", "y"])):
        check_indices(column)


def invalid_utf8(kind: pa.DataType = pa.string()) -> pa.ChunkedArray:  # noqa: B008 - a constant
    """A string column with a row that is not UTF-8."""
    raw = pa.array([b"fine", b"\xff\xfe", None, b"\xed\xa0\x80", "ü".encode()], pa.binary())
    column = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count)
    if pa.types.is_dictionary(kind):
        return pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, 2, 3, 4, 1], column)])
    if pa.types.is_list(kind):
        return pa.chunked_array([pa.ListArray.from_arrays([0, 2, 2, None, 5], column)])
    return pa.chunked_array(
        [raw.cast(pa.large_binary()).view(kind) if kind != pa.string() else column]
    )


BAD = UnreadableText.INVALID_UTF8


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_invalid_utf8_is_marked_in_its_row_alone(kind: pa.DataType) -> None:
    column = invalid_utf8(kind)
    assert column.type == kind
    assert texts_from_column(column) == ["fine", BAD, None, BAD, "ü"]
    assert texts_from_column(column.slice(1, 3)) == [BAD, None, BAD]


def test_invalid_utf8_is_marked_in_dictionaries_and_lists() -> None:
    dictionary = invalid_utf8(pa.dictionary(pa.int64(), pa.string()))
    assert texts_from_column(dictionary) == ["fine", BAD, None, BAD, "ü", BAD]
    lists = reference_texts(invalid_utf8(pa.list_(pa.string())))
    assert lists == [["fine", BAD], [], [None, BAD, "ü"], None]


def test_invalid_utf8_passes_through_byte_for_byte(tmp_path: Path) -> None:
    (split,) = plan(write(tmp_path / "a.parquet", pa.table({"c": invalid_utf8()})), 10)
    table = read_split(split)
    assert texts_from_column(table["c"]) == ["fine", BAD, None, BAD, "ü"]
    back = pq.ParquetFile(pa.BufferReader(write_part(table))).read()
    assert back["c"].cast(pa.binary()).to_pylist()[1] == b"\xff\xfe"


@pytest.mark.parametrize(
    "name", ["candidate", "large", "view", "dictionary", "nulls"], ids=lambda name: str(name)
)
def test_texts_of_every_text_type(name: str) -> None:
    table = every_type()
    expected = [None] * ROWS if name == "nulls" else table["candidate"].to_pylist()
    column = pa.chunked_array([*table[name].slice(0, 20).chunks, *table[name].slice(20).chunks])
    assert texts_from_column(column) == expected
    singles = [None if text is None else [text] for text in expected]
    assert reference_texts(column) == singles


@pytest.mark.parametrize("name", ["reference", "large_list", "pair"])
def test_texts_of_every_list_type(name: str) -> None:
    column = every_type()[name]
    assert reference_texts(column) == column.to_pylist()
    assert reference_texts(column.slice(3, 11)) == column.to_pylist()[3:14]


def test_lists_of_dictionaries_and_null_pairs_are_read() -> None:
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    lists = pa.chunked_array([pa.ListArray.from_arrays([0, 2, 3], words)])
    assert reference_texts(lists) == [["x", "y"], ["x"]]
    pairs = pa.chunked_array([pa.array([["a", "b"], None, ["c", None]], pa.list_(pa.string(), 2))])
    assert reference_texts(pairs) == [["a", "b"], None, ["c", None]]
    assert reference_texts(pairs.slice(1)) == [None, ["c", None]]
    nothing = pa.chunked_array([pa.array([[], None, [None]], pa.list_(pa.null()))])
    assert reference_texts(nothing) == [[], None, [None]]


GOOD_TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.large_string()),
    pa.null(),
]
GOOD_LISTS = [
    pa.list_(pa.string()),
    pa.large_list(pa.large_string()),
    pa.list_(pa.string(), 3),
    pa.list_(pa.dictionary(pa.int32(), pa.string())),
    pa.list_(pa.null()),
]
NO_TEXTS = [pa.int64(), pa.binary(), pa.struct([("a", pa.string())]), pa.list_(pa.int8())]


@pytest.mark.parametrize("kind", GOOD_TEXTS + GOOD_LISTS, ids=str)
def test_text_types_are_accepted_and_lists_for_references_only(kind: pa.DataType) -> None:
    check_columns(pa.schema([("c", pa.string()), ("r", kind)]), "c", "r")
    check_columns(pa.schema([("r", kind)]), None, "r")
    if kind in GOOD_LISTS:
        with pytest.raises(InputError, match=r"candidate column 'r' holds no texts: got type"):
            check_columns(pa.schema([("r", kind)]), "r", "r")
    else:
        check_columns(pa.schema([("r", kind)]), "r", "r")


@pytest.mark.parametrize("kind", NO_TEXTS, ids=str)
def test_other_types_are_refused_by_name(kind: pa.DataType) -> None:
    schema = pa.schema([("c", pa.string()), ("r", kind)])
    with pytest.raises(InputError, match=r"reference column 'r' holds no texts: got type .*expect"):
        check_columns(schema, "c", "r")


def test_missing_column_is_an_error_with_the_columns_there_are_and_the_nearest() -> None:
    schema = pa.schema([("id", pa.int64()), ("candidates", pa.string())])
    with pytest.raises(
        InputError,
        match=r"no candidate column 'candidate': got the columns \['id', 'candidates'\]; .*"
        r"Did you mean 'candidates'\? Name the right one with --candidate-column",
    ):
        check_columns(schema, "candidate", "reference")


def test_column_that_is_there_twice_is_an_error() -> None:
    schema = pa.schema([("c", pa.string()), ("c", pa.string())])
    with pytest.raises(InputError, match=r"'c' is not unique: got 2 columns"):
        check_columns(schema, "c", "c")


@pytest.mark.parametrize("name", OUTPUT_COLUMNS)
def test_input_with_one_of_our_columns_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"already has score columns: got {name}; expected none"):
        check_collisions(pa.schema([(name, pa.int8())]))
    check_collisions(pa.schema([("bertscore_other", pa.int8())]))


def test_scores_follow_the_input_in_a_fixed_order_and_keep_its_metadata() -> None:
    table = pa.table({"a": [1]}, metadata={"kept": "1", "replaced": "old"})
    scores = {
        columns.ERROR: pa.array([None], pa.string()),
        columns.F1: pa.array([0.5], pa.float32()),
        columns.PRECISION: pa.array([0.5], pa.float32()),
    }
    got = append_scores(table, scores, {"replaced": "new ü"})
    assert got.column_names == ["a", columns.PRECISION, columns.F1, columns.ERROR]
    assert got.schema.metadata == {b"kept": b"1", b"replaced": "new ü".encode()}
    assert table.column_names == ["a"]


def test_score_column_that_does_not_fit_is_refused() -> None:
    table = pa.table({"a": [1]})
    with pytest.raises(InputError, match="'bertscore_f1' does not fit: got 2 rows; expected 1"):
        append_scores(table, {columns.F1: pa.nulls(2)}, {})
    with pytest.raises(ConfigError, match="unknown score columns: got \\['f1'\\]"):
        append_scores(table, {"f1": pa.nulls(1)}, {})
    with pytest.raises(ConfigError, match="already has score columns"):
        append_scores(pa.table({columns.F1: [1]}), {columns.F1: pa.nulls(1)}, {})
