"""A plan as a file, saved beside the output: the job itself carries only its path."""

import json
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.census import Census
from bertscore_beam.dump.plan import FileReason, Plan, RejectedFile
from bertscore_beam.dump.splits import SPLIT_COLUMNS, Splits
from bertscore_beam.files.checked import with_digest, without_digest
from bertscore_core.errors import InputError, load_json

# Raise it when a saved plan can no longer be read as before.
_PLAN_FORMAT = 7
_PLAN_KEY = b"bertscore.plan"


def plan_to_bytes(plan: Plan) -> bytes:
    """Return a plan as a Parquet file: one row for each split, the rest in the schema metadata.

    Its digest is after it.
    """
    rest = {
        "format": _PLAN_FORMAT,
        "split_rows": plan.split_rows,
        "digest": plan.digest,
        "rejected_files": [asdict(file) for file in plan.rejected_files],
        "census": asdict(plan.census),
        "notes": plan.notes,
    }
    table = Splits.of(plan.splits).table
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({_PLAN_KEY: json.dumps(rest)})
    pq.write_table(table, sink, compression="zstd")
    return with_digest(bytes(sink.getvalue()))


def plan_from_bytes(data: bytes, source: str) -> Plan:
    """Read a plan. Its splits stay a table: few of them are objects at a time.

    Raises:
        InputError: If it is not a plan, or one of another format.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(without_digest(data)))
        rest: dict[str, Any] = load_json(file.schema_arrow.metadata[_PLAN_KEY])
        if rest["format"] != _PLAN_FORMAT:
            raise ValueError(f"format {rest['format']}")
        table = file.read(SPLIT_COLUMNS.names, use_threads=False)
        return Plan(
            splits=Splits(table.cast(SPLIT_COLUMNS)),
            rejected_files=tuple(
                RejectedFile(**file | {"reason": FileReason(file["reason"])})
                for file in rest["rejected_files"]
            ),
            split_rows=int(rest["split_rows"]),
            digest=str(rest["digest"]),
            census=Census(**rest["census"]),
            notes=tuple(map(str, rest["notes"])),
        )
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{source!r} is not a plan of this version: got {error!r}; expected one that "
            f"bertscore-beam wrote (format {_PLAN_FORMAT}). Delete it and run the job again."
        ) from error
