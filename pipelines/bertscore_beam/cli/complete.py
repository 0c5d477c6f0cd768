"""Complete commands, flags and their words in a shell, by argcomplete."""

import argparse
import os
import typing
from collections.abc import Mapping
from typing import Any

import argcomplete

from bertscore_beam.cli.show import named
from bertscore_beam.options import declare
from bertscore_beam.options.flags import StrictParser

_ASKED = "_ARGCOMPLETE"
"""The variable by which a shell asks what may follow. It says which word of the line is the first
that counts: before it are those that name the program."""


def complete(commands: Mapping[str, Any]) -> None:
    """Answer a shell: print what may follow the line in `COMP_LINE`, and end the process.

    `commands` are all, by name; `options` of each names its option class.
    """
    line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="ignore")
    words = f"{line}|".split()[1:-1]  # those that are whole
    begun = [name for name in commands if words[: len(name.split())] == name.split()]
    if begun:
        name = max(begun, key=len)
        os.environ[_ASKED] = str(1 + len(name.split()))
        parser = _parser_of(named(commands[name].options))
        further = [
            other.removeprefix(f"{name} ") for other in commands if other.startswith(f"{name} ")
        ]
        if further and words == name.split():
            parser.add_argument("command", nargs="?", choices=further)
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--version", action="store_true")
        parser.add_argument("command", choices=[name for name in commands if " " not in name])
    argcomplete.autocomplete(parser)


def _parser_of(options: type[declare.Options]) -> argparse.ArgumentParser:
    """Return the parser of a command that knows the words of its flags, too."""
    parser, known = StrictParser(options, "", is_full=True), declare.by_name(options)
    for action in parser._actions:
        hint = known[action.dest].hint if action.dest in known else None
        if typing.get_origin(hint) is typing.Literal:
            action.choices = typing.get_args(hint)
    return parser
