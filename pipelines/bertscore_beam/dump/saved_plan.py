"""A plan as a file: saved beside the output, so that the job itself carries only its path."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.plan import Census, FileReason, Plan, RejectedFile
from bertscore_beam.dump.split_table import SPLIT_COLUMNS, Splits
from bertscore_beam.dump.splits import Split
from bertscore_core.errors import InputError

# Raise it when a saved plan can no longer be read as before.
_PLAN_FORMAT = 5
_PLAN_KEY = b"bertscore.plan"


def plan_to_bytes(plan: Plan) -> bytes:
    """Return a plan as a Parquet file: one row for each split, the rest in the schema metadata."""
    rest = {
        "format": _PLAN_FORMAT,
        "split_rows": plan.split_rows,
        "digest": plan.digest,
        "rejected_files": [asdict(file) for file in plan.rejected_files],
        "census": asdict(plan.census),
    }
    table = Splits.of(plan.splits).table
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({_PLAN_KEY: json.dumps(rest)})
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def plan_from_bytes(data: bytes, source: str) -> Plan:
    """Read a plan.

    Args:
        data: What `plan_to_bytes` returned.
        source: Where it comes from, for the error message.

    Raises:
        InputError: If it is not a plan, or one of another format.
    """
    with _reading(source):
        splits, rest = _read(data)
        return Plan(
            splits=splits,
            rejected_files=tuple(
                RejectedFile(
                    path=file["path"],
                    reason=FileReason(file["reason"]),
                    message=file["message"],
                    input_name=file["input_name"],
                )
                for file in rest["rejected_files"]
            ),
            split_rows=int(rest["split_rows"]),
            digest=str(rest["digest"]),
            census=Census(**rest["census"]),
        )


def splits_from_bytes(data: bytes, source: str) -> Iterator[Split]:
    """Yield the splits of a plan, few of which are in memory at a time; see `plan_from_bytes`."""
    with _reading(source):
        splits, _ = _read(data)
    yield from splits


def _read(data: bytes) -> tuple[Splits, dict[str, Any]]:
    file = pq.ParquetFile(pa.BufferReader(data))
    rest: dict[str, Any] = json.loads(file.schema_arrow.metadata[_PLAN_KEY])
    if rest["format"] != _PLAN_FORMAT:
        raise ValueError(f"format {rest['format']}")
    table = file.read(SPLIT_COLUMNS.names, use_threads=False)
    return Splits(table.cast(SPLIT_COLUMNS)), rest


@contextmanager
def _reading(source: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{source!r} is not a plan of this version: got {error!r}; expected one that "
            f"bertscore-beam wrote (format {_PLAN_FORMAT}). Delete it and run the job again."
        ) from error
