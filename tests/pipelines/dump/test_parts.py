import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dump.parts import write_part
from tests.support.tables import every_type


def test_part_is_compressed_has_statistics_and_is_the_same_every_time() -> None:
    table = every_type()
    footer = pq.ParquetFile(pa.BufferReader(write_part(table))).metadata
    column = footer.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.statistics.has_min_max
    assert write_part(table) == write_part(every_type())
