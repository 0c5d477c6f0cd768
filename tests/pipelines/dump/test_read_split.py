import gc
import os
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from bertscore_beam.dump import columns, parquet_rows, types
from bertscore_beam.dump.batches import Batches
from bertscore_beam.dump.columns import append_scores
from bertscore_beam.dump.nested import check_indices
from bertscore_beam.dump.parquet import open_sealed, read_layout, seal_in, write_part
from bertscore_beam.dump.read_rows import SplitReader, read_split
from bertscore_beam.dump.texts import texts_from_column
from bertscore_beam.dump.types import lost_types
from bertscore_core.errors import InputError
from tests.support.hostile import not_utf8
from tests.support.tables import BAD, ROWS, every_type, plan, read_whole, same, write


@settings(max_examples=settings.default.max_examples // 3)
@given(st.integers(1, ROWS), st.integers(1, ROWS + 1), st.integers(1, 9))
@example(ROWS, ROWS, 4)  # the whole file
@example(10, 25, 4)  # row groups are put together
@example(7, 1000, 4)
@example(ROWS, 8, 4)  # one is cut
@example(20, 6, 4)
@example(1, 1, 4)
def test_splits_hold_every_row_once_with_its_type_and_metadata(
    tmp_path_factory, row_group_size, target_rows, batch
):
    path = write(tmp_path_factory.getbasetemp() / "cut.parquet", every_type(), row_group_size)
    whole = read_whole(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_rows, "_BATCH_ROWS", batch)
        pieces = [read_split(split) for split in plan(path, target_rows)]
    assert len(pieces) >= ROWS // target_rows
    assert all(same(piece.slice(0, 0), whole.slice(0, 0)) for piece in pieces)
    assert same(pa.concat_tables(pieces), whole)


@pytest.mark.parametrize("name", every_type().column_names)
def test_every_type_survives_being_read_scored_and_written(tmp_path, name):
    path = write(tmp_path / "a.parquet", every_type().select([name]), 10)
    source = pa.concat_tables([read_split(split) for split in plan(path, 6)])
    scored = append_scores(source, {columns.F1: pa.nulls(ROWS, pa.float32())}, {"bertscore": "x"})
    (tmp_path / "part.parquet").write_bytes(write_part(scored))
    back = read_whole(str(tmp_path / "part.parquet"))
    assert back.schema.field(0).equals(source.schema.field(0), check_metadata=True)
    assert repr(back[name].to_pylist()) == repr(source[name].to_pylist())
    assert back.schema.metadata[b"dump"] == b"2026-01-01"
    assert back.schema.metadata[b"bertscore"] == b"x"


def test_only_the_columns_asked_for_are_read_in_that_order(tmp_path):
    table = pa.table({"a": [1, 2], "a.b": [3, 4], "list": [["x"], ["y"]], "z": ["p", "q"]})
    path = write(tmp_path / "a.parquet", table)
    for rows in (1, 2):
        got = read_split(plan(path, rows)[0], ["list", "a"])
        assert got.to_pydict() == {"list": [["x"], ["y"]][:rows], "a": [1, 2][:rows]}


def test_reading_stops_after_the_last_row_wanted(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", pa.table({"n": range(1000)}))
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 10)
    taken: list[int] = []

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            taken.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(parquet_rows, "Batches", lambda batches: Batches(count(batches)))
    splits = plan(path, 100)
    assert read_split(splits[1])["n"].to_pylist() == list(range(100, 200))
    assert sum(taken) == 200
    reader = SplitReader(splits[2:6])
    for number in (2, 4, 5):  # the rows of 3 are passed over
        got = reader.read(splits[number]).table
        assert got["n"].to_pylist() == list(range(100 * number, 100 * number + 100))
    assert sum(taken) == 200 + 600


def footers_in_memory():
    return sum(type(one) is pq.FileMetaData for one in gc.get_objects())


def test_the_footer_of_a_file_is_gone_when_a_split_is_read_and_needs_no_search_for_cycles(tmp_path):
    """Of a file of many row groups it takes megabytes, for each split."""
    table = every_type()
    path = write(tmp_path / "a.parquet", table, 10)
    splits = plan(path, 10)
    gc.collect()
    gc.disable()
    try:
        before = footers_in_memory()
        for split in splits:
            read_split(split)
            read_split(split, table.column_names[:1])
        assert footers_in_memory() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("empty", [every_type().slice(0, 0), pa.table({"x": pa.nulls(0)})])
def test_file_without_rows_gives_an_empty_table_with_its_schema(tmp_path, empty):
    path = write(tmp_path / "a.parquet", empty)
    (split,) = plan(path, 10)
    table = read_split(split)
    assert table.num_rows == 0
    assert table.schema.equals(read_layout(path).schema, check_metadata=True)
    assert pq.read_table(pa.BufferReader(write_part(table))).num_rows == 0


def test_columns_of_one_name_pass_through(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["same", "same"])
    (split,) = plan(write(tmp_path / "a.parquet", table), 10)
    got = pq.ParquetFile(pa.BufferReader(write_part(read_split(split)))).read()
    assert [column.to_pylist() for column in got.columns] == [[1], [2]]


@pytest.mark.parametrize("text", ["our seal: broken", f"seal:{1:040}", f"seal:{0:032}"])
def test_texts_that_look_like_the_seal_of_a_footer_stay(text):
    table = pa.table({text: [text, "b"]}).replace_schema_metadata({"note": text, text: "x"})
    data = write_part(table, notes={b"more": text.encode()})
    file = open_sealed(data)
    assert file.read().equals(table)
    assert file.schema_arrow.metadata == {b"note": text.encode(), text.encode(): b"x"}
    noted = file.metadata.metadata
    assert noted[b"more"] == noted[b"note"] == text.encode()
    assert noted[b"bertscore.seal"] == f"seal:{seal_in(data)}".encode()
    for place in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data)):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises((OSError, ValueError)):
            open_sealed(damaged)


def test_damaged_pages_are_an_input_error_and_not_a_crash(tmp_path):
    path = tmp_path / "a.parquet"
    data = bytearray(write_part(pa.table({"n": [f"text {i}" for i in range(1000)]})))
    data[20:2000] = bytes(1980)
    path.write_bytes(data)
    for rows in (1000, 100):
        with pytest.raises(InputError, match="cannot be read as Parquet"):
            read_split(plan(str(path), rows)[0])


def test_file_that_changed_since_it_was_planned_is_an_input_error(tmp_path):
    path = write(tmp_path / "a.parquet", pa.table({"n": range(10)}))
    (split,) = plan(path, 100)
    write(tmp_path / "a.parquet", pa.table({"n": range(11)}))
    with pytest.raises(InputError, match=r"has changed since it was planned: got 11 rows"):
        read_split(split)
    with pytest.raises(InputError, match="has changed since it was planned"):
        read_split(replace(split, file_rows=11))


def test_invalid_utf8_passes_through_byte_for_byte(tmp_path):
    (split,) = plan(write(tmp_path / "a.parquet", pa.table({"c": not_utf8("string")})), 10)
    table = read_split(split)
    assert texts_from_column(table["c"]) == ["a cat", BAD, BAD, "ü"]
    back = pq.ParquetFile(pa.BufferReader(write_part(table))).read()
    assert back["c"].cast(pa.binary()).to_pylist()[1] == b"\xff\xfe"


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
    tmp_path, monkeypatch, kind
):
    limit = 8 << 20
    monkeypatch.setattr(parquet_rows, "MAX_DECODED_BYTES", limit)
    monkeypatch.setattr(parquet_rows, "_BATCH_BYTES", limit // 8)
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


CODED = {"n": range(ROWS), "text": ["x" * 100] * ROWS, "c": every_type()["struct of dictionary"]}


@pytest.mark.parametrize(
    ("limit", "table", "options"),
    [
        (8 << 20, repeated("string"), {}),  # as dictionaries they are no burden
        # Read in batches, which end where a row group does if Arrow cannot join them.
        (1000, pa.table(CODED), {"row_group_size": 10}),
        # As large on disk as was asked for.
        (1000, pa.table({"text": [f"{n}" * 1000 for n in range(50)]}), {"use_dictionary": False}),
    ],
    ids=["dictionary", "across row groups", "large on disk"],
)
def test_rows_that_may_be_large_are_read(tmp_path, monkeypatch, limit, table, options):
    monkeypatch.setattr(parquet_rows, "MAX_DECODED_BYTES", limit)
    monkeypatch.setattr(parquet_rows, "_BATCH_ROWS", 7)
    path = write(tmp_path / "a.parquet", table, **options)
    (whole,) = plan(path, len(table))
    assert read_split(whole).equals(table)


def test_index_beside_its_dictionary_is_found():
    """Found by fuzzing: Arrow reads such a column without a word."""
    beside = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), ["a"], safe=False)
    for column in (beside, pa.ListArray.from_arrays([0, 1, 2], beside)):
        with pytest.raises(pa.ArrowInvalid, match="indices from 0 to 7 for 1 values"):
            check_indices(column)
    whole = pa.array(["a", None]).dictionary_encode()
    for column in (whole, whole[:0], pa.StructArray.from_arrays([whole, whole], ["x", "y"])):
        check_indices(column)


def test_null_in_lists_of_fixed_size_is_told_where_no_footer_shows_it(tmp_path):
    pair = pa.list_(pa.string(), 2)
    table = pa.table(
        {
            "whole": pa.array([["a", None]] * 3, pair),
            "broken": pa.array([["a", "b"], None, ["c", "d"]], pair),
        }
    )
    path = write(tmp_path / "a.parquet", table)
    assert read_split(plan(path, 10)[0], ["whole"]).num_rows == 3
    with pytest.raises(InputError, match="where one of them is null: got such a list in a column"):
        read_split(plan(path, 10)[0])


NUMBERS = pa.table({"n": list(range(30))})


def taken(batches: Batches, start: int, rows: int) -> list[int]:
    return [n for batch in batches.take(start, rows) for n in batch.column("n").to_pylist()]


@pytest.mark.parametrize("size", [1, 4, 30])
def test_rows_are_taken_in_order_and_what_was_passed_is_an_error(size):
    batches = Batches(iter(NUMBERS.to_batches(size)))
    assert taken(batches, 0, 5) == [0, 1, 2, 3, 4]
    assert taken(batches, 5, 1) == [5]
    assert taken(batches, 11, 6) == [11, 12, 13, 14, 15, 16]
    with pytest.raises(ValueError, match="row 3 was passed: the stream is at row 17"):
        taken(batches, 3, 2)
    assert taken(batches, 28, 9) == [28, 29]


def test_part_is_compressed_has_statistics_and_is_the_same_every_time():
    table = every_type()
    footer = pq.ParquetFile(pa.BufferReader(write_part(table))).metadata
    column = footer.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.statistics.has_min_max
    assert write_part(table) == write_part(every_type())


def test_files_that_differ_in_metadata_alone_are_one_case():
    """Their footers may be large, and a dump may have a hundred thousand of them."""
    types._written.cache_clear()
    for number in range(3):
        arrow = pa.schema([("id", pa.int64())], metadata={"made": f"{number}" * 1000})
        file = pq.ParquetFile(pa.BufferReader(write_part(arrow.empty_table())))
        assert lost_types(file.schema, arrow, utc_times=False, is_hidden=False) == []
    assert types._written.cache_info().currsize == 1
