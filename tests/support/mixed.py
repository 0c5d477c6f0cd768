"""Mixed dumps: rows of five languages, scored with three models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bertscore_beam.options import ScoreOptions
from tests.support.dumps import sentence

LANGUAGES = ("en", "de", "zh", "fr", "ja")
"""The languages of the rows, one after the other."""


def write_baselines(folder: Path) -> dict[str, str]:
    """Write a table for each language, with other numbers in each; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for number, language in enumerate(LANGUAGES):
        rows = [f"{layer},0.{number + 1}1,0.{number + 1}2,0.{number + 1}3" for layer in range(7)]
        path = folder / f"{language}.csv"
        path.write_text("\n".join(["LAYER,P,R,F", *rows, ""]))
        paths[language] = str(path)
    return paths


def language_entries(tiny_folder: Callable[[str], Path], folder: Path) -> dict[str, dict[str, Any]]:
    """Return a mapping of five languages to three models, each with a baseline of its own.

    English and Japanese have the same model and layer, French another layer of it.
    """
    bert, roberta = str(tiny_folder("bert")), str(tiny_folder("roberta"))
    entries: dict[str, dict[str, Any]] = {
        "en": {"model": "all-MiniLM-L6-v2"},
        "de": {"model": bert, "num_layers": 2},
        "zh": {"model": roberta, "num_layers": 1, "max_length": 40},
        "fr": {"model": "all-MiniLM-L6-v2", "num_layers": 4},
        "ja": {"model": "all-MiniLM-L6-v2"},
    }
    baselines = write_baselines(folder / "baselines")
    return {name: {**entry, "baseline": baselines[name]} for name, entry in entries.items()}


def write_mapping(path: Path, entries: dict[str, dict[str, Any]]) -> str:
    """Write a mapping of languages as YAML."""
    path.write_text(yaml.safe_dump({"languages": entries}))
    return str(path)


def language_options(
    dump: Path, output: Path, mapping: str | dict[str, Any], **changes: Any
) -> ScoreOptions:
    """Return options for a small job whose rows name their languages."""
    values = {
        "input": [str(dump)],
        "output": str(output),
        "device": "cpu",
        "split_rows": 20,
        "language_column": "lang",
        "languages": mapping,
    }
    return ScoreOptions.from_mapping(values | changes, "the test")


def mixed_table(count: int, start: int = 0) -> pa.Table:
    """Return pairs whose languages take turns, some in upper case."""
    ids = range(start, start + count)
    codes = [LANGUAGES[number % len(LANGUAGES)] for number in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "candidate": [sentence(number) for number in ids],
            "reference": [f"{sentence(number)[:-4]} {sentence(number + 1)}" for number in ids],
            "lang": [
                code.upper() if i % 3 == 0 else code for i, code in zip(ids, codes, strict=True)
            ],
        }
    )


def write_mixed(folder: Path, shards: list[pa.Table], *, row_group_size: int = 10) -> Path:
    """Write a dump of these tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(shards):
        pq.write_table(table, folder / f"shard-{number:03d}.parquet", row_group_size=row_group_size)
    return folder


def of_language(table: pa.Table, language: str) -> pa.Table:
    """Return the rows of one language, without their column of languages."""
    kept = [code is not None and code.lower() == language for code in table["lang"].to_pylist()]
    return table.filter(pa.array(kept)).drop_columns("lang")
