"""Start a job from a Dataflow Flex Template.

The template's launcher passes the template's parameters and Beam's options together, each as
`--name=value`. A name that the class of options knows, in any spelling, is ours; the others are
Beam's.
"""

import dataclasses
import sys
import typing
from collections.abc import Mapping, Sequence

from bertscore_beam.cli.main import main
from bertscore_beam.options.base import RunOptions, option_name
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.run.exit_status import UNUSABLE
from bertscore_beam.run.printing import escape_text
from bertscore_core import ConfigError

_OPTIONS: Mapping[str, type[RunOptions]] = {"score": ScoreOptions}
_TRUTH = {"true": True, "false": False}


def launch(verb: str, arguments: Sequence[str]) -> int:
    """Run a command with the arguments of a template's launcher, and return its exit status.

    An empty value counts as none: forms send one for each parameter that was not filled in. The
    values of a list are separated by blanks.
    """
    try:
        given = command(verb, arguments)
    except ConfigError as error:
        print(f"bertscore-beam: {escape_text(str(error))}", file=sys.stderr)
        return UNUSABLE
    return main(given)


def command(verb: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line for the arguments of a template's launcher.

    Raises:
        ConfigError: A value that must be true or false is neither.
    """
    hints = {**typing.get_type_hints(_OPTIONS[verb]), "config": str}
    names = {field.name for field in dataclasses.fields(_OPTIONS[verb])} - {"beam"} | {"config"}
    own, beam = [verb], []
    for argument in arguments:
        flag, _, value = argument.partition("=")
        name = option_name(flag.removeprefix("--"))
        if name not in names:
            beam.append(argument)
        elif value:
            own += _flag(name, value, hints[name])
    return [*own, "--", *beam]


def _flag(name: str, value: str, hint: object) -> list[str]:
    """Return a parameter as flags of the command line."""
    dashed = name.replace("_", "-")
    if hint is bool:
        if value.lower() not in _TRUTH:
            raise ConfigError(
                f"parameter {name} cannot be used: got {value!r}; expected true or false."
            )
        return [f"--{dashed}" if _TRUTH[value.lower()] else f"--no-{dashed}"]
    if typing.get_origin(hint) is tuple:
        return [f"--{dashed}", *value.split()]
    return [f"--{dashed}={value}"]
