"""Texts about a scoring run: its plan, its summary, its warnings and languages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.filesize import decimal

from bertscore_beam.dump.columns import shown_number
from bertscore_beam.dump.languages import codes_first, language_name
from bertscore_beam.dump.plan import few_rows_message, grouped, rows_note
from bertscore_beam.dump.splits import Split, reading_note
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.idf.idf_tables import SavedIdf
from bertscore_beam.metrics.table import format_signatures, no_numbers_warning, tokenized_warning
from bertscore_beam.records.groups import no_groups_warning, read_caveats
from bertscore_beam.records.records import StagedParts, made_of
from bertscore_beam.records.settings import SettingsByLanguage
from bertscore_beam.records.show_groups import show_groups_scored
from bertscore_beam.records.summary import compares_samples, error_metrics, scored_languages
from bertscore_beam.run.folder import SUMMARY_FILE, OutputFolder
from bertscore_beam.run.output import TextTable
from bertscore_beam.run.temporary import is_temporary
from bertscore_beam.score.prepare import ScorePlan
from bertscore_beam.score.spec import ScoreSpec
from bertscore_core.stats.caveats import caveat_cells
from bertscore_core.stats.score_statistics import MEASURES


def show_languages_planned(
    settings: SettingsByLanguage, numbers: Mapping[str, int]
) -> tuple[TextTable, ...]:
    """Return the table of the languages of a plan; none if all rows are scored alike."""
    if not settings.by_column:
        return ()
    rows: list[tuple[str, ...]] = []
    for language in codes_first({*settings.by_language, *numbers}):
        number = f"{numbers.get(language, 0):,}"
        setting = settings.by_language.get(language)
        if setting is None:
            reason = str(settings.reason(language))
            rows.append((language_name(language), number, f"none: {reason}", "", "", ""))
            continue
        made = setting.signature
        rows.append((language, number, made.model, made.num_layers, made.baseline, made.max_length))
    columns = ("language", "rows", "model", "layer", "baseline", "maximum length")
    return (TextTable("Languages", columns, rows),)


def _show_languages_scored(summary: Mapping[str, Any]) -> tuple[TextTable, ...]:
    """Return the table of the languages of a summary; none if all rows are scored alike."""
    if not summary.get("languages"):
        return ()
    has_caveats = any(sums["caveats"] for sums in summary["languages"].values())
    last = ("reasons", "caveats") if has_caveats else ("reasons",)
    means = _means_of(summary)
    columns = ("language", "rows", "scored", *means.values(), *last)
    rows = [
        (
            language,
            f"{sums['rows']:,}",
            f"{sums['scored']:,}",
            *(_mean(sums[name]) for name in means),
            ", ".join(f"{reason} {number:,}" for reason, number in sums["reasons"].items()),
            *((caveat_cells(read_caveats(sums["caveats"])),) if has_caveats else ()),
        )
        for language, sums in summary["languages"].items()
    ]
    return (TextTable("Languages", columns, rows),)


def _means_of(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return what to call the means that are shown."""
    utility = {"f1": "utility"} if compares_samples(summary) else {}
    return {name: name for name in MEASURES} | utility


def _mean(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f}"


_SHARE_OF_OTHER_SCRIPTS = 0.02
"""Share of rows in other scripts above which a run warns: fewer may be quotations or mistakes."""


def run_warnings(summary: Mapping[str, Any], spec: ScoreSpec) -> list[str]:
    """Return the warnings that a summary leads to."""
    settings = spec.settings
    lengths = {setting.signature.max_length for setting in settings.by_language.values()}
    length = lengths.pop() if len(lengths) == 1 else "the maximum length of their model, in"
    warnings = (
        _truncation_warning(summary, length),
        _nothing_reused_warning(spec, summary),
        _script_warning(summary, settings.script_language),
        tokenized_warning(summary["tokenized"]),
        no_numbers_warning(summary.get("metrics") or {}),
        no_groups_warning(summary, spec.group_by),
    )
    return [warning for warning in warnings if warning is not None]


def _truncation_warning(summary: Mapping[str, Any], max_length: str) -> str | None:
    if not summary["truncated"]:
        return None
    return (
        f"{summary['truncated']:,} of {summary['scored']:,} scored rows "
        f"({summary['truncated_fraction']:.2%}) hold a text that was cut at {max_length} tokens: "
        "what comes after is not in their scores. The column bertscore_truncated marks them. "
        "--long-text windows scores whole texts."
    )


def _script_warning(summary: Mapping[str, Any], language: str) -> str | None:
    others, rows = summary["other_scripts"], summary["rows"]
    if not language or others <= _SHARE_OF_OTHER_SCRIPTS * rows:
        return None
    return (
        f"{others:,} of {rows:,} rows ({others / rows:.2%}) have references in another script than "
        f"{language!r}, the language of the baseline: their rescaled scores mean nothing. Score "
        "each row by its own language with --language-column."
    )


def _nothing_reused_warning(spec: ScoreSpec, summary: Mapping[str, Any]) -> str | None:
    source = spec.reuse
    if source is None or summary["reused"] or not summary["scored"]:
        return None
    there = OutputFolder(source.root).read_json(SUMMARY_FILE).get("idf") or {}
    if there.get("fingerprint") != (summary.get("idf") or {}).get("fingerprint"):
        return (
            f"no row took its scores from {source.shown}: its idf table is another one, and every "
            "score depends on that. Count a table once with `bertscore-beam idf`, and give it to "
            "every run with --idf PATH."
        )
    return (
        f"no row took its scores from {source.shown}. It has none of the same texts and settings."
    )


_SHOWN_FILES = 10


def show_plan(
    planned: ScorePlan, spec: ScoreSpec, to_do: Sequence[Split], warnings: Sequence[str] = ()
) -> TextTable:
    """Return the table of the plan, for --dry-run, with warnings at its end."""
    plan, reuse, backend = planned.plan, planned.reuse_note, planned.device_note
    to_score = _not_staged(spec, to_do)
    by = ", ".join(spec.group_by)
    few_groups = "" if plan.is_estimated else f"at least {plan.census.num_groups:,} "
    start, setting = spec.start, spec.settings.sole
    least = start.gates.min_rows
    is_few = start.rows is not None and start.rows < least
    few = f", fewer than {least:,}" if is_few else ""
    model = {"model": "by the language of the row"}
    if setting is not None:
        model = {"model": setting.signature.model, "layer": setting.signature.num_layers}
    rows = {
        **model,
        **({} if backend is None else {"backend": backend}),
        "input files": f"{start.files:,}",
        "files rejected": f"{start.num_rejected_files:,}",
        "rows": f"{rows_note(plan.splits)}{few}",
        "splits": f"{start.parts:,}, of at most {plan.split_rows:,} rows",
        "splits done earlier": f"{start.parts - len(to_score):,}",
        "rows to score": rows_note(to_score),
        **({"earlier rows": _earlier_rows(spec)} if start.rows_at_risk else {}),
        "rows read": reading_note(to_score, spec.num_chunks),
        **({} if reuse is None else {"reuse": reuse}),
        "space for staging": f"about {decimal(_staged_bytes(to_score))}",
        "idf": _idf_cell(spec.idf),
        **({"other metrics": ", ".join(metrics)} if (metrics := spec.metric_names) else {}),
        **({"groups": f"{few_groups}by {by}"} if by else {}),
        **({} if is_temporary(spec.folder) else {"output": spec.folder.root}),
        **({} if setting is None else {"signature": setting.signature.format()}),
    }
    listed = _rejected_rows(start.rejected_files, start.num_rejected_files)
    warned = [("warning", warning) for warning in warnings]
    return TextTable("Plan", ("", ""), [*rows.items(), *listed, *warned])


def _not_staged(spec: ScoreSpec, splits: Sequence[Split]) -> list[Split]:
    """Return those of some splits of which nothing is known to be staged."""
    staged = StagedParts.listed(spec.folder, spec.below).names
    if spec.idf.must_count or not staged:
        return [*splits]
    given = spec.digest, spec.idf.fingerprint, spec.settings.labels, None
    return [
        split for split in splits if not split.file_version or made_of(split, *given) not in staged
    ]


def _earlier_rows(spec: ScoreSpec) -> str:
    how = "replaced" if spec.replaces else "scores are kept where texts and settings are the same"
    return f"{spec.start.rows_at_risk:,} of other parts: {how}"


_SCORE_BYTES, _FOOTER_BYTES = 50, 10_000
"""About the bytes of a row's scores, of which 28 are P, R, F1 and a key, and of a part's footer."""


def _staged_bytes(splits: Sequence[Split]) -> int:
    """Return about the size of the parts of splits: their share of the input, and the scores."""
    rows = Counter[tuple[int, int | None, str]]()
    for split in splits:
        rows[split.file_size, split.file_rows, split.input_name] += split.about_rows
    shares = (size * min(1, n / max(of or 0, 1)) for (size, of, _), n in rows.items())
    return int(sum(shares)) + _SCORE_BYTES * rows.total() + _FOOTER_BYTES * len(splits)


def _rejected_rows(rejected: Mapping[str, str], total: int) -> list[tuple[str, ...]]:
    lines = grouped(list(rejected.items()))[:_SHOWN_FILES]
    if total > len(rejected):
        lines.append(f"{total - len(rejected):,} more that are not named here")
    return [("file rejected", line) for line in lines]


def show_scores(summary: Mapping[str, Any], output: str) -> tuple[TextTable, ...]:
    """Return the tables of a run: where there are several languages, each by itself first."""
    first = (show_summary(summary, output),)
    others = (*_show_languages_scored(summary), *show_groups_scored(summary))
    return others + first if len(scored_languages(summary)) > 1 else first + others


_DAMAGE = {
    "reuse_failures": "failures of reuse",
    "parts_unreadable": "damaged parts, scored again",
    "damaged_records": "damaged records",
}
"""What of earlier runs could not be used, as the summary and its table call it."""


def show_summary(summary: Mapping[str, Any], output: str) -> TextTable:
    """Return the table of the summary; "" is an output that is not kept."""
    rows: list[tuple[str, ...]] = []
    number = len(scored_languages(summary))
    over = f" over {number} languages" if number > 1 else ""
    for name, shown in _means_of(summary).items():
        value = summary[name]
        rows.append((f"{shown}{over}", "none scored" if value is None else f"{value:.6f}"))
    metrics, errors = summary.get("metrics") or {}, error_metrics(summary)
    for name, metric in metrics.items():
        without = f", without {missing:,}" if (missing := metric.get("missing")) else ""
        order = "; lower is better" if name in errors else ""
        own = shown_number(name, metric["mean"], 6, missing="none")
        mean = f"{own} (mean of {metric['rows']:,} rows{without}{order})"
        corpus = metric.get("corpus")
        rows.append((f"{name}{over}", mean if corpus is None else f"{corpus:.6f}, {mean}"))
    rows.append(("rows", f"{summary['rows']:,}"))
    rows.append(("scored", f"{summary['scored']:,}"))
    rows += _reason_rows(summary, scored=True)
    if summary["reused"]:
        rows.append(("reused", f"{summary['reused']:,} rows of an earlier run"))
    rows += [(words, f"{summary[name]:,}") for name, words in _DAMAGE.items() if summary.get(name)]
    if summary["replaced"]:
        words = f"{summary['replaced']:,} rows of earlier parts that no longer fitted"
        rows.append(("replaced", words))
    rows.append(("rejected", f"{summary['rejected']:,}"))
    rows += _reason_rows(summary, scored=False)
    dropped = list(summary["dropped_fields"].items())[:_SHOWN_FILES]
    rows += [("field dropped", f"{name}, which {n:,} rows have") for name, n in dropped]
    rows.append(("truncated", f"{summary['truncated']:,} ({summary['truncated_fraction']:.2%})"))
    rows += _unknown_rows(summary)
    if summary["windowed"]:
        rows.append(("scored in windows", f"{summary['windowed']:,}"))
    if summary["num_parts_of_inputs_gone"]:
        rows.append(("parts of inputs gone", f"{summary['num_parts_of_inputs_gone']:,}"))
    rows += _rejected_rows(summary["rejected_files"], summary["num_rejected_files"])
    failed = list(summary["failures"].items())[:_SHOWN_FILES]
    rows += [("split failed", f"{part}: {message}") for part, message in failed]
    rows.append(("parts", _parts_cell(summary)))
    rows.append(("seconds", f"{summary['seconds']:.1f}"))
    if summary["pairs_per_second"] is not None:
        rows.append(("pairs per second", f"{summary['pairs_per_second']:.1f}"))
    busy, idle = summary["device_busy_seconds"], summary["device_idle_seconds"]
    if busy:
        rows.append(("device busy", f"{busy:.1f} s, and {idle:.1f} s without work"))
    rows += [("output", output)] if output else []
    if summary["signature"] is not None:
        rows.append(("signature", summary["signature"]))
    rows += [(f"signature of {n}", format_signatures(of["signature"])) for n, of in metrics.items()]
    return TextTable("BERTScore", ("", ""), rows)


def _unknown_rows(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    unknown = summary.get("unknown_tokens")
    counts = []
    if unknown:
        only = summary["only_unknown_tokens"]
        counts.append(f"{unknown:,} ({summary['unknown_fraction']:.2%})")
        counts += [f"{only:,} rows have only these"] if only else []
    return [("unknown tokens", "; ".join(counts))] if counts else []


def _reason_rows(summary: Mapping[str, Any], *, scored: bool) -> list[tuple[str, ...]]:
    rejected = summary["rejected_reasons"]
    numbers = (
        {reason: number - rejected.get(reason, 0) for reason, number in summary["reasons"].items()}
        if scored
        else rejected
    )
    return [(f"  {reason}", f"{number:,}") for reason, number in numbers.items() if number]


def gate_messages(summary: Mapping[str, Any], rejects: str) -> list[str]:
    """Return a message for each gate that a run has not passed.

    Args:
        summary: That of the run.
        rejects: Where its rows without scores are listed; "" if the folder is not kept.
    """
    few = few_rows_message(summary["input_rows"], summary["min_rows"])
    shares = (
        f"{share:.1%} of the tokens of {name}" for name, share in summary["mostly_unknown"].items()
    )
    values = {**summary, "few_rows": few, "unknown_shares": ", ".join(shares)}
    reasons = (f"{reason} {rows:,}" for reason, rows in summary["rejected_reasons"].items())
    values["by_reason"] = ", ".join(reasons) or "no row by itself"
    listed = f" They are listed in {rejects}; the scores are kept."
    values["listed"] = listed if rejects else ""
    return [_GATES[name].format_map(values) for name in summary["failed_gates"]]


_GATES = {
    "parts_of_inputs_gone": (
        "the output holds {num_parts_of_inputs_gone} part(s) of inputs that are no longer given, "
        "such as {parts_of_inputs_gone[0]!r}; expected none. Delete them with --overwrite, or "
        "choose another --output."
    ),
    "min_rows": "{few_rows}",
    "max_reject_fraction": (
        "{reject_fraction:.2%} of the rows or files have no score, more than "
        "--max-reject-fraction {max_reject_fraction:.2%} allows: {by_reason}. Mend them, or "
        "allow more.{listed}"
    ),
    "max_truncated_fraction": (
        "{truncated_fraction:.2%} of the scored rows hold a text that was cut, more than "
        "--max-truncated-fraction {max_truncated_fraction:.2%} allows. Shorten the texts, score "
        "all of them (--long-text windows), or choose a model that takes longer ones."
    ),
    "max_unknown_fraction": (
        "the model does not know {unknown_shares}, more than --max-unknown-fraction "
        "{max_unknown_fraction:.2%} allows: such texts look the same to it, and their scores "
        "mean little. Choose another model: the default of the language (--language), or a "
        "newer multilingual one."
    ),
}
"""What is said of each gate, with the values of the summary."""


def _parts_cell(summary: Mapping[str, Any]) -> str:
    others = {"earlier": summary["parts_of_earlier_runs"], "read and kept": summary["parts_kept"]}
    listed = [f"{number:,} {what}" for what, number in others.items() if number]
    return f"{summary['parts']:,}" + (f" ({', '.join(listed)})" if listed else "")


def _idf_cell(idf: SavedIdf) -> str:
    if idf.must_count:
        return "to be counted over all references"
    return f"table {mask_credentials(idf.path)}" if idf.path else "none"
