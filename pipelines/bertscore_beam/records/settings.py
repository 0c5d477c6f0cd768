"""The settings of a run: how the rows of each language are scored."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertscore_beam.dump.languages import NO_CODE, NO_LANGUAGE
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_core.baseline import Baseline
from bertscore_core.errors import ConfigError, IdfError
from bertscore_core.registry import known_languages
from bertscore_core.scorer_config import ScorerConfig, WorkerSettings

EVERY_LANGUAGE = ""
"""Stands for the language of all rows in a run without a column of languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsByLanguage:
    """The settings of each language of a run: how its rows are scored.

    Attributes:
        by_language: The settings of each language. A run without a column of languages has one,
            under `EVERY_LANGUAGE`.
        missing: Why languages that could not be settled have no settings: the reason of their rows.
        rescaled: Whether the scores are rescaled, which is the same for all languages.
    """

    by_language: Mapping[str, WorkerSettings] = field(default_factory=dict)
    missing: Mapping[str, Reason] = field(default_factory=dict)
    rescaled: bool = False

    @property
    def by_column(self) -> bool:
        """Whether a column says the language of each row."""
        return EVERY_LANGUAGE not in self.by_language

    @property
    def script_language(self) -> str:
        """Language of the baseline of all rows, if its scripts are known; otherwise ""."""
        sole = self.sole if self.rescaled else None
        language = "" if sole is None else (sole.config.language or "").lower()
        return language if language in known_languages() else ""

    @property
    def windowed(self) -> bool:
        """Whether long texts are scored in windows, in any language."""
        return any(setting.config.long_text == "windows" for setting in self.by_language.values())

    @property
    def strips_reasoning(self) -> bool:
        """Whether reasoning is taken off candidates, which is the same for all languages."""
        return any(own.config.strip_reasoning for own in self.by_language.values())

    @property
    def sole(self) -> WorkerSettings | None:
        """The settings of all rows; None in a run with a column of languages."""
        return self.by_language.get(EVERY_LANGUAGE)

    def signatures(self, idf: IdfTables | None) -> dict[str, str]:
        """Return the signature of each language, with the fingerprint of its idf table."""
        made = {}
        for language, setting in sorted(self.by_language.items()):
            tables = None if idf is None else idf.for_language(language).fingerprint
            made[language] = setting.final_signature(tables).format()
        return made

    def signed(self, idf: IdfTables | None) -> dict[str, Any]:
        """Return the signature of all rows, or those of the languages, as `_run.json` has them."""
        signatures = self.signatures(idf)
        if self.by_column:
            return {"signatures": signatures}
        return {"signature": signatures[EVERY_LANGUAGE]}

    def reason(self, language: str) -> Reason | None:
        """Return why the rows of a language are not scored; None if they are."""
        if language in self.by_language:
            return None
        if language in (NO_LANGUAGE, NO_CODE):
            return Reason.NULL_LANGUAGE if language == NO_LANGUAGE else Reason.UNKNOWN_LANGUAGE
        # Nothing is asked for it, or it was not seen when the run was planned.
        return self.missing.get(language, Reason.LANGUAGE_WITHOUT_SETTING)

    def with_idf(self, label: str) -> "SettingsByLanguage":
        """Return the same settings with the name of the run's idf tables in their signatures."""
        named = {
            language: dataclasses.replace(
                setting, signature=dataclasses.replace(setting.signature, idf=label)
            )
            for language, setting in self.by_language.items()
        }
        return dataclasses.replace(self, by_language=named)

    @property
    def labels(self) -> dict[str, str]:
        """The label of each language's settings; empty if all rows are scored alike."""
        if not self.by_column:
            return {}
        return {language: setting.label for language, setting in self.by_language.items()}


def check_own_baselines(configs: Mapping[str, ScorerConfig]) -> None:
    """Check that no two languages are rescaled with the same table.

    Raises:
        ConfigError: Two are.
    """
    by_table: dict[str, list[str]] = {}
    for language, config in configs.items():
        if isinstance(config.baseline, Baseline):
            by_table.setdefault(config.baseline.fingerprint, []).append(language)
    for languages in by_table.values():
        if len(languages) > 1:
            raise ConfigError(
                f"languages {', '.join(languages)} would be rescaled with the same baseline; "
                "expected a table for each, since random pairs score differently in each language: "
                "their rescaled scores could not be compared. Give each its own (a folder of "
                "tables as --baseline, or `baseline` in --languages), do not rescale, or allow it "
                "with --allow-shared-baseline."
            )


def check_given_idf(tables: IdfTables, settings: SettingsByLanguage) -> None:
    """Check that given tables are of languages if the settings are, and fit their tokenizers.

    Raises:
        IdfError: They are not, or do not.
    """
    has_languages = any(key.language for key in tables.tables)
    if has_languages != settings.by_column:
        got, expected = ("", "no ") if has_languages else ("no ", "")
        raise IdfError(
            f"the idf tables cannot be used: got {got}table of a language; expected {expected}"
            "languages in them. Count them with `bertscore-beam idf` and the same "
            "--language-column as here."
        )
    for language, setting in settings.by_language.items():
        tables.check_fits(setting.tokenizer, setting.max_length, language)
