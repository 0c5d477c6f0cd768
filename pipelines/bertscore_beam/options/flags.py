"""Command-line flags made from option classes: one flag a field, its help from the docstring."""

import argparse
import dataclasses
import re
import typing
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from bertscore_beam.options.base import RunOptions, option_name, other_names
from bertscore_beam.options.config_file import load_yaml
from bertscore_beam.options.near_names import nearest
from bertscore_beam.options.values import alternatives
from bertscore_core import ConfigError

FILE_ONLY = frozenset({"beam", "beam_scoring"})
"""Options without a flag: they hold flags for Beam, which the command line takes after `--`."""

_ATTRIBUTE = re.compile(r"^ {8}(\w+): (.+?)(?=^ {8}\w|^ {4}\S|\Z)", re.M | re.S)


COMMON_FLAGS = {
    "json": "print one JSON document on standard output, also if the command fails",
    "quiet": "print only warnings and errors on standard error",
}
"""Flags of every command. They say how it prints and are no options: no file has them."""


class StrictParser(argparse.ArgumentParser):
    """A parser that raises `ConfigError` where argparse would end the process.

    Every command has the flags of `COMMON_FLAGS`.
    """

    def __init__(self, **kwargs: Any) -> None:
        """Begin with the flags of every command."""
        super().__init__(**kwargs)
        for name, text in COMMON_FLAGS.items():
            self.add_argument(f"--{name}", action="store_true", default=None, help=text)

    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process."""
        raise ConfigError(f"{message}. `{self.prog} --help` lists the flags.")

    def parse_strictly(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse arguments that hold nothing but this command's flags and words.

        Raises:
            ConfigError: One is unknown, missing or does not fit.
        """
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            raise self.unknown_flag(unknown[0])
        return parsed

    def unknown_flag(self, flag: str) -> ConfigError:
        """Return the error for an unknown flag, with the flag that is probably meant."""
        names = [name for action in self._actions for name in action.option_strings]
        # Of several names of an option its own is the one to learn.
        known = [name for name in names if "--" + option_name(name[2:]).replace("_", "-") == name]
        near = nearest(flag.partition("=")[0], known)
        hint = f"Did you mean {near}?" if near else f"`{self.prog} --help` lists the flags."
        return ConfigError(
            f"unknown argument {flag.partition('=')[0]!r}: expected one of this command's flags. "
            f"{hint} Beam's own options go after `--`."
        )


def add_option_flags(parser: argparse.ArgumentParser, options: type[RunOptions]) -> None:
    """Add `--config` and a flag for every field of an option class, without defaults."""
    parser.add_argument("--config", metavar="FILE", help="YAML file of options; flags override it")
    names = [field.name for field in dataclasses.fields(options)]
    add_flags_of(parser, options, [name for name in names if name not in FILE_ONLY])


def add_flags_of(
    parser: argparse.ArgumentParser, options: type[RunOptions], names: Collection[str]
) -> None:
    """Add a flag for some fields of an option class, without defaults."""
    helps = field_helps(options)
    hints = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        if field.name in names:
            _add_flag(parser, field, hints[field.name], helps[field.name])


def read_options(options: type[RunOptions], arguments: Sequence[str], prog: str) -> RunOptions:
    """Read options from arguments: a YAML file, flags that override it, Beam's own after `--`.

    Raises:
        ConfigError: a flag or key is unknown, missing or does not fit.
    """
    own, beam = split_arguments(arguments)
    first_line = (options.__doc__ or "").partition("\n")[0]
    parser = StrictParser(
        prog=prog,
        description=first_line,
        epilog="Beam's own options go after `--`, as in: -- --runner=DataflowRunner",
        allow_abbrev=False,
    )
    add_option_flags(parser, options)
    parsed = parser.parse_strictly(own)
    flags = {name: value for name, value in vars(parsed).items() if value is not None}
    for name in COMMON_FLAGS:
        flags.pop(name, None)
    config = flags.pop("config", None)
    source = "the flags" if config is None else f"{config} and the flags"
    values = {} if config is None else dict(load_yaml(config))
    kept = {key: value for key, value in values.items() if option_name(str(key)) not in flags}
    values = kept | flags
    if beam:
        before = values.get("beam", [])
        values["beam"] = [*([before] if isinstance(before, str) else before), *beam]
    return options.from_mapping(values, source)


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments at the first `--` into ours and Beam's."""
    given = list(arguments)
    if "--" not in given:
        return given, []
    cut = given.index("--")
    return given[:cut], given[cut + 1 :]


def field_helps(options: type[RunOptions]) -> dict[str, str]:
    """Return what the docstrings of an option class and its bases say about each field."""
    helps: dict[str, str] = {}
    for kind in reversed(options.__mro__):
        for name, text in _ATTRIBUTE.findall(kind.__doc__ or ""):
            helps[name] = " ".join(text.split()).rstrip(".")
    return helps


def _add_flag(
    parser: argparse.ArgumentParser, field: dataclasses.Field[Any], hint: Any, text: str
) -> None:
    names = [field.name, *other_names(field.name)]
    flags = ["--" + name.replace("_", "-") for name in names]
    text = (text + _without_flag(field)).replace("%", "%%").replace("`", "'")
    if hint is bool:
        parser.add_argument(*flags, action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    several = typing.get_origin(hint) is tuple
    parser.add_argument(
        *flags,
        dest=field.name,
        type=_reader(hint),
        nargs="+" if several else None,
        action="extend" if several else "store",
        metavar=field.metadata.get("metavar") or _metavar(field.name, hint),
        help=text,
    )


def _without_flag(field: dataclasses.Field[Any]) -> str:
    """Return what the help adds about the default, unless that is nothing or False."""
    if field.default is dataclasses.MISSING:
        return " (needed)"
    if field.default is None or field.default is False or field.default == ():
        return ""
    return f" (default: {field.default})"


def _metavar(name: str, hint: Any) -> str:
    """Name a flag's value in the help: the choices themselves if there are only these."""
    if typing.get_origin(hint) is typing.Literal:
        return "{" + ",".join(typing.get_args(hint)) + "}"
    return "PATH" if typing.get_origin(hint) is tuple else name.upper()


def _reader(hint: Any) -> Any:
    """Return the function that turns a flag's text into the type of its field."""
    kinds = alternatives(hint)
    if float in kinds:
        return float
    if int not in kinds:
        return str
    has_words = any(kind is str or typing.get_origin(kind) is typing.Literal for kind in kinds)
    return _number_or_word if has_words else int


def _number_or_word(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
