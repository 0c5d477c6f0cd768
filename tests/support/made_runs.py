"""Finished scoring runs made from tables: as `score` leaves them, but no model has run.

Such a run can be opened, read and compared; it has no index, so it cannot be reused.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import TableFields
from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.splits import part_name
from bertscore_beam.dump.texts import Rows, languages_of
from bertscore_beam.files.checked import digest_of, to_json
from bertscore_beam.records.groups import summary_of
from bertscore_beam.records.record import LanguageRows, PartRecord, part_to_bytes, read_record
from bertscore_beam.records.records import is_part_name
from bertscore_beam.records.summary import Gates, RunStart, Totals, summarize, summary_of_languages
from bertscore_beam.run.folder import (
    FORMAT,
    MANIFEST_FOLDER,
    RUN_FILE,
    SUCCESS_FILE,
    SUMMARY_FILE,
    OutputFolder,
)
from bertscore_beam.run.identity import identity_digest
from bertscore_beam.run.publication import HEAD_FILE, PUBLISHED, Entry, Head, Shard
from bertscore_beam.score.scored_table import metadata_by_language, part_metadata
from bertscore_core import Signature
from bertscore_core.work import Work

_FIELDS = TableFields(candidate_column="candidate", reference_column="reference")

SIGNATURE = Signature.parse(
    "bertscore|model:made-up|weights:0123456789ab|num_layers:6|layer_semantics:cut"
    "|tokenizer:0123456789abcdef|prefix_space:no|max_length:512|idf:none|baseline:none|empty:zero"
    "|dtype:float32|batch_tokens:any|attention:auto|backend:torch|version:0.1.0|torch:2.13.0"
    "|transformers:5.23.0"
)
PART_ROWS = 20_000


def scored(
    f1: np.ndarray,
    *,
    precision: np.ndarray | None = None,
    recall: np.ndarray | None = None,
    tokens: int = 20,
    **given: object,
) -> pa.Table:
    """Return rows with scores; a NaN as F1 is a row without scores, with a null as its candidate.

    Args:
        f1: F1 of each row. Shape (N,).
        precision: As F1, which it is by default.
        recall: The same.
        tokens: Tokens of every text.
        **given: The columns of the input, each of N values. `candidate` and `reference` are short
            texts by default.
    """
    missing = np.isnan(f1)
    words = pa.array([f"text {number}" for number in range(len(f1))])
    inputs = {"candidate": words, "reference": words, **given}
    measures = zip(columns.SCORES.values(), (precision, recall, f1), strict=True)
    scores = {
        name: pa.array(np.float32(f1 if values is None else values), mask=missing)
        for name, values in measures
    }
    counts = pa.array(np.full(len(f1), tokens, dtype=np.int32), mask=missing)
    facts = {
        columns.CANDIDATE_TOKENS: counts,
        columns.REFERENCE_TOKENS: counts,
        columns.TRUNCATED: pa.array(np.zeros(len(f1), dtype=np.bool_), mask=missing),
        columns.ERROR: pa.array(np.where(missing, "null_candidate", None), pa.string()),
    }
    return pa.table(inputs | scores | facts)


def with_column(rows: pa.Table, name: str, values: object) -> pa.Table:
    """Return rows with other values in a column."""
    return rows.set_column(rows.column_names.index(name), name, pa.array(values))


def made_run(
    folder: Path,
    inputs: Mapping[str, pa.Table | Sequence[pa.Table]],
    *,
    signature: Signature | Mapping[str, Signature] = SIGNATURE,
    part_rows: int = PART_ROWS,
    started: float = 1.7e9,
) -> Path:
    """Write a finished run, and return its folder.

    Args:
        folder: The folder, which is made.
        inputs: The scored rows of each input file, by its name; of several tables each has parts of
            its own. A column `source` is that of the sources.
        signature: How all rows were scored; or, by language, how those whose column `language` is
            that language were.
        part_rows: Most rows of a part.
        started: When it began, in seconds since the epoch.
    """
    names = {"candidate_column": "candidate", "reference_column": "reference"}
    if isinstance(signature, Signature):
        stated, signatures, first = signature.format(), {}, signature
        notes = part_metadata(signature)
    else:
        signatures = {language: one.format() for language, one in signature.items()}
        stated, first = None, next(iter(signature.values()))
        notes = metadata_by_language(signatures)
        names["language_column"] = "language"
    if any("source" in table.column_names for table in _tables(inputs)):
        names["source_column"] = "source"
    identity = {**first.fields(), **names}
    made, added = [], set[str]()
    for input_name, tables in inputs.items():
        row = 0
        for table in _tables({input_name: tables}):
            for start in range(0, max(1, len(table)), part_rows):
                rows, part = table.slice(start, part_rows), part_name(input_name, row)
                made.append(_write_part(folder, part, rows, notes, identity))
                added.update(rows.column_names)
                row += len(rows)
    totals = Totals.merge(map(Totals.of_record, made))
    count = totals.summary.rows
    work = Work(batches=len(made), tokens=40 * count, padded_tokens=44 * count)
    totals = replace(totals, seconds=count / 100, work=work)
    start = RunStart(
        parts=len(made),
        rows=count,
        files=len(inputs),
        started=started,
        gates=Gates(max_reject_fraction=1.0),
    )
    summary = summarize(start, totals, stated, missing=0)
    summary["seconds"] = round(totals.seconds, 3)  # not the time since it "began"
    summary["metrics"] = {name: {} for name, column in columns.METRICS.items() if column in added}
    if signatures:
        summary["languages"] = summary_of_languages(totals, signatures)
    run = {
        "run": f"made-{folder.name}",
        "identity": identity,
        "signature": stated,
        **({"signatures": signatures} if signatures else {}),
        "options": {"language_column": None} | names,
        "rows": count,
        "parts": len(made),
        "started": started,
        "reused": None,
    }
    _write(folder / RUN_FILE, to_json({"format": FORMAT, **run}, indent=2))
    _write(folder / SUMMARY_FILE, to_json(summary, indent=2))
    publish_by_hand(folder, run["run"])
    return folder


def publish_by_hand(folder: Path, token: str) -> None:
    """Write a manifest of the parts in a folder, and `_SUCCESS`."""
    entries, source = [], OutputFolder(str(folder))
    for name, stored in sorted(source.each_stored()):
        if is_part_name(name) and (record := read_record(source, name, stored)) is not None:
            entries.append(Entry(name, "", stored.size, stored.content, record.to_note()))
    shard = f"{MANIFEST_FOLDER}/parts-{token}-00000.json.gz"
    _write(folder / shard, Shard(entries, {}).to_bytes())
    head = Head(epoch=1, token=token, state=PUBLISHED, shards=[shard], succeeds=True)
    _write(folder / HEAD_FILE, head.to_json())
    _write(folder / SUCCESS_FILE, to_json({"epoch": 1, "token": token}))


def _tables(inputs: Mapping[str, pa.Table | Sequence[pa.Table]]) -> Iterator[pa.Table]:
    for tables in inputs.values():
        yield from [tables] if isinstance(tables, pa.Table) else tables


def _write_part(
    folder: Path, name: str, table: pa.Table, notes: Mapping[str, str], identity: Mapping[str, str]
) -> PartRecord:
    """Write a part with its record."""
    languages = {}
    if "language_column" in identity:
        codes = np.array(languages_of(table["language"]))
        for language in np.unique(codes).tolist():
            summary = summary_of(table.filter(pa.array(codes == language)))
            languages[language] = LanguageRows(label=language, summary=summary)
    input_name, _, start = name.rpartition("/part-")
    record = PartRecord(
        part_name=name,
        input_name=input_name,
        row_offset=int(start.removesuffix(".parquet")),
        num_rows=len(table),
        file_rows=None,
        file_size=0,
        file_version="",
        digests=RowDigests.of(Rows(table, _FIELDS)),
        job_digest=identity_digest(dict(identity)),
        idf="",
        summary=summary_of(table),
        languages=languages,
    )
    table = table.replace_schema_metadata(dict(notes))
    _write(folder / name, part_to_bytes(table, record, token="0" * 16))
    return record


def edit_json(path: Path, **changes: Any) -> None:
    """Change values of a JSON object of a run, with a digest of what it says then."""
    content = json.loads(path.read_bytes())
    content.pop("digest", None)
    before = json.dumps(content | changes, indent=2).removesuffix("\n}")
    path.write_text(f'{before},\n  "digest": "{digest_of(before)}"\n}}')


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def two_nights(folder: Path, **how: Any) -> tuple[Path, Path]:
    """Write two nights as `made_run` does; in the second, returned first, `system-1` is worse."""
    for number, name in enumerate(("before", "now")):
        rows = many_rows(1200, seed=number, shift=-0.02 * number)
        made_run(folder / name, {"news.parquet": rows}, **how)
    return folder / "now", folder / "before"


def many_rows(rows: int, *, seed: int = 0, shift: float = 0.0) -> pa.Table:
    """Return made-up rows of a run.

    Four systems answer the same segments, which take three languages in turns; ten segments in a
    row share a document. `seed` decides on the noise of the candidates only, so that two runs can
    be compared row by row.

    Args:
        rows: How many, over all systems.
        seed: Of the noise.
        shift: What is added to the F1 of `system-1`.
    """
    segment, system = np.divmod(np.arange(rows), 4)
    hardness = np.random.default_rng(1).normal(0.8, 0.06, rows)
    noise = np.random.default_rng([2, seed]).normal(0, 0.02, rows)
    return scored(
        np.clip(hardness + noise + shift * (system == 1), 0, 1),
        id=pa.array(range(rows)),
        segment=pa.array(segment),
        document=pa.array(segment // 10),
        system=pa.array([f"system-{number}" for number in system]),
        language=pa.array(["de", "en", "zh"]).take(pa.array(segment % 3)),
    )
