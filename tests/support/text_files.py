"""Write rows as the text formats that can be input, and read the splits of any input."""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from bertscore_beam.dump.candidates import explode_candidates
from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.inputs import expand_inputs
from bertscore_beam.dump.plan import Imports, Plan, Resources
from bertscore_beam.dump.read_rows import SplitReader
from bertscore_beam.dump.text.text_source import texts_among
from bertscore_beam.dump.texts import Rows, texts_from_column
from tests.support.jobs import import_here, own
from tests.support.tables import PAIRS, plan_pairs


def to_jsonl(rows: Sequence[Mapping[str, Any]], *, ascii_only: bool = True) -> bytes:
    """Return rows as the json module writes them, one a line."""
    return b"".join(json.dumps(row, ensure_ascii=ascii_only).encode() + b"\n" for row in rows)


def to_csv(rows: Sequence[Sequence[str]], delimiter: str = ",") -> bytes:
    """Return records, the header first, as the csv module writes them."""
    sink = io.StringIO(newline="")
    csv.writer(sink, delimiter=delimiter).writerows(rows)
    return sink.getvalue().encode()


def write_text(path: Path, data: bytes) -> Path:
    """Write bytes, compressed as the suffix says."""
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pack(data))
    return path


def plan_text(
    path: Path | str, folder: Path | str, rows: int = 20_000, size: int = 1 << 26, **changes: Any
) -> Plan:
    """Plan inputs with columns `candidate` and `reference`; import those of text into a folder."""

    fields = changes.get("fields", PAIRS)
    import_here(texts_among(expand_inputs([str(path)]), fields.named(), fields.lists), own(folder))
    resources = Resources(imports=Imports(folder=str(folder), are_made=True))
    return plan_pairs(path, rows=rows, target_bytes=size, resources=resources, **changes)


def read_plan(plan: Plan) -> tuple[pa.Table, list[tuple[int, str | None]]]:
    """Read all splits of a plan, in order: rows, and the byte and the reason of each line."""
    read = [SplitReader([split]).read(split) for split in plan.splits]
    places = [
        (offset, rows.lines.reasons.get(row))
        for rows in read
        if rows.lines is not None
        for row, offset in enumerate(rows.lines.offsets.tolist())
    ]
    return pa.concat_tables([rows.table for rows in read]), places


def read_texts(path: Path, candidate: str, reference: str = "ref") -> list[tuple[Any, ...]]:
    """Return the candidate, where it is from, the references and the reason of each row."""
    fields = TableFields(candidate_column=candidate, reference_column=reference)
    plan = plan_text(path, path.parent / "out", fields=fields)
    assert plan.about_rows >= plan.num_rows
    found = []
    for split in plan.splits:
        one = SplitReader([split]).read(split)
        rows = explode_candidates(Rows(one.table, fields, one.lines))
        texts, references = texts_from_column(rows.candidates), rows.reference_texts
        bad = [rows.unreadable.get(number) for number in range(len(rows))]
        found += zip(texts, rows.origins, references, bad, strict=True)
        if plan.about_rows == plan.num_rows:  # so the job expects
            assert len(rows) == len(one.table)
    return found
