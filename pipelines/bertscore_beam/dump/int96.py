"""Timestamps stored as INT96, as Spark, Hive and Impala do, read so that no value changes.

INT96 holds a day and its nanoseconds. Arrow reads all such columns of a file in one unit, and does
not report values that do not fit: nanoseconds wrap outside the years 1677 to 2262, and microseconds
lose finer digits. So the unit is chosen for each file, by comparing what is read in several units.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.batches import Batches
from bertscore_beam.dump.nested import leaf_arrays
from bertscore_beam.files.ranges import RemoteFile
from bertscore_core.errors import InputError

COARSE = "us"
"""The unit if it is exact: every reader knows it, and Spark reads nothing finer."""
FINE = "ns"
"""The unit of files with finer values."""

READ_UNITS = ("s", COARSE, FINE)
"""Units in which values are read and compared. In seconds no value can overflow."""

_SPARK_VERSION = b"org.apache.spark.version"
_READ_ROWS = 4096
_READ_BYTES = 4 * 1024 * 1024
_LARGEST = np.iinfo(np.int64).max

Reading: TypeAlias = Mapping[str, pa.RecordBatch]
"""The same rows of INT96 columns in each of `READ_UNITS`."""


@dataclass(frozen=True, slots=True)
class Int96Range:
    """What a unit must offer to keep some INT96 values exactly.

    Attributes:
        is_fine: Some values are finer than a microsecond.
        fits_coarse: All values fit 64 bits as microseconds: years -290,000 to 294,000.
        fits_fine: All values fit 64 bits as nanoseconds: years 1677 to 2262.
    """

    is_fine: bool = False
    fits_coarse: bool = True
    fits_fine: bool = True

    def __or__(self, other: "Int96Range") -> "Int96Range":
        """Return what the values of both need together."""
        return Int96Range(
            is_fine=self.is_fine or other.is_fine,
            fits_coarse=self.fits_coarse and other.fits_coarse,
            fits_fine=self.fits_fine and other.fits_fine,
        )

    def is_exact(self, unit: str) -> bool:
        """Tell whether all values are exact in a unit."""
        return self.fits_fine if unit == FINE else self.fits_coarse and not self.is_fine


def int96_paths(schema: pq.ParquetSchema) -> tuple[str, ...]:
    """Return the paths of the INT96 leaves of a file; columns with the same name count once."""
    columns = map(schema.column, range(len(schema)))
    return tuple(dict.fromkeys(c.path for c in columns if c.physical_type == "INT96"))


def int96_ranges(
    file: pq.ParquetFile,
    source: pa.NativeFile | RemoteFile,
    paths: Sequence[str],
    groups: Sequence[int],
    skip: int = 0,
    rows: int | None = None,
) -> Iterator[Int96Range]:
    """Yield what the INT96 values of some rows need, batch by batch.

    Args:
        file: The file.
        source: Its bytes.
        paths: The INT96 columns.
        groups: Row groups to read.
        skip: Rows to skip at the start of these.
        rows: Rows to read; all if None.
    """
    readings = []
    for unit in READ_UNITS:
        again = pq.ParquetFile(
            source,
            metadata=file.metadata,
            buffer_size=_READ_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit=unit,
        )
        batches = again.iter_batches(_READ_ROWS, row_groups=list(groups), columns=list(paths))
        wanted = file.metadata.num_rows if rows is None else rows
        readings.append(Batches(batches).take(skip, wanted))
    for batches in zip(*readings, strict=True):
        yield _range_in(dict(zip(READ_UNITS, batches, strict=True)))


def _range_in(reading: Reading) -> Int96Range:
    """Return what the values of some rows need, given the rows in every unit."""
    found = Int96Range()
    for columns in zip(*(reading[unit].columns for unit in READ_UNITS), strict=True):
        # Parquet has no unit of seconds: only INT96 is read in them.
        leaves = [leaf_arrays(column, pa.types.is_timestamp) for column in columns]
        for seconds, coarse, fine in zip(*leaves, strict=True):
            if seconds.type.unit == "s":
                found |= _range_of(seconds, coarse, fine)
    return found


def _range_of(seconds: pa.Array, coarse: pa.Array, fine: pa.Array) -> Int96Range:
    whole, micros, nanos = (
        array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        for array in (seconds, coarse, fine)
    )
    if not len(whole):
        return Int96Range()
    # Even after an overflow the difference is right modulo 2**64, and it is below 1000.
    rest = nanos.view(np.uint64) - micros.view(np.uint64) * np.uint64(1000)
    least, most = int(whole.min()), int(whole.max())

    def fits(per_second: int) -> bool:
        return least * per_second >= -_LARGEST and (most + 1) * per_second <= _LARGEST

    return Int96Range(is_fine=bool(rest.any()), fits_coarse=fits(10**6), fits_fine=fits(10**9))


def written_by_spark(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Tell whether Spark wrote a file: all its timestamps are microseconds."""
    return _SPARK_VERSION in (metadata or {})


def choose_unit(ranges: Iterable[Int96Range], paths: Iterable[str]) -> str:
    """Return the unit in which all values of a file are exact; microseconds if both are.

    Args:
        ranges: What the values need, one item for each batch.
        paths: The INT96 columns, for the message.

    Raises:
        InputError: If there is none.
    """
    needed = Int96Range()
    for one in ranges:
        needed |= one
    for unit in (COARSE, FINE):
        if needed.is_exact(unit):
            return unit
    raise InputError(not_exact_message(paths))


def not_exact_message(paths: Iterable[str]) -> str:
    """Return the message for INT96 columns that cannot be passed through unchanged."""
    return (
        f"timestamps of the columns {', '.join(map(repr, paths))}, stored as INT96, would change: "
        "got some finer than a microsecond and some before 1677 or after 2262; expected values "
        "that fit 64 bits as microseconds or as nanoseconds. Write the columns as TIMESTAMP, or "
        "leave them out."
    )
