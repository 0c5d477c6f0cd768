"""The groups of a run as a table for people."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bertscore_beam.dump.columns import shown_number
from bertscore_beam.metrics.table import CORPUS_METRICS
from bertscore_beam.records.groups import CONFIDENCE, metric_columns_in, read_caveats, value_name
from bertscore_beam.records.summary import compares_samples, error_metrics
from bertscore_beam.run.output import TextTable
from bertscore_core.stats.caveats import caveat_cells

_SHOWN_ROWS = 50
"""Most groups printed; the files have all of them."""


def show_groups(
    groups: Sequence[Mapping[str, Any]],
    by: Sequence[str],
    number: int,
    confidence: float = CONFIDENCE,
    num_languages: int = 1,
    summary: Mapping[str, Any] | None = None,
) -> TextTable:
    """Return the first groups as a table: F1 with its interval, and what stands out.

    Of several languages the row of all, which is given first, comes last and is called so. What the
    numbers are called, and of which metrics lower is better, depends on the summary of the run.
    """
    metrics = shown_metrics(groups[0], error_metrics(summary or {})) if groups else {}
    f1 = "utility" if compares_samples(summary or {}) else "F1"
    is_mixed = num_languages > 1 and groups[0]["group"] is None
    if is_mixed:
        groups = [*groups[1:_SHOWN_ROWS], groups[0]]
    name = f"all {num_languages} languages" if is_mixed else "all rows"
    rows = [_cells(group, by, metrics, name) for group in groups[:_SHOWN_ROWS]]
    has_caveats = any(group["caveats"] for group in groups[:_SHOWN_ROWS])
    if has_caveats:
        caveats = (read_caveats(group["caveats"]) for group in groups)
        rows = [(*row, caveat_cells(own)) for row, own in zip(rows, caveats, strict=False)]
    left = number - sum(group["group"] is not None for group in groups[:_SHOWN_ROWS])
    title = f"Groups by {', '.join(by)}" if by else "All rows"
    if left:
        title += f" (the first; {left:,} more)"
    titles = (
        *(by or ("",)),
        "rows",
        "rejected",
        "truncated",
        "P",
        "R",
        f1,
        f"{100 * confidence:g}% of {f1}",
        "raw median",
        *metrics.values(),
        *(["caveats"] if has_caveats else ()),
    )
    return TextTable(title, titles, rows)


def shown_metrics(group: Mapping[str, Any], errors: Collection[str] = ()) -> dict[str, str]:
    """Return the title of each metric by the name of its value: of the corpus, else the mean."""
    order = {name: ", lower is better" for name in errors}
    shown = {name: (column, f"{column}_mean") for name, column in metric_columns_in(group).items()}
    return {
        own: f"{'mean ' * (own == mean)}{name}{order.get(name, '')}"
        for name, (column, mean) in shown.items()
        if (own := column if name in CORPUS_METRICS else mean) in group
    }


def show_groups_scored(summary: Mapping[str, Any]) -> list[TextTable]:
    """Return the groups in the summary of a run, if it has any."""
    groups = summary.get("groups")
    return (
        [show_groups(groups["shown"], groups["by"], groups["number"], summary=summary)]
        if groups
        else []
    )


def _cells(
    group: Mapping[str, Any], by: Sequence[str], metrics: Iterable[str], whole: str
) -> tuple[str, ...]:
    if group["group"] is None:
        names = [whole, *("" for _ in by[1:])]
    else:
        names = list(map(value_name, group["group"].values()))
    low, high = (shown_number("f1", group[name], 4) for name in ("f1_low", "f1_high"))
    return (
        *names,
        f"{group['rows']:,}",
        f"{group['rejected']:,}",
        f"{group['truncated']:,}",
        *(shown_number(measure, group[measure], 4) for measure in ("precision", "recall", "f1")),
        f"{low} to {high}" if low else "",
        shown_number("f1", group["raw_f1_q50"], 4),
        *(_shown_metric(group, name) for name in metrics),
    )


def _shown_metric(group: Mapping[str, Any], name: str) -> str:
    missing = group.get(f"{name.removesuffix('_mean')}_missing", 0)
    return shown_number(name, group[name], 4) + (f" without {missing:,} rows" if missing else "")
