"""Digests of a split's rows, which show a later run whether their scores are still valid."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bertscore_beam.dump.columns import column_of, is_list
from bertscore_beam.dump.digests import digest_columns, digest_table
from bertscore_beam.dump.text.lines import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigests:
    """Digests of the values of some rows, however the file stores them.

    Attributes:
        candidates: Of the column of candidates.
        references: Of the column of references, and of columns that decide on the weights.
        rows: Of all columns, with their names, types and the file's metadata.
    """

    candidates: str
    references: str
    rows: str

    @classmethod
    def of(
        cls,
        table: pa.Table,
        candidate_column: str,
        reference_column: str,
        deciding: Sequence[str] = (),
        *,
        utc_times: bool = False,
        lines: Lines | None = None,
    ) -> "RowDigests":
        """Digest the rows of a split.

        Args:
            table: The rows.
            candidate_column: Name or dotted path of the column of candidates.
            reference_column: Name or dotted path of the column of references.
            deciding: Names or dotted paths of further columns on which the scores depend.
            utc_times: Whether the file marks its times of day as UTC, which Arrow's types do not.
            lines: The lines of a file of text. Its rejected rows are listed by where they stand, so
                rows in other places are other rows.
        """
        places = "" if lines is None else f"-{lines.digest()}"
        return cls(
            candidates=f"{digest_columns(column_of(table, candidate_column))}{places}",
            references=digest_references(table, reference_column, deciding),
            rows=f"{digest_table(table)}{'-utc' if utc_times else ''}",
        )

    def same_texts(self, other: "RowDigests") -> bool:
        """Tell whether the texts scored, and what decides on their scores, are the same."""
        return (self.candidates, self.references) == (other.candidates, other.references)


def digest_references(table: pa.Table, column: str, deciding: Sequence[str] = ()) -> str:
    """Digest references, and further columns on which their weights depend.

    Lists get one more score column than single texts, so the kind matters.
    """
    references = column_of(table, column)
    kind = "lists" if is_list(references.type) else "texts"
    others = (
        f"-{digest_columns(*(column_of(table, name) for name in deciding))}" if deciding else ""
    )
    return f"{kind}-{digest_columns(references)}{others}"
