"""The tables of a baseline run: checked, described, written and shown."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.baseline_plan import (
    BaselineJob,
    BaselineModel,
    BaselinePlan,
    description_of,
    list_tables,
)
from bertscore_beam.baseline.sources import DATA_FOLDERS, PairsRecord, list_files, table_path
from bertscore_beam.crawl.sampling import describe_overlap
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder, nan_to_null
from bertscore_beam.run.output import TextTable
from bertscore_beam.run.publication import publish_files
from bertscore_core.baseline import DESCRIPTION_SUFFIX, TABLE_SUFFIX, format_baseline
from bertscore_core.idf import IdfTable
from bertscore_core.stats.moments import Moments
from bertscore_core.stats.score_statistics import MEASURES

# Check what holds for the scores of random pairs.

FEW_PAIRS = 1_000
"""With fewer pairs the checks are not made, since they would say too little."""
CHECKS = (
    "precision equals recall",
    "f1 is a little below the mean of both",
    "enough hosts for an error",
)

_LARGEST_GAP = 4.0
"""Standard errors that a difference of expectation zero may have: more of them 1 in 16,000."""
_FEWEST_HOSTS = 20.0
"""Hosts of equal size below which the standard error is itself uncertain: by a sixth at 20."""
_LARGEST_MEAN_DROP = 0.02
"""Most that F1 is below the mean of precision and recall; published tables have at most 0.009."""


def check_moments(moments: Moments) -> list[dict[str, Any]]:
    """Check what holds for the scores of random pairs: each of `CHECKS`, made or not.

    `passed` is None where it was not checked, and else whether what was `found` is as `expected`.
    Random pairs are exchangeable, so precision and recall have one expectation. Their standard
    error is worked out from differences between hosts, so there must be some.
    """
    # A layer's difference and its error may both be zero, as for the embeddings of single tokens.
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.nan_to_num(np.abs(moments.gaps) / moments.gap_errors).max()
    middle, f1 = moments.means[:, :2].mean(axis=1), moments.means[:, 2]
    drop, lift = (middle - f1).max(), (f1 - middle).max()
    hosts = moments.effective_hosts
    results: list[tuple[bool | None, str, str]] = [
        (
            bool(gap <= _LARGEST_GAP),
            f"{gap:.1f} standard errors apart at most",
            f"at most {_LARGEST_GAP:g}",
        ),
        (
            bool(lift <= 1e-6 and drop <= _LARGEST_MEAN_DROP),
            f"{drop:.4f} below their mean at most, {max(lift, 0.0):.1g} above it",
            f"at most {_LARGEST_MEAN_DROP:g} below, never above",
        ),
        (
            hosts >= _FEWEST_HOSTS,
            f"as good as {hosts:.1f} hosts of equal size",
            f"at least {_FEWEST_HOSTS:g}",
        ),
    ]
    if not moments.knows_hosts:
        results[-1] = (None, "not looked at: hosts are not known", "sentences with their hosts")
    if moments.num_pairs < FEW_PAIRS:
        reason = f"not looked at: too few pairs: {moments.num_pairs:,}"
        results = [(None, reason, f"at least {FEW_PAIRS:,} pairs")] * len(CHECKS)
    names = ("name", "passed", "found", "expected")
    return [
        dict(zip(names, (check, *result), strict=True))
        for check, result in zip(CHECKS, results, strict=True)
    ]


# Describe a table: its errors, its checks, and where it comes from.
#
# The description is the JSON file beside the table. It is the same for the same input.

_FORMAT = 2
"""Version 1 had `jackknife_error`, and its `standard_error` is `naive_error` now."""


def describe_layers(moments: Moments) -> list[dict[str, Any]]:
    """Return mean, errors and spread of every layer and measure."""
    means, errors = moments.means, moments.standard_errors
    naive, spread = moments.naive_errors, moments.deviations
    layers = (
        {"layer": layer}
        | {
            measure: {
                "mean": float(means[layer, index]),
                "standard_error": float(errors[layer, index]),
                "naive_error": float(naive[layer, index]),
                "standard_deviation": float(spread[layer, index]),
            }
            for index, measure in enumerate(MEASURES)
        }
        | {
            "precision_minus_recall": {
                "mean": float(moments.gaps[layer]),
                "standard_error": float(moments.gap_errors[layer]),
            },
            # F1 has no bound where precision and recall have opposite signs: it counts as 1 or -1.
            "f1_clipped": int(moments.clipped[layer]),
        }
        for layer in range(len(means))
    )
    return [nan_to_null(layer) for layer in layers]


# Write the tables, and delete those that are out of date.
#
# <model>.tsv   LAYER,P,R,F
# <model>.json  its description, see `write_table`

_SUFFIXES = (TABLE_SUFFIX, DESCRIPTION_SUFFIX)


def write_table(
    job: BaselineJob,
    model: BaselineModel,
    pairs: PairsRecord,
    moments: Moments,
    idf: IdfTable | None,
) -> dict[str, Any]:
    """Write both files of a language and model and return the description."""
    path = table_path(pairs.language, model.name)
    stem = path.removesuffix(TABLE_SUFFIX)
    table = format_baseline(moments.baseline(path))
    plan, options, signature = job.plan, job.options, model.setting.signature
    if idf is not None:
        signature = replace(signature, idf=idf.fingerprint)
    description = {
        "format": _FORMAT,
        "language": pairs.language,
        "model": model.name,
        "pairs": moments.num_pairs,
        "pairs_wanted": options.pairs,
        "pairs_without_tokens": pairs.rows - moments.num_pairs,
        "signature": signature.format(),
        "layers": describe_layers(moments),
        "checks": check_moments(moments),
        "sample": {
            "seed": options.seed,
            "sentences": pairs.found,
            "digest": pairs.sample,
            "pairs_digest": pairs.digest,
            "overlap": describe_overlap((part.overlap for part in pairs.parts), pairs.language),
            "hosts_known": moments.knows_hosts,
            "effective_hosts": nan_to_null(moments.effective_hosts),
            "same_host_pairs": sum(part.same_host for part in pairs.parts),
            "sentences_per_page": options.sentences_per_page,
            "sentences_per_host": pairs.host_cap,
            "min_words": options.words.least,
            "max_words": options.words.most,
        },
        "source": {
            "name": options.source_shown,
            "listing": pairs.listing,
            "filters": None if options.sentences else json.loads(plan.identity["filters"]),
            **pairs.files,
        },
    }
    text = json.dumps(description, indent=1, ensure_ascii=False)
    job.files[stem + DESCRIPTION_SUFFIX] = text.encode()
    job.files[path] = table.encode()
    return description


def stale_tables(folder: OutputFolder, pairs: Mapping[str, PairsRecord]) -> list[str]:
    """Return the tables of languages that have another sample now, or do not say which."""
    stale = []
    for stem in list_tables(folder.files()):
        record = pairs.get(stem.partition("/")[0])
        if record is not None:
            sample = description_of(folder, stem).get("sample")
            if not isinstance(sample, dict) or sample.get("digest") != record.sample:
                stale.append(stem)
    return stale


def publish_tables(job: BaselineJob, *, is_success: bool) -> None:
    """Publish the tables of a run, beside those of other languages and models."""
    stems = list_tables(job.folder.files())
    kept = set(stems) - {*job.stale}
    names = {stem: [stem + suffix for suffix in _SUFFIXES] for stem in stems}
    publish_files(
        job.folder,
        job.before,
        job.run,
        job.files,
        kept=sorted({name for stem in kept for name in names[stem]} - job.files.keys()),
        earlier=sorted({SUMMARY_FILE, *(name for stem in stems for name in names[stem])}),
        is_success=is_success,
    )


def delete_data(folder: OutputFolder) -> None:
    """Delete what tables are made of, and what others are made of last.

    A run that is killed meanwhile leaves the folder of a run that was killed earlier.
    """
    for below in reversed(DATA_FOLDERS):
        paths = [f"{below}/{name}" for name in folder.files(below)]
        records = [path for path in paths if path.endswith(".json")]
        folder.delete(*records)
        folder.delete(*(path for path in paths if not path.endswith(".json")))


LARGE_ERROR = 0.005
"""A larger standard error of F1 is warned about; tables of fewer than some 450 pairs have one, or
of more where few hosts have most of the sentences."""


def show_plan(plan: BaselinePlan) -> tuple[TextTable, ...]:
    """Show what a run would do."""
    options, files = plan.options, list_files(plan.options, plan.languages)
    numbers = [f"{code} {len(files[code].names):,}" for code in plan.languages]
    rows = {
        "languages": ", ".join(plan.languages),
        "models": ", ".join(_show_model(plan, model) for model in plan.models),
        "source": plan.options.source_shown,
        "files listed": ", ".join(numbers),
        "files at most": "all" if options.sentences else f"{options.max_files:,}",
        "pairs": f"{options.pairs:,} for every language",
        "words": options.words.shown if options.words else "any number",
        "output": mask_credentials(plan.output),
    }
    if plan.device_note is not None:
        rows["backend"] = plan.device_note
    return (TextTable("Plan", ("", ""), list(rows.items())),)


def _show_model(plan: BaselinePlan, model: BaselineModel) -> str:
    shown = f"{model.name} ({model.setting.signature.weights})"
    codes = [code for code in plan.languages if code in model.languages]
    return shown if len(codes) == len(plan.languages) else f"{shown} for {', '.join(codes)}"


def show_tables(summary: Mapping[str, Any], folder: OutputFolder) -> TextTable:
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
    return TextTable("Baselines", ("", ""), rows)


def warnings_of(summary: Mapping[str, Any], *, cure: str) -> list[str]:
    """Say what a run lacks, and what is doubtful about its tables; each thing once for all."""
    return [
        *_about_languages(summary["languages"], cure),
        *_about_tables(summary["tables"]),
        *(f"no table {table['table']}: {table['reason']}" for table in summary["unusable"]),
    ]


def more_of(options: BaselineOptions) -> str:
    """Say what gives more sentences."""
    if options.crawl:
        return "For more, raise --max-files or --sentences-per-host, or take another crawl."
    if options.sentences:
        return "Give more sentences, or lower --pairs."
    return f"For more, give more files to --{options.source}, or raise --sentences-per-host."


def languages_without_pairs(languages: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the languages with fewer than two sentences."""
    return [code for code, row in languages.items() if row["sentences"] < 2]


def _about_languages(rows: Mapping[str, Mapping[str, Any]], cure: str) -> Iterator[str]:
    small = {code: row for code, row in rows.items() if row["sentences"] < row["wanted"]}
    if small:
        numbers = ", ".join(
            f"{code} {row['sentences']:,} in {row['files']:,} files" for code, row in small.items()
        )
        (asked_for,) = {row["wanted"] for row in small.values()}
        yield (
            f"the sample was too small: got these sentences: {numbers}; expected {asked_for:,} of "
            f"each language. The tables are made from these. {cure}"
        )
    if failed := _numbers({code: row["failed_files"] for code, row in rows.items()}):
        yield f"files could not be read: {failed}; see _failed/."
    broken = [
        f"{code} {row['records_broken']:,} of {row['records']:,}"
        for code, row in rows.items()
        if row["records_broken"]
    ]
    if broken:
        yield f"records could not be read and were left out: {', '.join(broken)}."
    if missing := languages_without_pairs(rows):
        numbers = ", ".join(f"{code} {rows[code]['sentences']:,}" for code in missing)
        yield (
            f"no table for {', '.join(missing)}: got these numbers of sentences: {numbers}; "
            "expected at least two, a pair."
        )


def _about_tables(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    unsure = [
        f"{table['table']} {_error_of(table)}"
        for table in tables
        if table["largest_error"] is None or table["largest_error"] > LARGE_ERROR
    ]
    if unsure:
        yield (
            f"the standard error of F1 is large: got {'; '.join(unsure)}; expected at most "
            f"{LARGE_ERROR}. Take more --pairs, and sentences of more hosts for them."
        )
    for check in dict.fromkeys(name for table in tables for name in table["failed_checks"]):
        which = ", ".join(t["table"] for t in tables if check in t["failed_checks"])
        yield (
            f"{which}: the check {check!r} failed: these pairs may not stand for random text. Look "
            "at 'checks' in the .json beside the table, and take more or other sentences."
        )
    if left := _numbers({t["table"]: t["pairs_without_tokens"] for t in tables}):
        yield f"pairs are left out, since the tokenizer removes every token of a sentence: {left}."


def _error_of(table: Mapping[str, Any]) -> str:
    error, skipped = table["largest_error"], len(table["skipped_checks"])
    one_host = error is None and table["pairs"] > 1
    return (
        ("one that is not known" if error is None else f"{error:.1e}")
        + (", since nearly all sentences are from one host," if one_host else "")
        + f" with {table['pairs']:,} pairs"
        + (f" ({skipped} checks were not made)" if skipped else "")
    )


def _numbers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items() if number)
