"""Options of `bertscore-beam import`."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from bertscore_beam.options.base import RunOptions
from bertscore_beam.options.checks import check_value


@dataclass(frozen=True, kw_only=True)
class ImportOptions(RunOptions):
    """Turn files of text into Parquet, a file each. Files that have not changed are left alone.

    Attributes:
        input: Files, folders or globs to read.
        input_format: Format of the input: `auto` goes by the names of the files (.jsonl, .ndjson,
            .json, .csv, .tsv; also with .gz or .zst); `tsv-raw` is a TSV in which quotes are
            ordinary characters.
    """

    input: tuple[str, ...] = dataclasses.field(metadata={"metavar": "PATH"})
    input_format: Literal["auto", "jsonl", "csv", "tsv", "tsv-raw"] = "auto"

    def __post_init__(self) -> None:
        """Check what can be checked without looking at files."""
        super().__post_init__()
        check_value(
            "input",
            self.input,
            fine=bool(self.input),
            expected="at least one path",
            cure="Name what to import.",
        )
        self._check_texts("input")
