import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import lost_types, types, write_part, write_row_groups
from tests.support.tables import every_type


def test_part_is_compressed_has_statistics_and_is_the_same_every_time() -> None:
    table = every_type()
    footer = pq.ParquetFile(pa.BufferReader(write_part(table))).metadata
    column = footer.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.statistics.has_min_max
    assert write_part(table) == write_part(every_type())


def test_each_table_is_a_row_group_however_long_and_the_bytes_are_the_same_every_time() -> None:
    tables = [pa.table({"a": pa.array(range(rows))}) for rows in (1, 1_100_000, 2)]
    data = write_row_groups(tables)
    file = pq.ParquetFile(pa.BufferReader(data))
    assert [file.metadata.row_group(n).num_rows for n in range(3)] == [1, 1_100_000, 2]
    assert file.read_row_group(2)["a"].to_pylist() == [0, 1]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert write_row_groups(tables) == data


def test_files_that_differ_in_metadata_alone_are_one_case():
    """Their footers may be large, and a dump may have a hundred thousand of them."""
    types._written.cache_clear()
    for number in range(3):
        arrow = pa.schema([("id", pa.int64())], metadata={"made": f"{number}" * 1000})
        file = pq.ParquetFile(pa.BufferReader(write_part(arrow.empty_table())))
        assert lost_types(file.schema, arrow, utc_times=False) == []
    assert types._written.cache_info().currsize == 1
