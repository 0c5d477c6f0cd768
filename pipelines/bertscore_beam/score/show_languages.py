"""Tables of the languages of a run, and the message about those without a setting."""

from collections.abc import Mapping
from typing import Any

from bertscore_beam.dump.language_codes import by_name, words_for
from bertscore_beam.run.outcome import Shown
from bertscore_beam.score.plan_settings import PlannedSettings
from bertscore_beam.score.settings import RunSettings

_SHOWN = 10
"""Languages named in a message."""


def show_languages_planned(planned: PlannedSettings) -> tuple[Shown, ...]:
    """Return the table of the languages of a plan; none if all rows are scored alike."""
    settings = planned.settings
    if not settings.by_column:
        return ()
    rows: list[tuple[str, ...]] = []
    for language in by_name({*settings.by_language, *planned.rows}):
        number = f"{planned.rows.get(language, 0):,}"
        setting = settings.by_language.get(language)
        if setting is None:
            reason = str(settings.reason(language))
            rows.append((words_for(language), number, f"none: {reason}", "", "", ""))
            continue
        made = setting.signature
        rows.append((language, number, made.model, made.num_layers, made.baseline, made.max_length))
    columns = ("language", "rows", "model", "layer", "baseline", "maximum length")
    return (Shown("Languages", columns, rows),)


def show_languages_scored(summary: Mapping[str, Any]) -> tuple[Shown, ...]:
    """Return the table of the languages of a summary; none if all rows are scored alike."""
    if "languages" not in summary:
        return ()
    columns = ("language", "rows", "scored", "precision", "recall", "f1", "reasons")
    rows = [
        (
            language,
            f"{found['rows']:,}",
            f"{found['scored']:,}",
            *(_mean(found[name]) for name in ("precision", "recall", "f1")),
            ", ".join(f"{reason} {number:,}" for reason, number in found["reasons"].items()),
        )
        for language, found in summary["languages"].items()
    ]
    return (Shown("Languages", columns, rows),)


def without_setting_words(rows: Mapping[str, int], settings: RunSettings) -> str:
    """Say which languages have no setting, so that their rows get no scores."""
    listed = [
        f"{words_for(language)} ({rows[language]:,}, {settings.reason(language)})"
        for language in by_name(rows)
    ]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return (
        f"{sum(rows.values()):,} rows are of languages without a setting and get no scores: "
        f"{', '.join(listed[:_SHOWN])}{more}."
    )


def _mean(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f}"
