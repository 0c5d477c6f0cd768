"""Metrics as an option names them: those of libraries, and functions as package.module:name."""

import re

from bertscore_beam.dump.columns import METRIC_COLUMNS, METRICS, SCORES
from bertscore_beam.options.values import check_value

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def functions_among(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metrics that are functions of one's own."""
    return tuple(name for name in names if ":" in name)


def libraries_among(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the other metrics."""
    return tuple(name for name in names if ":" not in name)


def import_note(names: tuple[str, ...]) -> str:
    """Say that functions are imported, which may take long; "" if there are none."""
    return f"Importing {', '.join(names)} ..." if names else ""


def check_metric_names(names: tuple[str, ...], source_column: str | None, more: str = "") -> None:
    """Check the names of metrics, and that a column of sources is given to a function.

    Args:
        names: The names.
        source_column: The column of sources; None without.
        more: What else may be given in the place of names.

    Raises:
        ConfigError: They cannot be used.
    """
    functions = functions_among(names)
    check_value(
        "metrics",
        list(names),
        fine={*libraries_among(names)} <= {*METRICS} and all(map(_FUNCTION.fullmatch, functions)),
        expected=f"names of {', '.join(METRICS)}, or functions as package.module:name{more}",
        cure="METEOR and CIDEr are not among them: they need Java, or a corpus of captions.",
    )
    shown = [name.rpartition(":")[2].casefold() for name in names]
    columns = (column.removeprefix("metric_") for column in METRIC_COLUMNS)
    ours = {*SCORES, *METRICS, *columns}  # in small letters
    taken = [
        metric
        for metric, name in zip(names, shown, strict=True)
        if shown.count(name) > 1 or (":" in metric and name in ours)
    ]
    check_value(
        "metrics",
        taken,
        fine=not taken,
        expected="names that no other metric or measure has, in whatever case",
        cure="Give each once, or give the function another name.",
    )
    check_value(
        "source_column",
        source_column,
        fine=source_column is None or bool(functions),
        expected="one only together with a function in --metrics that takes sources",
        cure="Leave it out.",
    )
