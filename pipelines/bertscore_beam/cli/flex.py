"""Start a job from a Dataflow Flex Template.

The template's launcher passes the template's parameters and Beam's options together, each as
`--name=value`. A name that the class of options knows, in any spelling, is ours; the others are
Beam's.
"""

from collections.abc import Sequence

from bertscore_beam.cli.main import COMMANDS, main
from bertscore_beam.cli.show import named, print_error
from bertscore_beam.options.declare import Option, by_name
from bertscore_beam.run.output import UNUSABLE
from bertscore_core.errors import ConfigError, escape_text


def launch(verb: str, arguments: Sequence[str]) -> int:
    """Run a command with the arguments of a template's launcher, and return its exit status.

    An empty value counts as none: forms send one for each parameter that was not filled in. The
    values of a list are separated by blanks.
    """
    try:
        given = command(verb, arguments)
    except ConfigError as error:
        return print_error(escape_text(str(error)), UNUSABLE)
    return main(given)


def command(verb: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line for the arguments of a template's launcher."""
    known = by_name(named(COMMANDS[verb].options))
    own, beam = [verb], []
    for argument in arguments:
        flag, _, value = argument.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if name == "config" and value:
            own.append(f"--config={value}")
        elif name not in known or name == "beam":
            beam.append(argument)
        elif value:
            own += _flag(known[name], value)
    return [*own, "--", *beam]


def _flag(option: Option, value: str) -> list[str]:
    if option.hint is bool:
        if value.lower() not in ("true", "false"):
            raise ConfigError(
                f"parameter {option.name} cannot be used: got {value!r}; expected true or false."
            )
        return [option.word if value.lower() == "true" else f"--no-{option.word[2:]}"]
    return [option.word, *value.split()] if option.is_list else [f"{option.word}={value}"]
