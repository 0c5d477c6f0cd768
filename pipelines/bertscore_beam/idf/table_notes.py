"""What is noted of idf tables for people: how they were counted, in the types of JSON."""

from collections.abc import Mapping
from typing import Any

from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.idf.repeats import repeats_warning
from bertscore_core.idf import CountedRows


def describe_tables(tables: IdfTables) -> dict[str, Any]:
    """Return how tables were counted, for `_summary.json` and for messages.

    Numbers of rows are None where they are not known: every row counted, in an earlier run.
    """
    counted = (table.counted for table in tables.tables.values())
    total = sum(filter(None, counted), CountedRows())
    known = bool(tables.group_columns or total.key_columns)
    repeats = tables.repeats
    return {
        "fingerprint": tables.fingerprint,
        "tables": len(tables.tables),
        "documents": tables.num_documents,
        "key_columns": list(total.key_columns),
        "group_columns": list(tables.group_columns),
        "by_language": any(key.language for key in tables.tables),
        "rows": total.rows if known else None if repeats is None else repeats.rows,
        "rows_left_out": total.duplicates,
        "rows_left_out_with_other_references": total.conflicts,
        "rows_without_key": total.without_key,
        "rows_without_group": tables.without_table,
        "rows_counted": None if repeats is None else repeats.rows,
        "different_references": None if repeats is None else repeats.distinct,
        "problem": tables.problem,
    }


def table_warnings(described: Mapping[str, Any]) -> list[str]:
    """Return what is worth a warning in the result of `describe_tables`, or in nothing."""
    warnings: list[str] = []
    if not described:
        return warnings
    key, rows = ", ".join(described["key_columns"]), described["rows"]
    if conflicts := described["rows_left_out_with_other_references"]:
        warnings.append(
            f"{conflicts:,} of {rows:,} rows have other references than the row with the same key "
            f"({key}) that idf counts: the first one, in the order of file names and rows. Correct "
            "the references, or name a finer key with --idf-key."
        )
    if alone := described["rows_without_key"]:
        warnings.append(
            f"{alone:,} of {rows:,} rows have no value in a key column ({key}): idf counts each of "
            "them. Fill the column."
        )
    if described["rows_without_group"]:
        warnings.append(
            f"{described['rows_without_group']:,} rows have {_without_table(described)}: idf does "
            "not count them, and they cannot be scored. Fill the column."
        )
    counted, different = described["rows_counted"], described["different_references"]
    if None not in (counted, different):
        warning = repeats_warning(counted, different, keyed=bool(key))
        warnings += [] if warning is None else [warning]
    return warnings


def _without_table(described: Mapping[str, Any]) -> str:
    names = ", ".join(described["group_columns"])
    groups = [f"no value in a group column ({names})"] if names else []
    return " or ".join([*groups, *(["no language code"] if described["by_language"] else [])])
