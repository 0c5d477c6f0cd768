"""Check that saved idf tables fit the run that is to use them."""

from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.score.settings import RunSettings
from bertscore_core.errors import ConfigError, IdfError


def check_groups(tables: IdfTables, group: tuple[str, ...]) -> None:
    """Check that the groups of a saved table are those of the run.

    Raises:
        ConfigError: They are not.
    """
    if tables.group_columns == group:
        return
    there, given = " ".join(tables.group_columns), " ".join(group)
    cure = f"Add --idf-group {there}." if there else "Leave --idf-group out, or count with it."
    raise ConfigError(
        f"the idf table was counted {f'by groups of {there}' if there else 'without groups'}: got "
        f"{f'--idf-group {given}' if given else 'no --idf-group'}; expected the same. {cure}"
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
