"""Mixed dumps: rows of five languages, scored with three models."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from bertscore_beam.options.score_options import ScoreOptions
from tests.support.baseline_tables import write_rows
from tests.support.dumps import pair_rows, write_dump

LANGUAGES = ("en", "de", "zh", "fr", "ja")
"""The languages of the rows, one after the other."""


def write_baselines(folder: Path) -> dict[str, str]:
    """Write a table for each language, with other numbers in each; return their paths."""
    rows = np.tile([0.11, 0.12, 0.13], (7, 1))
    return {
        language: str(write_rows(folder / f"{language}.csv", rows + number / 10))
        for number, language in enumerate(LANGUAGES)
    }


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
    codes = [LANGUAGES[number % len(LANGUAGES)] for number in range(start, start + count)]
    codes = [code if number % 3 else code.upper() for number, code in enumerate(codes, start)]
    return pa.table(pair_rows(count, start) | {"lang": codes})


write_mixed = partial(write_dump, row_group_size=10)
"""Write a dump of tables."""


def of_language(table: pa.Table, language: str) -> pa.Table:
    """Return the rows of one language, without their column of languages."""
    kept = [code is not None and code.lower() == language for code in table["lang"].to_pylist()]
    return table.filter(pa.array(kept)).drop_columns("lang")
