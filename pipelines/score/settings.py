"""The settings of a run: how the rows of each language are scored."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from bertscore_core import IdfTable, ScorerConfig, Signature
from pipelines.idf.tables import IdfTables

EVERY_LANGUAGE = "*"
"""Stands for the language of all rows in a run without a column of languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSetting:
    """How rows are scored.

    Attributes:
        config: How to score.
        signature: How the scores are made, without the fingerprint of a counted idf table.
        max_length: Most tokens of a text; longer texts are cut. None for no limit.
        baseline: Precision, recall and F1 that raw scores are rescaled with; None for none.
    """

    config: ScorerConfig
    signature: Signature
    max_length: int | None
    baseline: tuple[float, float, float] | None = None

    def final_signature(self, idf: IdfTable | IdfTables | None) -> Signature:
        """Return the signature with the fingerprint of an idf table, or of all of a run."""
        if idf is None:
            return self.signature
        return dataclasses.replace(self.signature, idf=idf.fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run, each for one language.

    Attributes:
        by_language: The setting of each language. A run without a column of languages has one
            setting, under `EVERY_LANGUAGE`.
    """

    by_language: Mapping[str, RowSetting]

    @classmethod
    def of_all_rows(cls, setting: RowSetting) -> "RunSettings":
        """Return the settings of a run that scores all rows alike."""
        return cls(by_language={EVERY_LANGUAGE: setting})

    @property
    def sole(self) -> RowSetting:
        """The setting of all rows, in a run that scores them alike."""
        return self.by_language[EVERY_LANGUAGE]
