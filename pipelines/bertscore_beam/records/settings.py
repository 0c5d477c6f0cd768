"""The settings of a run: how the rows of each language are scored."""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from bertscore_beam.dump.languages import NO_CODE, NO_LANGUAGE
from bertscore_beam.dump.reasons import Reason
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_core.baseline import Baseline
from bertscore_core.errors import ConfigError, IdfError
from bertscore_core.idf import IdfTable
from bertscore_core.registry import known_languages
from bertscore_core.scorer_config import ScorerConfig
from bertscore_core.signature import Signature

EVERY_LANGUAGE = ""
"""Stands for the language of all rows in a run without a column of languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSetting:
    """How rows are scored.

    Attributes:
        signature: How the scores are made, without the fingerprint of a counted idf table.
        max_length: Most tokens of a text; longer texts are cut. None for no limit.
        baseline: Precision, recall and F1 that raw scores are rescaled with; None for none.
        weight_bytes: Bytes of its model's weights when it is loaded; 0 where that is not needed.
    """

    config: ScorerConfig
    signature: Signature
    max_length: int | None
    baseline: tuple[float, float, float] | None = None
    weight_bytes: int = 0

    def final_signature(self, idf: IdfTable | IdfTables | None) -> Signature:
        """Return the signature with the fingerprint of the idf table, or tables, of its rows."""
        if idf is None:
            return self.signature
        return dataclasses.replace(self.signature, idf=idf.fingerprint)

    @property
    def label(self) -> str:
        """Digest of the signature: 16 hexadecimal digits."""
        return hashlib.sha256(self.signature.format().encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run, each for one language.

    Attributes:
        by_language: The setting of each language. A run without a column of languages has one
            setting, under `EVERY_LANGUAGE`.
        missing: Why other languages of the input have no setting: the reason of their rows.
        rescaled: Whether the scores are rescaled, which is the same for all settings.
        by_column: Whether a column says the language of each row.
        script_language: Language of the baseline of a run that scores all rows alike: texts that
            are plainly in another script are counted. "" to count none.
    """

    by_language: Mapping[str, RowSetting]
    missing: Mapping[str, Reason] = field(default_factory=dict)
    rescaled: bool = False
    by_column: bool = True
    script_language: str = ""

    @classmethod
    def of_all_rows(cls, setting: RowSetting) -> "RunSettings":
        """Return the settings of a run that scores all rows alike."""
        language = (setting.config.language or "").lower() if setting.config.rescale else ""
        return cls(
            by_language={EVERY_LANGUAGE: setting},
            rescaled=setting.config.rescale,
            by_column=False,
            # Nothing is known about the scripts of other languages.
            script_language=language if language in known_languages() else "",
        )

    @property
    def windowed(self) -> bool:
        """Whether long texts are scored in windows, in any language."""
        return any(setting.config.long_text == "windows" for setting in self.by_language.values())

    @property
    def sole(self) -> RowSetting | None:
        """The setting of all rows; None in a run with a column of languages."""
        return None if self.by_column else self.by_language[EVERY_LANGUAGE]

    def signatures(self, idf: IdfTables | None) -> dict[str, str]:
        """Return the signature of each language, with the fingerprint of its idf table."""
        made = {}
        for language, setting in sorted(self.by_language.items()):
            tables = None if idf is None else idf.for_language(language)
            made[language] = setting.final_signature(tables).format()
        return made

    def reason(self, language: str) -> Reason | None:
        """Return why the rows of a language are not scored; None if there is a setting."""
        if language in self.by_language:
            return None
        if language in (NO_LANGUAGE, NO_CODE):
            return Reason.NULL_LANGUAGE if language == NO_LANGUAGE else Reason.UNKNOWN_LANGUAGE
        # A language that was not seen when the run was planned has no setting either.
        return self.missing.get(language, Reason.LANGUAGE_WITHOUT_SETTING)

    def with_idf(self, label: str) -> "RunSettings":
        """Return the same settings with the name of the run's idf tables in their signatures."""
        named = {
            language: dataclasses.replace(
                setting, signature=dataclasses.replace(setting.signature, idf=label)
            )
            for language, setting in self.by_language.items()
        }
        return dataclasses.replace(self, by_language=named)

    @property
    def labels(self) -> dict[str, str] | None:
        """The label of each language's setting; None if all rows are scored alike."""
        if not self.by_column:
            return None
        return {language: setting.label for language, setting in self.by_language.items()}


def check_own_baselines(baselines: Mapping[str, Baseline | None]) -> None:
    """Check that no two languages are rescaled with the same table.

    Raises:
        ConfigError: Two are.
    """
    by_table: dict[str, list[str]] = {}
    for language, baseline in baselines.items():
        if baseline is not None:
            by_table.setdefault(baseline.fingerprint, []).append(language)
    for languages in by_table.values():
        if len(languages) > 1:
            raise ConfigError(
                f"languages {', '.join(languages)} would be rescaled with the same baseline; "
                "expected a table for each, since random pairs score differently in each language: "
                "their rescaled scores could not be compared. Give each its own (a folder of "
                "tables as --baseline, or `baseline` in --languages), do not rescale, or allow it "
                "with --allow-shared-baseline."
            )


# Check that saved idf tables fit the run that is to use them.


def check_groups(tables: IdfTables, group: tuple[str, ...]) -> None:
    """Check that the groups of a saved table are those of the run.

    Raises:
        ConfigError: They are not.
    """
    if tables.group_columns == group:
        return
    columns, asked = " ".join(tables.group_columns), " ".join(group)
    cure = f"Add --idf-group {columns}." if columns else "Leave --idf-group out, or count with it."
    raise ConfigError(
        f"the idf table was counted {f'by groups of {columns}' if columns else 'without groups'}: "
        f"got {f'--idf-group {asked}' if asked else 'no --idf-group'}; expected the same. {cure}"
    )


def check_given_idf(tables: IdfTables, settings: RunSettings) -> None:
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
        tables.check_fits(setting.signature.tokenizer, setting.max_length, language)
