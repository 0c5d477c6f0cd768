"""Settle the settings of a run for its workers.

The languages of a dump are counted when the run is planned: so every setting that a row may ask for
is checked before any model runs.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bertscore_beam.dump.languages import codes_first, language_name
from bertscore_beam.dump.plan import Plan
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.options.row_options import RowOptions
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.records.settings import SettingsByLanguage, check_own_baselines
from bertscore_beam.run.loading import nothing_settled, scorer_config, settle_each, settle_workers
from bertscore_beam.run.pool import ask
from bertscore_core.errors import (
    BaselineNotFoundError,
    BertScoreError,
    ConfigError,
    UnknownLanguageError,
    listed,
)
from bertscore_core.scorer_config import ScorerConfig, WorkerSettings

if TYPE_CHECKING:
    from bertscore_core.config import Settings


def settle_named(options: RowOptions, threads: int | None) -> SettingsByLanguage:
    """Settle what does not depend on the input: all rows alike, or the languages that are named.

    Raises:
        BertScoreError: A setting cannot work.
    """
    by_language, _ = _settled(options, threads, options.languages or ())
    return SettingsByLanguage(by_language=by_language, rescaled=options.rescale)


def settle_languages(
    options: RowOptions, threads: int | None, named: SettingsByLanguage, rows: Mapping[str, int]
) -> SettingsByLanguage:
    """Settle the languages of the input, with their rows, that are not named; return all.

    Raises:
        BertScoreError: The model of one cannot be used, or no language has a setting.
    """
    if options.language_column is None:
        return named
    others = codes_first(rows.keys() - named.by_language.keys())
    found, errors = _settled(options, threads, others, skipped=_REASONS)
    by_language = {**named.by_language, **found}
    if rows and not by_language.keys() & rows.keys():
        raise nothing_settled(options.language_column, rows, errors)
    if not options.allow_shared_baseline:
        check_own_baselines({name: own.config for name, own in by_language.items()})
    missing = {language: _REASONS[type(error)] for language, error in errors.items()}
    return replace(named, by_language=by_language, missing=missing)


def _settled(
    options: RowOptions,
    threads: int | None,
    languages: Iterable[str],
    skipped: Container[type[BertScoreError]] = (),
) -> tuple[dict[str, WorkerSettings], dict[str, BertScoreError]]:
    """Settle languages in a child if there is a pool: it loads torch, and the launcher need not."""
    if not (asked := options.by_language(languages)):
        return {}, {}
    return ask(settle_each, tuple(asked), partial(_settle_one, asked, threads, {}), skipped)


def _settle_one(
    options: Mapping[str, RowOptions],
    threads: int | None,
    models: "dict[ScorerConfig, Settings]",
    language: str,
) -> WorkerSettings:
    config = scorer_config(options[language], threads)
    return settle_workers(config, threads, models).for_workers()


def without_setting_warning(plan: Plan, settings: SettingsByLanguage) -> str | None:
    """Say which languages have no setting, so that their rows get no scores; None if all have."""
    rows = _without_setting(plan, settings)
    if not rows:
        return None
    languages = [
        f"{language_name(language)} ({number:,}, {settings.reason(language)})"
        for language, number in rows.items()
    ]
    number = sum(rows.values())
    return (
        f"{number:,} rows ({_share(number, plan):.2%}) are of languages without a setting and "
        f"get no scores: {listed(languages)}."
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
    return {name: rows[name] for name in codes_first(rows) if settings.reason(name) is not None}


_REASONS: Mapping[type[BertScoreError], Reason] = {
    UnknownLanguageError: Reason.UNKNOWN_LANGUAGE,
    BaselineNotFoundError: Reason.LANGUAGE_WITHOUT_BASELINE,
}
"""Errors of a language that nobody named with which a run can work: the reason of its rows."""
