"""Texts about a scoring run: its plan, its summary, and the gates it has not passed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertscore_beam.dump.plan import few_rows_words, grouped, rows_words
from bertscore_beam.dump.runs import reading_words
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.run.outcome import Shown
from bertscore_beam.runs.source import Reuse
from bertscore_beam.score.prepare import ScoreJob
from bertscore_beam.score.settings import RowSetting

SHOWN_FILES = 10


def show_plan(
    job: ScoreJob,
    reuse: Reuse | None,
    estimated: str,
    warnings: Sequence[str] = (),
    *,
    num_groups: int = 0,
    backend: str | None = None,
) -> Shown:
    """Return the table of the plan, for --dry-run, with warnings at its end.

    Args:
        job: The run.
        reuse: What `--reuse` leads to; None without it.
        estimated: The estimated time.
        warnings: Shown at the end.
        num_groups: Groups of `--group-by`.
        backend: What is said of the backend if the device was left to the workers; None otherwise.
    """
    by = ", ".join(job.spec.group_by)
    goal, setting = job.spec.goal, job.spec.settings.sole
    is_few = goal.rows is not None and goal.rows < goal.min_rows
    few = f", fewer than {goal.min_rows:,}" if is_few else ""
    rows = {
        **_model_rows(setting),
        **({} if backend is None else {"backend": backend}),
        "input files": f"{goal.files:,}",
        "files rejected": f"{goal.num_rejected_files:,}",
        "rows": f"{rows_words(job.plan.splits)}{few}",
        "splits": f"{goal.parts:,}, of at most {job.plan.split_rows:,} rows",
        "splits done earlier": f"{goal.carried.parts:,}",
        "earlier parts to be deleted": f"{len(job.superseded):,}",
        "rows to score": rows_words(job.standing.pending),
        "rows to compare first": rows_words(job.standing.unsure),
        "rows read": reading_words(job.standing.work, job.spec.workers),
        **({} if reuse is None else {"reuse": reuse.words}),
        "estimated time": estimated,
        "idf": _idf_words(job),
        **({"groups": f"{num_groups:,} by {by}"} if by else {}),
        "output": job.spec.folder.root,
        **({} if setting is None else {"signature": setting.signature.format()}),
    }
    listed = _rejected_rows(goal.rejected_files, goal.num_rejected_files)
    warned = [("warning", words) for words in warnings]
    return Shown("Plan", ("", ""), [*rows.items(), *listed, *warned])


def _model_rows(setting: RowSetting | None) -> dict[str, str]:
    """Return what the plan says of the model."""
    if setting is None:
        return {"model": "by the language of the row"}
    return {"model": setting.signature.model, "layer": setting.signature.num_layers}


def _rejected_rows(rejected: Mapping[str, str], total: int) -> list[tuple[str, ...]]:
    """Return rows for the rejected files, one row for all files with the same message.

    Args:
        rejected: The message by path, for some of the files.
        total: The number of all rejected files.
    """
    lines = grouped(list(rejected.items()))[:SHOWN_FILES]
    if total > len(rejected):
        lines.append(f"{total - len(rejected):,} more that are not named here")
    return [("file rejected", line) for line in lines]


def show_summary(summary: Mapping[str, Any], output: str) -> Shown:
    """Return the table of the summary."""
    rows: list[tuple[str, ...]] = []
    for name in ("precision", "recall", "f1"):
        value = summary[name]
        rows.append((name, "none scored" if value is None else f"{value:.6f}"))
    rows.append(("rows", f"{summary['rows']:,}"))
    rows.append(("scored", f"{summary['scored']:,}"))
    rows += _reason_rows(summary, scored=True)
    if summary["reused"]:
        rows.append(("reused", f"{summary['reused']:,} rows of an earlier run"))
    if summary["replaced"]:
        words = f"{summary['replaced']:,} rows of earlier parts, which did not fit any more"
        rows.append(("replaced", words))
    rows.append(("rejected", f"{summary['rejected']:,}"))
    rows += _reason_rows(summary, scored=False)
    dropped = list(summary["dropped_fields"].items())[:SHOWN_FILES]
    rows += [("field dropped", f"{name}, which {n:,} rows have") for name, n in dropped]
    rows.append(("truncated", f"{summary['truncated']:,} ({summary['truncated_fraction']:.2%})"))
    if summary["windowed"]:
        rows.append(("scored in windows", f"{summary['windowed']:,}"))
    if summary["num_parts_of_inputs_gone"]:
        rows.append(("parts of inputs gone", f"{summary['num_parts_of_inputs_gone']:,}"))
    rows += _rejected_rows(summary["rejected_files"], summary["num_rejected_files"])
    failed = list(summary["failures"].items())[:SHOWN_FILES]
    rows += [("split failed", f"{part}: {message}") for part, message in failed]
    rows.append(("parts", _parts_words(summary)))
    rows.append(("seconds", f"{summary['seconds']:.1f}"))
    if summary["pairs_per_second"] is not None:
        rows.append(("pairs per second", f"{summary['pairs_per_second']:.1f}"))
    busy, idle = summary["device_busy_seconds"], summary["device_idle_seconds"]
    if busy:
        rows.append(("device busy", f"{busy:.1f} s, and {idle:.1f} s without work"))
    rows.append(("output", output))
    if summary["signature"] is not None:
        rows.append(("signature", summary["signature"]))
    return Shown("BERTScore", ("", ""), rows)


def _reason_rows(summary: Mapping[str, Any], *, scored: bool) -> list[tuple[str, ...]]:
    """Return a row for each reason that rows with scores have, or rows without."""
    rejected = summary["rejected_reasons"]
    numbers = (
        {reason: number - rejected.get(reason, 0) for reason, number in summary["reasons"].items()}
        if scored
        else rejected
    )
    return [(f"  {reason}", f"{number:,}") for reason, number in numbers.items() if number]


def gate_words(summary: Mapping[str, Any], rejects: str) -> list[str]:
    """Return a message for each gate that a run has not passed.

    Args:
        summary: The summary of the run.
        rejects: Folder with the lists of rejects.
    """
    return [_GATES[name](summary, rejects) for name in summary["failed_gates"]]


def _gone_words(summary: Mapping[str, Any], _: str) -> str:
    return (
        f"the output holds {summary['num_parts_of_inputs_gone']} part(s) of inputs that are not "
        f"given any more, such as {summary['parts_of_inputs_gone'][0]!r}; expected none. Delete "
        "them with --overwrite, or use another --output."
    )


def _reject_words(summary: Mapping[str, Any], rejects: str) -> str:
    return (
        f"{summary['reject_fraction']:.2%} of the rows or files have no score, more than "
        f"--max-reject-fraction {summary['max_reject_fraction']:.2%} allows. They are listed in "
        f"{rejects}."
    )


def _truncation_words(summary: Mapping[str, Any], _: str) -> str:
    return (
        f"{summary['truncated_fraction']:.2%} of the scored rows hold a text that was cut, more "
        f"than --max-truncated-fraction {summary['max_truncated_fraction']:.2%} allows. Shorten "
        "the texts, score all of them (--long-text windows), or choose a model that takes longer "
        "ones."
    )


_GATES: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "parts_of_inputs_gone": _gone_words,
    "min_rows": lambda summary, _: few_rows_words(summary["planned_rows"], summary["min_rows"]),
    "max_reject_fraction": _reject_words,
    "max_truncated_fraction": _truncation_words,
}


def _parts_words(summary: Mapping[str, Any]) -> str:
    """Return the number of parts, and how many of them this run has not scored."""
    others = {
        "earlier": summary["parts_of_earlier_runs"],
        "compared and kept": summary["parts_kept"],
        "written again with their scores": summary["parts_rewritten"],
    }
    listed = [f"{number:,} {words}" for words, number in others.items() if number]
    return f"{summary['parts']:,}" + (f" ({', '.join(listed)})" if listed else "")


def _idf_words(job: ScoreJob) -> str:
    if job.idf.path is None:
        return "none"
    if job.idf.may_be_valid:
        return "table of an earlier run, counted again if a reference has changed"
    return (
        "to be counted over all references"
        if job.idf.must_count
        else f"table {mask_credentials(job.idf.path)}"
    )
