"""Digests of a split's rows, which show a later run whether their scores are still valid."""

from dataclasses import dataclass

import pyarrow as pa

from pipelines.dump.columns import TableFields, is_list
from pipelines.dump.digests import digest_columns, digest_table


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigests:
    """Digests of the values of some rows, however the file stores them.

    Attributes:
        candidates: Of the column of candidates.
        references: Of the column of references.
        rows: Of all columns, with their names, types and the file's metadata.
        languages: Of the column of languages; "" without one.
    """

    candidates: str
    references: str
    rows: str
    languages: str = ""

    @classmethod
    def of(
        cls,
        table: pa.Table,
        fields: TableFields,
        *,
        utc_times: bool = False,
    ) -> "RowDigests":
        """Digest the rows of a split.

        Args:
            table: The rows.
            fields: The columns that decide the scores.
            utc_times: Whether the file marks its times of day as UTC, which Arrow's types do not.
        """
        languages = fields.language_column
        return cls(
            candidates=digest_columns(table[fields.candidate_column]),
            references=digest_references(table[fields.reference_column]),
            rows=f"{digest_table(table)}{'-utc' if utc_times else ''}",
            languages="" if languages is None else digest_columns(table[languages]),
        )

    def same_texts(self, other: "RowDigests") -> bool:
        """Tell whether the texts scored, and their languages, are the same."""
        return (self.candidates, self.references, self.languages) == (
            other.candidates,
            other.references,
            other.languages,
        )


def digest_references(column: pa.ChunkedArray) -> str:
    """Digest references. Lists get one more score column than single texts, so the kind matters."""
    return f"{'lists' if is_list(column.type) else 'texts'}-{digest_columns(column)}"
