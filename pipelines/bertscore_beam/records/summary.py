"""The totals of a run, which can be added up, and its summary."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from bertscore_beam.dump.columns import ERROR_METRICS
from bertscore_beam.dump.languages import codes_first, language_name
from bertscore_beam.dump.lines import fewer_names
from bertscore_beam.dump.splits import Split
from bertscore_beam.records.record import PartRecord
from bertscore_core.stats.caveats import caveats_of_values
from bertscore_core.stats.score_statistics import MEASURES, ScoreSummary
from bertscore_core.sums import Sums
from bertscore_core.work import Work

_AT_ONCE = 1000
SHOWN_FAILURES = 100
"""Most failed splits, rejected files and parts of missing inputs that the summary names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Sums):
    """Sums over parts and failed splits: what becomes of a split, and of a run.

    Attributes:
        parts_kept: Parts that were read to their end and are whole.
        kept_rows: Rows of parts that are kept, and rows of replaced parts that have no new scores.
        input_rows: Rows of the input that all parts were made of.
        fresh_rows: Rows of the parts written, without those that took scores of an earlier run.
        reused: Rows of the parts written that took the scores of an earlier run.
        reuse_failures: Damaged earlier parts that were met, and look-ups that failed.
        parts_unreadable: Parts written in the place of one that could not be read.
        summary: Sums over the rows of all parts.
        seconds: Time spent on scores, with waiting for the device; not on reading or writing.
        work: The work of the device for the parts written.
        failed_rows: Rows of these splits, estimated where they are not known.
        failures: Some of them, as (part name, reason), by part name.
        languages: Sums over the rows of each language; empty if all rows are scored alike.
        other_scripts: As in `ScoredTable`; so is `tokenized`.
        dropped: Fields of JSON that are not columns, with the number of rows that have them.
    """

    parts: int = 0
    parts_kept: int = 0
    kept_rows: int = 0
    input_rows: int = 0
    fresh_rows: int = 0
    reused: int = 0
    reuse_failures: int = 0
    parts_unreadable: int = 0
    summary: ScoreSummary = field(default_factory=ScoreSummary)
    seconds: float = 0.0
    work: Work = field(default_factory=Work)
    failed_splits: int = 0
    failed_rows: int = 0
    failures: tuple[tuple[str, str], ...] = ()
    languages: Mapping[str, ScoreSummary] = field(default_factory=dict)
    other_scripts: int = 0
    tokenized: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_record(cls, record: PartRecord) -> "Totals":
        """Return the totals of one part."""
        return cls(
            parts=1,
            input_rows=record.rows_read,
            summary=record.summary,
            languages={name: rows.summary for name, rows in record.languages.items()},
            other_scripts=record.other_scripts,
            tokenized=record.tokenized,
            dropped=record.dropped,
        )

    @classmethod
    def of_records(cls, records: Iterable[PartRecord]) -> "Totals":
        """Return the totals of parts, however many: some are added at a time."""
        total, left = cls(), map(cls.of_record, records)
        while some := [*islice(left, _AT_ONCE)]:
            total = cls.merge([total, *some])
        return total

    @classmethod
    def of_kept(cls, record: PartRecord) -> "Totals":
        """Return those of a part of an earlier run that is still valid.

        One that an earlier try has staged replaces what is published as one that is scored.
        """
        kept_rows = 0 if record.staged else record.num_rows
        return replace(cls.of_record(record), parts_kept=1, kept_rows=kept_rows)

    @classmethod
    def of_failed(cls, split: Split, reason: str) -> "Totals":
        """Return those of a split without a new part: unreadable, or its idf table incomplete."""
        failures = ((split.part_name, reason),)
        return cls(failed_splits=1, failed_rows=split.about_rows, failures=failures)

    @classmethod
    def merge(cls, parts: Iterable["Totals"]) -> "Totals":
        """Return the totals of several sets of splits together."""
        parts = list(parts)
        failures = sorted(failure for part in parts for failure in part.failures)
        total = super(Totals, cls).merge([replace(part, failures=()) for part in parts])
        return replace(
            total, failures=tuple(failures[:SHOWN_FAILURES]), dropped=fewer_names(total.dropped)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The bounds that a run must keep to succeed, as its options have them.

    Attributes:
        min_rows: Least number of rows that may be planned.
        max_reject_fraction: Largest share of rows, or of files, that may go without a score.
        max_truncated_fraction: Largest share of scored rows with a text that was cut; None for any.
        max_unknown_fraction: Largest share of tokens that the model does not know, of all scored
            rows and of those of each language.
    """

    min_rows: int = 0
    max_reject_fraction: float = 0.0
    max_truncated_fraction: float | None = None
    max_unknown_fraction: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What is known of a run before it scores; its totals are compared with it at the end.

    Attributes:
        rows: Rows planned; None if files must be read to know, as where a row of the input may have
            several candidates.
        about_rows: The same, estimated if it is not known.
        num_unreachable_files: Rejected files that could not be reached; the next run tries again.
        rejected_files: The reason by path, for some of the rejected files.
        num_parts_gone: Parts in the output folder whose input is missing; `parts_gone` names some.
        started: When the run began, in seconds since the epoch.
        carried: Totals of the parts of earlier runs that are done.
        parts_damaged: Files with the names of parts that hold none.
        rows_at_risk: Rows of the other earlier parts: they keep their scores only if a worker finds
            them there again.
    """

    parts: int = 0
    rows: int | None = 0
    about_rows: int = 0
    files: int = 0
    num_rejected_files: int = 0
    num_unreachable_files: int = 0
    rejected_files: Mapping[str, str] = field(default_factory=dict)
    gates: Gates = field(default_factory=Gates)
    num_parts_gone: int = 0
    parts_gone: tuple[str, ...] = ()
    started: float = 0.0
    carried: Totals = field(default_factory=Totals)
    parts_damaged: int = 0
    rows_at_risk: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether earlier runs have left nothing to score."""
        return self.carried.parts == self.parts


def summarize(
    start: RunStart,
    new: Totals,
    signature: str | None,
    *,
    missing: int,
    restarts: int = 0,
    untouched_rows: int = 0,
    whole_idf: bool = True,
) -> dict[str, Any]:
    """Return the summary of a run.

    A row is rejected if it has no score. Pairs with an empty side that score 0 have a reason, which
    `reasons` counts, but are not rejected.

    Args:
        start: What was known before.
        new: Totals of this run.
        signature: How the scores were made; None if that depends on the language of a row.
        missing: Number of planned parts that are missing or not valid.
        restarts: How many deaths of workers the run has survived.
        untouched_rows: Rows of earlier parts that remain since their splits could not be scored.
        whole_idf: Whether the idf table was counted over every file.

    Returns:
        The content of `_summary.json`, whose keys are always the same. `complete`: every file could
        be reached, and every planned part is in the folder, no row twice. `success`: complete, and
        every gate is passed.
        `failed_gates` names the other gates like their options; `parts_of_inputs_gone` is the gate
        for parts of inputs that are missing. `mostly_unknown` has the rows above its gate.
    """
    total = start.carried + new
    summary = total.summary
    unscored = summary.rejected + total.failed_rows
    rows = summary.rows + total.failed_rows if start.rows is None else start.rows
    share = max(
        unscored / rows if rows else 0.0,
        start.num_rejected_files / start.files if start.files else 0.0,
    )
    counted = total.parts == start.parts and start.rows in (None, summary.rows)
    whole = not start.num_unreachable_files and not missing and whole_idf
    complete = counted and whole
    input_rows = total.input_rows + total.failed_rows if start.rows is None else start.rows
    gates, most_cut = start.gates, start.gates.max_truncated_fraction
    mostly_unknown = _mostly_unknown(total, gates.max_unknown_fraction)
    passed = {
        "parts_of_inputs_gone": not start.num_parts_gone,
        "min_rows": input_rows >= gates.min_rows,
        "max_reject_fraction": share <= gates.max_reject_fraction,
        "max_truncated_fraction": most_cut is None or summary.truncated_fraction <= most_cut,
        "max_unknown_fraction": not mostly_unknown,
    }
    return {
        "complete": complete,
        "success": complete and all(passed.values()),
        "failed_gates": [name for name, is_passed in passed.items() if not is_passed],
        **described_sums(summary),
        "rejected": unscored,
        "input_rows": input_rows,
        "planned_rows": rows,
        "reused": total.reused,
        "reuse_failures": total.reuse_failures,
        "replaced": max(start.rows_at_risk - new.kept_rows - untouched_rows, 0),
        "reject_fraction": share,
        "truncated_fraction": summary.truncated_fraction,
        "windowed": summary.windowed,
        "mostly_unknown": mostly_unknown,
        **asdict(gates),
        "other_scripts": total.other_scripts,
        "tokenized": total.tokenized,
        "dropped_fields": dict(sorted(total.dropped.items())),
        "rejected_reasons": dict(sorted(summary.rejected_reasons.items())),
        "parts": total.parts,
        "parts_of_earlier_runs": start.carried.parts,
        "parts_kept": new.parts_kept,
        "parts_unreadable": new.parts_unreadable,
        "num_parts_of_inputs_gone": start.num_parts_gone,
        "parts_of_inputs_gone": list(start.parts_gone),
        "files": start.files,
        "num_rejected_files": start.num_rejected_files,
        "num_unreachable_files": start.num_unreachable_files,
        "rejected_files": dict(start.rejected_files),
        "missing_parts": missing,
        "whole_idf": whole_idf,
        "failed_splits": total.failed_splits,
        "failures": dict(total.failures),
        **described_work(start, new, restarts),
        "signature": signature,
        **dict.fromkeys(("languages", "groups", "metrics", "idf")),  # of runs that have them
    }


def described_sums(summary: ScoreSummary) -> dict[str, Any]:
    """Return sums over rows as plain values: means, which are None without a scored row, and more.

    The caveats are those of means without an interval.
    """
    means = summary.means.tolist() if summary.scored else [None] * len(MEASURES)
    given = summary.unknown, summary.clipped
    caveats = caveats_of_values(*given, reasoning=summary.reasoning_fraction)
    return {
        "rows": summary.rows,
        "scored": summary.scored,
        "rejected": summary.rejected,
        "reasons": dict(sorted(summary.reasons.items())),
        "truncated": summary.truncated,
        **summary.unknown.described(),
        **dict(zip(MEASURES, means, strict=True)),
        "clipped": summary.clipped,
        "caveats": [asdict(own) for own in caveats],
    }


_ALL_ROWS = "all rows"
_JUDGED_ROWS = 20
"""Fewest scored rows of a language that is judged by itself: fewer may be stray words."""


def _mostly_unknown(total: Totals, most: float) -> dict[str, float]:
    """Return the share of unknown tokens of all rows, and of each language, where it is too high.

    All rows are judged, however few they are.
    """
    judged = {_ALL_ROWS: total.summary} | {
        language_name(name): total.languages[name]
        for name in codes_first(total.languages)
        if total.languages[name].scored >= _JUDGED_ROWS
    }
    shares = {name: summary.unknown.fraction or 0.0 for name, summary in judged.items()}
    return {name: share for name, share in shares.items() if share > most}


def summary_of_languages(total: Totals, signatures: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return what the summary says of each language, by the name it is shown under.

    Args:
        total: Totals of the run.
        signatures: How the scores of each language were made.
    """
    return {
        language_name(language): {
            **described_sums(total.languages[language]),
            "signature": signatures.get(language),
        }
        for language in codes_first(total.languages)
    }


def scored_languages(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the languages of a summary that have scores; none if all rows are scored alike."""
    languages = (summary.get("languages") or {}).items()
    return tuple(name for name, own in languages if own.get("scored"))


def compares_samples(summary: Mapping[str, Any]) -> bool:
    """Tell whether the candidates of a run were compared with each other: F1 is their utility."""
    languages = (summary.get("languages") or {}).values()
    return any("|references:mean" in str(own.get("signature")) for own in (summary, *languages))


def error_metrics(summary: Mapping[str, Any]) -> set[str]:
    """Return the metrics in a summary that count errors: lower is better."""
    metrics = (summary.get("metrics") or {}).items()
    return {name for name, own in metrics if name in ERROR_METRICS or own.get("lower_is_better")}


def described_work(start: RunStart, new: Totals, restarts: int = 0) -> dict[str, Any]:
    """Return what the summary says of the time and work of a run; see `summarize`."""
    total = start.carried + new
    # Another machine may have started the run, with a clock ahead of this one.
    seconds = max(time.time() - start.started, 0.0)
    return {
        "seconds": round(seconds, 3),
        "restarts": restarts,
        "scoring_seconds": round(total.seconds, 3),
        "device_busy_seconds": round(total.work.busy_seconds, 3),
        "device_idle_seconds": round(total.work.idle_seconds, 3),
        "device_late_seconds": round(total.work.late_seconds, 3),
        "host_waited_seconds": round(total.work.waited_seconds, 3),
        "tokens": total.work.tokens,
        "padding": round(total.work.padding, 4),
        "batches": total.work.batches,
        "memory_retries": total.work.retries,
        "lowered_batches": total.work.lowered_batches,
        "pairs_per_second": (
            round(new.fresh_rows / seconds, 3) if new.fresh_rows and seconds > 0 else None
        ),
    }
