"""A plan as a file, saved beside the output: the job itself carries only its path."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from bertscore_beam.dump.census import Census
from bertscore_beam.dump.columns import ReferenceFile
from bertscore_beam.dump.parquet import open_sealed, write_part
from bertscore_beam.dump.partitions import Partition
from bertscore_beam.dump.plan import FileReason, Plan, RejectedFile
from bertscore_beam.dump.splits import Split
from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_core.errors import InputError, load_json

# Raise it when a saved plan can no longer be read as before.
_PLAN_FORMAT = 10
_PLAN_KEY = b"bertscore.plan"
_TYPES = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
_HINTS = get_type_hints(Split)
_COLUMNS = pa.schema(
    pa.field(name, _TYPES.get(hint, pa.string()), nullable=False) for name, hint in _HINTS.items()
)
_AS_JSON = [name for name, hint in _HINTS.items() if hint not in _TYPES]
_AT_ONCE = 1024
"""Rows that become splits together."""


def plan_to_bytes(plan: Plan) -> bytes:
    """Return a plan as a Parquet file: one row for each split, the rest in the schema metadata."""
    rest = {
        "format": _PLAN_FORMAT,
        "split_rows": plan.split_rows,
        "digest": plan.digest,
        "rejected_files": [asdict(file) for file in plan.rejected_files],
        "census": asdict(plan.census),
        "notes": plan.notes,
    }
    columns = {name: [getattr(split, name) for split in plan.splits] for name in _COLUMNS.names}
    for name in _AS_JSON:
        columns[name] = [json.dumps(value, default=asdict) for value in columns[name]]
    table = pa.table(columns, _COLUMNS.with_metadata({_PLAN_KEY: json.dumps(rest)}))
    return write_part(table)


class OtherPlanError(InputError):
    """The plan of another run is where this one's was: nothing is scored by it."""


def read_plan(data: bytes, digest: str, source: str) -> Plan:
    """Read the plan of a run: the one that its command has written, and no other.

    It names the files that workers open, and others may write into the folder.

    Args:
        data: Its bytes.
        digest: `digest_of` them, as the command knows it.
        source: Where they are from, for the error message.

    Raises:
        OtherPlanError: Another plan is there.
    """
    source = mask_credentials(source)
    if digest_of(data) != digest:
        raise OtherPlanError(
            f"{source!r} is not the plan of this run: got another digest than when it was written; "
            "expected that plan. Nothing but this run may write into its folder: see what has, and "
            "run the job again."
        )
    return plan_from_bytes(data, source)


def plan_from_bytes(data: bytes, source: str) -> Plan:
    """Read a plan.

    Raises:
        InputError: If it is not a plan, or one of another format.
    """
    try:
        file = open_sealed(data)
        rest: dict[str, Any] = load_json(file.schema_arrow.metadata[_PLAN_KEY])
        if rest["format"] != _PLAN_FORMAT:
            raise ValueError(f"format {rest['format']}")
        splits = tuple(_splits_of(file))
        if len(splits) != file.metadata.num_rows:
            raise ValueError("splits are missing")
        return Plan(
            splits=splits,
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


def _splits_of(file: pq.ParquetFile) -> Iterator[Split]:
    # Equal values become one object: most are equal.
    known = {name: _Known(name) for name in _COLUMNS.names}
    for batch in file.iter_batches(_AT_ONCE, columns=_COLUMNS.names, use_threads=False):
        for row in batch.to_pylist():
            yield Split(**{name: values[row[name]] for name, values in known.items()})


class _Known(dict[Any, Any]):
    """The values of a field of splits by what stands for them in the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __missing__(self, stored: Any) -> Any:
        value = load_json(stored) if self._name in _AS_JSON else stored
        if self._name == "partitions":
            value = tuple(Partition(**one) for one in value)
        elif self._name == "left_out":
            value = tuple(value)
        elif self._name == "references" and value is not None:
            lists = {name: tuple(value[name]) for name in ("names", "lists")}
            value = ReferenceFile(**{**value, **lists})
        return self.setdefault(stored, value)
