"""Settle the settings of a run for its workers.

The languages of a dump are counted when the run is planned: so every setting that a row may ask for
is checked before any model runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bertscore_beam.dump.languages import NO_CODE, NO_LANGUAGE, by_name, language_name
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.options.language_map import OTHERS
from bertscore_beam.options.row_options import RowOptions
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.settings import EVERY_LANGUAGE, SettingsByLanguage, check_own_baselines
from bertscore_beam.run.loading import scorer_config, settle_workers
from bertscore_beam.run.pool import ask
from bertscore_core.errors import (
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    UnknownLanguageError,
)
from bertscore_core.scorer_config import ScorerConfig, WorkerSettings

if TYPE_CHECKING:
    from bertscore_core.config import Settings


def settle_named(options: RowOptions, threads: int | None) -> SettingsByLanguage:
    """Settle what does not depend on the input: all rows alike, or the languages that are named.

    Raises:
        BertScoreError: A setting cannot work.
    """
    alone = options.language_column is None
    return _settled(options, threads, [EVERY_LANGUAGE] if alone else _named(options))[0]


def _named(options: RowOptions) -> list[str]:
    return [language for language in options.languages or () if language != OTHERS]


def settle_languages(
    options: RowOptions, threads: int | None, named: SettingsByLanguage, rows: Mapping[str, int]
) -> SettingsByLanguage:
    """Settle the languages of the input, with their rows, that are not named; return all."""
    if options.language_column is None:
        return named
    # `SettingsByLanguage.reason` has that of the two that are not languages.
    known = {NO_LANGUAGE, NO_CODE, *named.by_language}
    others, errors = _settled(
        options, threads, [name for name in by_name(rows) if name not in known]
    )
    by_language = {**named.by_language, **others.by_language}
    if rows and not by_language.keys() & rows.keys():
        raise _nothing_left(options, rows, errors)
    if not options.allow_shared_baseline:
        check_own_baselines({name: own.config for name, own in by_language.items()})
    return replace(others, by_language=by_language)


def _settled(
    options: RowOptions, threads: int | None, languages: Iterable[str]
) -> tuple[SettingsByLanguage, list[str]]:
    """Settle languages in a child if there is a pool: it loads torch, and the launcher need not."""
    if not (chosen := tuple(languages)):
        return SettingsByLanguage(rescaled=options.rescale), []
    return ask(_settle_each, options, threads, chosen)


def _settle_each(
    options: RowOptions, threads: int | None, languages: Sequence[str]
) -> tuple[SettingsByLanguage, list[str]]:
    """Settle languages, each model once. Another process may do it.

    Returns:
        The settings, and the errors of the languages whose rows get a reason instead.

    Raises:
        BertScoreError: A language is named, and its setting cannot work; or its model cannot be
            used.
    """
    alone, named = options.language_column is None, _named(options)
    models: dict[ScorerConfig, Settings] = {}
    by_language: dict[str, WorkerSettings] = {}
    missing: dict[str, Reason] = {}
    errors = []
    for language in languages:
        chosen = options if alone else options.for_language(language)
        if chosen is None:
            missing[language] = Reason.LANGUAGE_WITHOUT_SETTING
            continue
        try:
            settings = settle_workers(scorer_config(chosen, threads), threads, models)
        except BertScoreError as error:
            if alone:
                raise
            reason = _REASONS.get(type(error))
            if reason is None or language in named:
                raise type(error)(f"language {language!r}: {error}") from error
            missing[language] = reason
            errors.append(str(error))
        else:
            by_language[language] = settings.for_workers()
    settled = SettingsByLanguage(by_language=by_language, missing=missing, rescaled=options.rescale)
    return settled, errors


def _nothing_left(
    options: RowOptions, rows: Mapping[str, int], errors: Sequence[str]
) -> ConfigError:
    shown = ", ".join(by_name(rows)[:_SHOWN]).strip(", ") or "no language codes"
    why = f" The first: {errors[0]}" if errors else ""
    return ConfigError(
        f"no language of the column {options.language_column!r} has a setting: got "
        f"{shown}; expected codes that are in --languages (also {OTHERS!r}) or that the "
        f"registry knows. Check --language-column and --languages.{why}"
    )


def without_setting_warning(plan: Plan, settings: SettingsByLanguage) -> str | None:
    """Say which languages have no setting, so that their rows get no scores; None if all have."""
    rows = _without_setting(plan, settings)
    if not rows:
        return None
    listed = [
        f"{language_name(language)} ({number:,}, {settings.reason(language)})"
        for language, number in rows.items()
    ]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    number = sum(rows.values())
    return (
        f"{number:,} rows ({_share(number, plan):.2%}) are of languages without a setting and "
        f"get no scores: {', '.join(listed[:_SHOWN])}{more}."
    )


def check_rejects(options: ScoreOptions, plan: Plan, settings: SettingsByLanguage) -> None:
    """Check that not too many rows are of languages without a setting.

    Raises:
        ConfigError: There are so many that the run would not be a success.
    """
    number, most = sum(_without_setting(plan, settings).values()), options.max_reject_fraction
    if number and _share(number, plan) > most:
        raise ConfigError(
            f"too many rows would have no score: {without_setting_warning(plan, settings)} "
            f"Expected at most {most:.2%} of the rows (--max-reject-fraction). Check "
            "--language-column and --languages, or raise that share."
        )


def _share(number: int, plan: Plan) -> float:
    """Return the share of rows of the input, each of which may have several candidates."""
    return number / (plan.num_rows or plan.about_rows)


def _without_setting(plan: Plan, settings: SettingsByLanguage) -> dict[str, int]:
    rows = plan.census.languages
    return {name: rows[name] for name in by_name(rows) if settings.reason(name) is not None}


_SHOWN = 10
"""Languages named in a message."""


_REASONS: Mapping[type[BertScoreError], Reason] = {
    UnknownLanguageError: Reason.UNKNOWN_LANGUAGE,
    BaselineNotFoundError: Reason.LANGUAGE_WITHOUT_BASELINE,
}
"""Errors of a language that nobody named with which a run can work: the reason of its rows."""
