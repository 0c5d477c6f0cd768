"""A plan as a file: saved beside the output, so that the job itself carries only its path."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.plan import FileReason, Plan, RejectedFile
from bertscore_beam.dump.splits import Split
from bertscore_core.errors import InputError

# Raise it when a saved plan can no longer be read as before.
_PLAN_FORMAT = 4
_PLAN_KEY = b"bertscore.plan"
# Rows that are Python objects at a time.
_ROWS_AT_ONCE = 1024


def _column_types() -> pa.Schema:
    """Return the schema of a saved plan: the fields of a split, in order."""
    kinds = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), int | None: pa.int64()}
    return pa.schema(
        [
            pa.field(name, kinds[hint], nullable=hint == int | None)
            for name, hint in get_type_hints(Split).items()
        ]
    )


_SCHEMA = _column_types()


def plan_to_bytes(plan: Plan, paths: Sequence[str] | None = None) -> bytes:
    """Return a plan as a Parquet file: one row for each split, the rest in the schema metadata.

    Args:
        plan: The plan.
        paths: What is written as the path of each split; None for the path.
    """
    rest = {
        "format": _PLAN_FORMAT,
        "split_rows": plan.split_rows,
        "digest": plan.digest,
        "rejected_files": [asdict(file) for file in plan.rejected_files],
    }
    columns = {name: [getattr(split, name) for split in plan.splits] for name in _SCHEMA.names}
    table = pa.table(
        columns if paths is None else {**columns, "path": paths},
        schema=_SCHEMA.with_metadata({_PLAN_KEY: json.dumps(rest).encode()}),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _splits(table: pa.Table) -> Iterator[Split]:
    """Yield the splits of a saved plan. Equal texts become one object: most are equal."""
    known: dict[str, str] = {}
    for some in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        columns = [
            [known.setdefault(text, text) for text in column.to_pylist()]
            if pa.types.is_string(column.type)
            else column.to_pylist()
            for column in some.columns
        ]
        for values in zip(*columns, strict=True):
            yield Split(**dict(zip(_SCHEMA.names, values, strict=True)))


def plan_from_bytes(data: bytes, source: str) -> Plan:
    """Read a plan.

    Args:
        data: What `plan_to_bytes` returned.
        source: Where it comes from, for the error message.

    Raises:
        InputError: If it is not a plan, or one of another format.
    """
    with _reading(source):
        table, rest = _read(data)
        return Plan(
            splits=tuple(_splits(table)),
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
        )


def splits_from_bytes(data: bytes, source: str) -> Iterator[Split]:
    """Yield the splits of a plan, few of which are in memory at a time; see `plan_from_bytes`."""
    with _reading(source):
        table, _ = _read(data)
    yield from _splits(table)


def _read(data: bytes) -> tuple[pa.Table, dict[str, Any]]:
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    rest: dict[str, Any] = json.loads(table.schema.metadata[_PLAN_KEY])
    if rest["format"] != _PLAN_FORMAT:
        raise ValueError(f"format {rest['format']}")
    return table, rest


@contextmanager
def _reading(source: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{source!r} is not a plan of this version: got {error!r}; expected one that "
            f"bertscore-beam wrote (format {_PLAN_FORMAT}). Delete it and run the job again."
        ) from error
