"""What is shown of a baseline run: the plan before it, the tables and their doubts after it."""

from collections.abc import Iterator, Mapping
from typing import Any

from bertscore_beam.baseline.certainty import UNCERTAIN_SHARE
from bertscore_beam.baseline.plan import BaselineModel, BaselinePlan
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.outcome import Shown

LARGE_ERROR = 0.005
"""A larger standard error of F1 is warned about; tables of fewer than some 450 pairs have one, or
of more where few hosts have most of the sentences."""


def show_plan(plan: BaselinePlan) -> tuple[Shown, ...]:
    """Show what a run would do."""
    options = plan.options
    numbers = [f"{code} {len(plan.files[code].names):,}" for code in plan.source.languages]
    rows = {
        "languages": ", ".join(plan.source.languages),
        "models": ", ".join(_show_model(plan, model) for model in plan.models),
        "source": plan.source.shown,
        "files listed": ", ".join(numbers),
        "files at most": "all" if plan.source.is_given else f"{options.max_files:,}",
        "pairs": f"{options.pairs:,} for every language",
        "words": options.words.shown if options.words else "any number",
        "output": mask_credentials(plan.output),
    }
    if plan.device_words is not None:
        rows["backend"] = plan.device_words
    return (Shown("Plan", ("", ""), list(rows.items())),)


def _show_model(plan: BaselinePlan, model: BaselineModel) -> str:
    """Return a model with its weights, and its languages if it is not for all."""
    shown = f"{model.name} ({model.signature.weights})"
    codes = [code for code in plan.source.languages if code in model.languages]
    return shown if len(codes) == len(plan.source.languages) else f"{shown} for {', '.join(codes)}"


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


def warnings_of(summary: Mapping[str, Any], *, cure: str) -> list[str]:
    """Say what a run lacks, or what is doubtful about its tables; each thing once for all of them.

    Args:
        summary: The result of the run.
        cure: What gives more sentences.
    """
    return [
        *_about_samples(summary, cure),
        *_about_languages(summary),
        *_about_errors(summary),
        *_about_checks(summary),
        *(f"no table {table['table']}: {table['reason']}" for table in summary["unusable"]),
        *_about_missing(summary),
    ]


def languages_without_pairs(summary: Mapping[str, Any]) -> list[str]:
    """Return the languages with fewer than two sentences."""
    return [code for code, row in summary["languages"].items() if row["sentences"] < 2]


def _about_samples(summary: Mapping[str, Any], cure: str) -> Iterator[str]:
    rows = summary["languages"]
    small = {code: row for code, row in rows.items() if row["sentences"] < row["wanted"]}
    if small:
        found = ", ".join(
            f"{code} {row['sentences']:,} in {row['files']:,} files" for code, row in small.items()
        )
        (wanted,) = {row["wanted"] for row in small.values()}
        yield (
            f"the sample was too small: got these sentences: {found}; expected {wanted:,} of each "
            f"language. The tables are made of what there is. {cure}"
        )
    failed = {code: row["failed_files"] for code, row in rows.items() if row["failed_files"]}
    if failed:
        yield f"files could not be read: {_numbers(failed)}; see _failed/."
    broken = [
        f"{code} {row['records_broken']:,} of {row['records']:,}"
        for code, row in rows.items()
        if row["records_broken"]
    ]
    if broken:
        yield f"records could not be read and were left out: {', '.join(broken)}."


def _about_languages(summary: Mapping[str, Any]) -> Iterator[str]:
    """Say of which languages it is uncertain whether the sentences are in them."""
    checks = {code: row["language_check"] for code, row in summary["languages"].items()}
    doubted = {code: check for code, check in checks.items() if check and check["uncertain"]}
    once = [code for code, check in doubted.items() if check["disagreement"] is None]
    if once:
        yield (
            f"the language is uncertain for {', '.join(once)}: got one detector, "
            f"{doubted[once[0]]['detectors'][0]}; expected two for a language that is close to "
            "others. Install both pycld2 and py3langid; pycld2 has wheels for Linux on x86-64 with "
            "Python up to 3.13."
        )
    shares = [
        f"{code} {check['disagreement']:.0%}"
        for code, check in doubted.items()
        if check["disagreement"] is not None
    ]
    if shares:
        yield (
            "the language is uncertain: got two detectors that disagree on these shares of the "
            f"sentences: {', '.join(shares)}; expected at most {UNCERTAIN_SHARE:.0%}. Those "
            "sentences are left out."
        )


def _about_errors(summary: Mapping[str, Any]) -> Iterator[str]:
    """Say which tables are not reliable, since their standard error is large or not known."""
    unsure = [
        f"{table['table']} " + _error_of(table)
        for table in summary["tables"]
        if table["largest_error"] is None or table["largest_error"] > LARGE_ERROR
    ]
    if unsure:
        yield (
            f"the standard error of F1 is large: got {'; '.join(unsure)}; expected at most "
            f"{LARGE_ERROR}. Take more --pairs, and sentences of more hosts for them."
        )


def _error_of(table: Mapping[str, Any]) -> str:
    error, skipped = table["largest_error"], len(table["skipped_checks"])
    one_host = error is None and table["pairs"] > 1
    return (
        ("one that is not known" if error is None else f"{error:.1e}")
        + (", since nearly all sentences are from one host," if one_host else "")
        + f" with {table['pairs']:,} pairs"
        + (f" ({skipped} checks were not made)" if skipped else "")
    )


def _about_checks(summary: Mapping[str, Any]) -> Iterator[str]:
    tables = summary["tables"]
    for check in dict.fromkeys(name for table in tables for name in table["failed_checks"]):
        which = ", ".join(t["table"] for t in tables if check in t["failed_checks"])
        yield f"{which}: this does not hold: {check}; see the .json."
    left = {t["table"]: t["pairs_without_tokens"] for t in tables if t["pairs_without_tokens"]}
    if left:
        yield (
            f"pairs are left out, since the tokenizer leaves nothing of a sentence: "
            f"{_numbers(left)}."
        )


def _numbers(counts: Mapping[str, int]) -> str:
    """Return names with their numbers."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _about_missing(summary: Mapping[str, Any]) -> Iterator[str]:
    missing = languages_without_pairs(summary)
    if missing:
        found = _numbers({code: summary["languages"][code]["sentences"] for code in missing})
        yield (
            f"no table for {', '.join(missing)}: got these numbers of sentences: {found}; expected "
            "at least two, a pair."
        )
