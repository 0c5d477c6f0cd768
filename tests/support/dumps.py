"""Dumps of pairs for tests: real Parquet files with awkward rows."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = tuple(
    "the cat sat on a mat while rain fell in north town and nobody saw why".split()  # noqa: SIM905
)
SCHEMA = pa.schema({"id": pa.int64(), "candidate": pa.string(), "reference": pa.string()})


def sentence(seed: int) -> str:
    """Return a sentence; different seeds give mostly different ones."""
    length = 3 + seed * 7 % 9
    return " ".join(WORDS[(seed * (k + 3) + k * k) % len(WORDS)] for k in range(length))


def pair_rows(count: int, start: int = 0) -> dict[str, list[Any]]:
    """Return rows with an id, a candidate and a reference that share some words."""
    ids = range(start, start + count)
    return {
        "id": list(ids),
        "candidate": [sentence(number) for number in ids],
        "reference": [f"{sentence(number)[:-4]} {sentence(number + 1)}" for number in ids],
    }


def write_dump(folder: Path, shards: Sequence[int | pa.Table], *, row_group_size: int = 7) -> Path:
    """Write a dump of several files: of so many rows each, ids going on, or of these tables."""
    folder.mkdir(parents=True, exist_ok=True)
    start = 0
    for number, shard in enumerate(shards):
        if isinstance(shard, int):
            shard = pa.table(pair_rows(shard, start), schema=SCHEMA)
        pq.write_table(shard, folder / f"shard-{number:03d}.parquet", row_group_size=row_group_size)
        start += len(shard)
    return folder


def rich_table() -> pa.Table:
    """Return pairs beside columns of every type that must pass through unchanged."""
    rows = pair_rows(6)
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(rows["id"], pa.int64()),
            "candidate": pa.array(rows["candidate"], pa.large_string()),
            "reference": pa.array(
                [[text, "another reading"] for text in rows["reference"]], pa.list_(pa.string())
            ),
            "system": pa.array(["a", "b", None] * 2).dictionary_encode(),
            "created": pa.array([moment] * 6, pa.timestamp("us", tz="UTC")),
            "price": pa.array([Decimal("1.50"), None] * 3, pa.decimal128(9, 2)),
            "meta": pa.array([{"k": 1, "tags": ["x", None]}, None] * 3),
            "nothing": pa.nulls(6),
            "flag": pa.array([True, None, False] * 2),
        },
        metadata={"made_by": "a test"},
    )


def read_output(folder: Path) -> pa.Table:
    """Read all parts of an output folder, in order."""
    parts = sorted(
        path
        for path in folder.rglob("part-*.parquet")
        if path.is_file()  # and no folder of an input of such a name
        and not any(part.startswith("_") for part in path.relative_to(folder).parts)
    )
    return pa.concat_tables([pq.ParquetFile(path).read() for path in parts])
