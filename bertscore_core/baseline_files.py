"""Read a baseline from a file, or from a folder of tables."""

from pathlib import Path

from bertscore_core.baseline import (
    CUSTOM,
    TABLE_SUFFIX,
    Baseline,
    choose_table,
    description_path,
    parse_baseline,
    table_name,
)
from bertscore_core.errors import BaselineNotFoundError


def read_baseline(path: Path, language: str | None, model: str, *, idf: bool) -> Baseline:
    """Read a table, or the one for a language and a model from a folder of tables."""
    name = CUSTOM
    if path.is_dir():
        if language is None:
            raise BaselineNotFoundError(
                f"{path} is a folder of baselines, and no language was given; expected one to "
                "choose a table by. Give the language (--lang en), or the path of a table."
            )
        below = choose_table(
            [file.relative_to(path).as_posix() for file in path.rglob(f"*{TABLE_SUFFIX}")],
            language,
            model,
            idf=idf,
        )
        path, name = path / below, table_name(below)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineNotFoundError(
            f"baseline {path} cannot be read ({type(error).__name__}); expected a LAYER,P,R,F "
            "table."
        ) from error
    description_file = Path(description_path(path.as_posix()))
    description = description_file.read_bytes() if description_file.is_file() else None
    return parse_baseline(text, str(path), name=name, description=description)
