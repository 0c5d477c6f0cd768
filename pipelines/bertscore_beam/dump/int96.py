"""Timestamps stored as INT96, as Spark, Hive and Impala do, read so that no value changes.

INT96 holds a day and its nanoseconds. Arrow reads all such columns of a file in one unit, and does
not report values that do not fit: nanoseconds wrap outside the years 1677 to 2262, and microseconds
lose finer digits. So the unit is chosen for each file, by comparing what is read in several units.
"""

from collections.abc import Collection, Iterable, Sequence, Set

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.batches import Batches
from bertscore_beam.dump.nested import leaf_arrays
from bertscore_beam.files.read import RemoteFile

COARSE = "us"
"""The unit if it is exact: every reader knows it, and Spark reads nothing finer."""
FINE = "ns"
"""The unit of files with finer values."""

SPARK_VERSION = b"org.apache.spark.version"
"""In the metadata of what Spark wrote: all its timestamps are microseconds."""
_READ_ROWS = 4096
_READ_BYTES = 4 * 1024 * 1024


def paths_of(schema: pq.ParquetSchema, left_out: Collection[str] = ()) -> tuple[str, ...]:
    """Return the paths of the INT96 leaves of a file; columns with the same name count once."""
    paths = dict.fromkeys(c.path for c in schema if c.physical_type == "INT96")
    return tuple(
        path for path in paths if not any(f"{path}.".startswith(f"{name}.") for name in left_out)
    )


def exact_units(
    file: pq.ParquetFile,
    source: pa.NativeFile | RemoteFile,
    paths: Sequence[str],
    groups: Sequence[int],
    skip: int = 0,
    rows: int | None = None,
) -> Set[str]:
    """Return those of `COARSE` and `FINE` in which no INT96 value of some row groups changes.

    `skip` rows at the start of these are passed over; all others are read if `rows` is None.
    """
    readings = []
    for unit in ("s", COARSE, FINE):  # in seconds no value can overflow
        again = pq.ParquetFile(
            source,
            metadata=file.metadata,
            buffer_size=_READ_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit=unit,
        )
        batches = again.iter_batches(_READ_ROWS, row_groups=list(groups), columns=list(paths))
        count = file.metadata.num_rows if rows is None else rows
        readings.append(Batches(batches).take(skip, count))
    exact: Set[str] = {COARSE, FINE}
    for reading in zip(*readings, strict=True):
        for columns in zip(*(batch.columns for batch in reading), strict=True):
            leaves = [leaf_arrays(column, pa.types.is_timestamp) for column in columns]
            for seconds, coarse, fine in zip(*leaves, strict=True):
                if seconds.type.unit == "s":  # Parquet has no such unit: only INT96 is read in it
                    exact &= _exact_in(seconds, coarse, fine)
    return exact


def _exact_in(seconds: pa.Array, coarse: pa.Array, fine: pa.Array) -> Set[str]:
    whole, micros, nanos = (
        array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        for array in (seconds, coarse, fine)
    )
    # A value that does not fit is read modulo 2**64, and so as another second. The difference of
    # two such values is right, as it is below 1000.
    rest = nanos.view(np.uint64) - micros.view(np.uint64) * np.uint64(1000)
    exact = {FINE} if np.array_equal(nanos // 10**9, whole) else set()
    if not rest.any() and np.array_equal(micros // 10**6, whole):
        exact.add(COARSE)
    return exact


def not_exact_message(paths: Iterable[str]) -> str:
    """Return the message for INT96 columns that cannot be passed through unchanged."""
    return (
        f"timestamps of the columns {', '.join(map(repr, paths))}, stored as INT96, would change: "
        "got some finer than a microsecond and some before 1677 or after 2262; expected values "
        "that fit 64 bits as microseconds or as nanoseconds. Write the columns as TIMESTAMP, or "
        "leave them out."
    )
