"""Which logical types of Parquet a part would lose."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump import logical_types
from bertscore_beam.dump.logical_types import lost_types


def test_files_that_differ_in_metadata_alone_are_one_case():
    """Their footers may be large, and a dump may have a hundred thousand of them."""
    logical_types._written.cache_clear()
    for number in range(3):
        arrow = pa.schema([("id", pa.int64())], metadata={"made": f"{number}" * 1000})
        sink = io.BytesIO()
        pq.write_table(arrow.empty_table(), sink)
        assert lost_types(pq.ParquetFile(sink).schema, arrow, utc_times=False) == []
    assert logical_types._written.cache_info().currsize == 1
