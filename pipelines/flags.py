"""Command-line flags made from option classes: one flag a field, its help from the docstring."""

import argparse
import dataclasses
import re
import types
import typing
from collections.abc import Sequence
from typing import Any, NoReturn

from bertscore_core import ConfigError
from pipelines.checks import nearest
from pipelines.options import RunOptions, load_yaml

FILE_ONLY = frozenset({"beam", "beam_scoring"})
"""Options without a flag: what they hold are flags of Beam's, which go behind `--`."""

_ATTRIBUTE = re.compile(r"^ {8}(\w+): (.+?)(?=^ {8}\w|^ {4}\S|\Z)", re.M | re.S)


class StrictParser(argparse.ArgumentParser):
    """A parser whose complaints are our errors, and which names the nearest known flag."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of leaving the process."""
        raise ConfigError(f"{message}. `{self.prog} --help` lists the flags.")


def add_option_flags(parser: argparse.ArgumentParser, options: type[RunOptions]) -> None:
    """Add `--config` and a flag for every field of an option class, without defaults."""
    parser.add_argument("--config", metavar="FILE", help="YAML file of options; flags go on top")
    helps = field_helps(options)
    hints = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        if field.name not in FILE_ONLY:
            _add_flag(parser, field, hints[field.name], helps[field.name])


def read_options(options: type[RunOptions], arguments: Sequence[str], prog: str) -> RunOptions:
    """Read options from arguments: a YAML file, flags on top, Beam's own behind `--`.

    Raises:
        ConfigError: a flag or key is unknown, missing or does not fit.
    """
    own, beam = split_arguments(arguments)
    first_line = (options.__doc__ or "").partition("\n")[0]
    parser = StrictParser(
        prog=prog,
        description=first_line,
        epilog="Beam's own options go behind `--`, as in: -- --runner=DataflowRunner",
        allow_abbrev=False,
    )
    add_option_flags(parser, options)
    parsed, unknown = parser.parse_known_args(own)
    if unknown:
        raise unknown_flag(unknown[0], parser)
    flags = {name: value for name, value in vars(parsed).items() if value is not None}
    config = flags.pop("config", None)
    source = "the flags" if config is None else f"{config} and the flags"
    values = {} if config is None else dict(load_yaml(config))
    given = {name.replace("_", "-") for name in flags} | flags.keys()
    values = {name: value for name, value in values.items() if str(name) not in given} | flags
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


def unknown_flag(flag: str, parser: argparse.ArgumentParser) -> ConfigError:
    """Say that a flag is not known, and which one may be meant."""
    known = [name for action in parser._actions for name in action.option_strings]
    near = nearest(flag.partition("=")[0], known)
    hint = f"Did you mean {near}?" if near else f"`{parser.prog} --help` lists the flags."
    return ConfigError(
        f"unknown argument {flag.partition('=')[0]!r}: expected one of this command's flags. "
        f"{hint} Beam's own options go behind `--`."
    )


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
    flag = "--" + field.name.replace("_", "-")
    text = (text + _without_flag(field)).replace("%", "%%").replace("`", "'")
    if hint is bool:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    several = typing.get_origin(hint) is tuple
    parser.add_argument(
        flag,
        type=_reader(hint),
        nargs="+" if several else None,
        action="extend" if several else "store",
        metavar=field.metadata.get("metavar") or _metavar(field.name, hint),
        help=text,
    )


def _without_flag(field: dataclasses.Field[Any]) -> str:
    """Say what holds without the flag, unless that is nothing, or told by the help itself."""
    if field.default is dataclasses.MISSING:
        return " (needed)"
    if field.default is None or field.default is False or field.default == ():
        return ""
    return f" (default: {field.default})"


def _metavar(name: str, hint: Any) -> str:
    """Name a flag's value: its words where only they are allowed."""
    if typing.get_origin(hint) is typing.Literal:
        return "{" + ",".join(typing.get_args(hint)) + "}"
    return "PATH" if typing.get_origin(hint) is tuple else name.upper()


def _reader(hint: Any) -> Any:
    """Return what turns a flag's text into the type of its field; the class checks the value."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if typing.get_origin(hint) is typing.Union:
        kinds = typing.get_args(hint)
    if float in kinds:
        return float
    if int in kinds:
        return int if str not in kinds and not _has_words(kinds) else _number_or_word
    return str


def _has_words(kinds: Sequence[Any]) -> bool:
    return any(typing.get_origin(kind) is typing.Literal for kind in kinds)


def _number_or_word(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
