"""What is shown of a baseline run: the plan before it, the tables and their doubts after it."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.baseline.plan import BaselinePlan
from pipelines.files.credentials import mask_credentials
from pipelines.run.folder import OutputFolder
from pipelines.run.outcome import Shown

LARGE_ERROR = 0.005
"""A larger standard error of F1 is warned about; tables of fewer than some 450 pairs have one, or
of more where few hosts have most of the sentences."""


def show_plan(plan: BaselinePlan) -> Shown:
    """Show what a run would do."""
    options = plan.options
    numbers = [f"{code} {len(plan.files[code].names):,}" for code in plan.source.languages]
    rows = {
        "languages": ", ".join(plan.source.languages),
        "models": ", ".join(f"{model.name} ({model.signature.weights})" for model in plan.models),
        "source": plan.source.shown,
        "files listed": ", ".join(numbers),
        "files at most": "all" if plan.source.is_given else f"{options.max_files:,}",
        "pairs": f"{options.pairs:,} for every language",
        "output": mask_credentials(plan.output),
    }
    return Shown("Plan", ("", ""), list(rows.items()))


def show_tables(summary: Mapping[str, Any], folder: OutputFolder) -> Shown:
    """Show the tables that a run made."""
    rows: list[tuple[str, ...]] = [
        (
            mask_credentials(folder.path(table["table"])),
            f"{table['pairs']:,} pairs, standard error of F1 "
            + ("unknown" if table["largest_error"] is None else f"{table['largest_error']:.1e}")
            + " at most",
        )
        for table in summary["tables"]
    ]
    return Shown("Baselines", ("", ""), rows)


def warnings_of(summary: Mapping[str, Any], *, given: bool) -> list[str]:
    """Say what a run lacks, or what is doubtful about its tables.

    Args:
        summary: The result of the run.
        given: Whether its sentences were given.
    """
    return [
        *_about_samples(summary, given=given),
        *(words for table in summary["tables"] for words in _about_table(table)),
        *(f"no table {table['table']}: {table['reason']}" for table in summary["unusable"]),
        *_about_missing(summary),
    ]


def languages_without_pairs(summary: Mapping[str, Any]) -> list[str]:
    """Return the languages with fewer than two sentences."""
    return [code for code, row in summary["languages"].items() if row["sentences"] < 2]


def _about_samples(summary: Mapping[str, Any], *, given: bool) -> Iterator[str]:
    hint = "; more --max-files, another crawl or more --sentences-per-host give more"
    for code, row in summary["languages"].items():
        if row["sentences"] < row["wanted"]:
            yield (
                f"{code}: the sample was too small: got {row['sentences']:,} sentences in "
                f"{row['files']:,} files; expected {row['wanted']:,}. The table is made of what "
                f"there is{'' if given else hint}."
            )
        if row["failed_files"]:
            yield f"{code}: {row['failed_files']:,} files could not be read; see _failed/."
        if row["records_broken"]:
            yield (
                f"{code}: {row['records_broken']:,} of {row['records']:,} records could not be "
                "read and were left out."
            )


def _about_table(table: Mapping[str, Any]) -> Iterator[str]:
    if (words := _unsure(table)) is not None:
        yield words
    for check in table["failed_checks"]:
        yield f"{table['table']}: this does not hold: {check}; see its .json."
    if table["pairs_without_tokens"]:
        yield (
            f"{table['table']}: {table['pairs_without_tokens']:,} pairs are left out, since the "
            "tokenizer leaves nothing of a sentence."
        )


def _about_missing(summary: Mapping[str, Any]) -> Iterator[str]:
    missing = languages_without_pairs(summary)
    if missing:
        found = ", ".join(f"{code} {summary['languages'][code]['sentences']}" for code in missing)
        yield (
            f"no table for {', '.join(missing)}: got these numbers of sentences: {found}; expected "
            "at least two, a pair."
        )


def _unsure(table: Mapping[str, Any]) -> str | None:
    """Say that a table is not reliable, if its standard error is large or not known."""
    error = table["largest_error"]
    if error is not None and error <= LARGE_ERROR:
        return None
    size = f"is {error:.1e}" if error is not None else "is not known"
    if error is None and table["pairs"] > 1:
        size += ", since nearly all sentences are from one host,"
    skipped = len(table["skipped_checks"])
    unchecked = f"; {skipped} checks were not made" if skipped else ""
    return (
        f"{table['table']}: the standard error of F1 {size} with {table['pairs']:,} pairs"
        f"{unchecked}; expected at most {LARGE_ERROR}. Take more --pairs, and sentences of more "
        "hosts for them."
    )
