"""Checks of single values of options; each raises the same kind of message."""

from collections.abc import Sequence

from bertscore_core.errors import ConfigError


def check_value(name: str, got: object, *, fine: bool, expected: str, cure: str) -> None:
    """Raise unless a value is fine.

    Raises:
        ConfigError: If it is not.
    """
    if not fine:
        raise ConfigError(f"{name!r} cannot be used: got {got!r}; expected {expected}. {cure}")


def check_at_least(name: str, value: int | None, least: int) -> None:
    """Raise if a number is given and too small."""
    check_value(
        name,
        value,
        fine=value is None or value >= least,
        expected=f"at least {least}",
        cure="Leave it out for the default.",
    )


def check_share(name: str, value: float | None) -> None:
    """Raise if a number is given and is not from 0 to 1."""
    check_value(
        name,
        value,
        fine=value is None or 0.0 <= value <= 1.0,
        expected="a share from 0 to 1",
        cure="For 5 percent write 0.05.",
    )


def check_group_columns(name: str, columns: Sequence[str]) -> None:
    """Raise unless columns can be those of groups.

    Raises:
        ConfigError: One is named twice, or like a column that is written about groups.
    """
    check_value(
        name,
        list(columns),
        fine=len(set(columns)) == len(columns)
        and not any(one.startswith("bertscore_") for one in columns),
        expected="columns of the input, each once",
        cure="Columns that begin with bertscore_ say what was scored, and make no groups.",
    )
