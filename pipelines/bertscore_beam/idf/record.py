"""How the idf tables of a run were counted, in words and in the types of JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertscore_beam.idf.repeats import repeat_words
from bertscore_beam.idf.tables import IdfTables
from bertscore_core.idf import CountedRows


def describe_tables(tables: IdfTables) -> dict[str, Any]:
    """Return how tables were counted, for `_summary.json` and for messages.

    Numbers of rows are None where they are not known: every row counted, in an earlier run.
    """
    total = CountedRows()
    for table in tables.tables.values():
        total += table.counted or CountedRows()
    known = bool(tables.group_columns or total.key_columns)
    repeats = tables.repeats
    return {
        "fingerprint": tables.fingerprint,
        "tables": len(tables.tables),
        "documents": tables.num_documents,
        "key_columns": list(total.key_columns),
        "group_columns": list(tables.group_columns),
        "by_language": any(key.language for key in tables.tables),
        "rows": total.rows if known else None if repeats is None else repeats[0],
        "rows_left_out": total.duplicates,
        "rows_left_out_with_other_references": total.conflicts,
        "rows_without_key": total.without_key,
        "rows_without_group": tables.without_table,
        "rows_counted": None if repeats is None else repeats[0],
        "different_references": None if repeats is None else repeats[1],
        "problem": tables.problem,
    }


def table_warnings(described: Mapping[str, Any]) -> list[str]:
    """Return what is worth a warning in the result of `describe_tables`, or in nothing."""
    warnings: list[str] = []
    if not described:
        return warnings
    conflicts, alone = (
        described["rows_left_out_with_other_references"],
        described["rows_without_key"],
    )
    if conflicts:
        warnings.append(
            f"{conflicts:,} of {described['rows']:,} rows have other references than the row of "
            f"the same key ({_names(described['key_columns'])}) that idf counts, which is the "
            "first by name of file and row. Correct the references, or name a finer key with "
            "--idf-key."
        )
    if alone:
        warnings.append(
            f"{alone:,} of {described['rows']:,} rows have no value in a key column "
            f"({_names(described['key_columns'])}): idf counts each of them. Fill the column."
        )
    if described["rows_without_group"]:
        warnings.append(
            f"{described['rows_without_group']:,} rows have {_without_table(described)}: idf does "
            "not count them, and they cannot be scored. Fill the column."
        )
    counted, different = described["rows_counted"], described["different_references"]
    if counted is not None and different is not None:
        words = repeat_words(counted, different, keyed=bool(described["key_columns"]))
        warnings += [] if words is None else [words]
    return warnings


def _without_table(described: Mapping[str, Any]) -> str:
    """Return what rows without a table lack."""
    names = _names(described["group_columns"])
    groups = [f"no value in a group column ({names})"] if names else []
    return " or ".join([*groups, *(["no language code"] if described["by_language"] else [])])


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns)
