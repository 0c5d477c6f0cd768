"""The metadata of the Flex Template of the score job, which `make configs` writes.

Names, defaults and descriptions come from `ScoreOptions`. What it does not know is here: what the
template leaves out, the values that it takes, and what else a reader of a form wants to know.
"""

import dataclasses
import json
import typing
from collections.abc import Iterable
from typing import Any

from bertscore_beam.options.flags import field_helps
from bertscore_beam.options.score import ScoreOptions
from bertscore_beam.options.scoring import ACCELERATOR, DEVICE
from bertscore_beam.options.values import alternatives
from bertscore_core import ConfigError

TEMPLATE_LEFT_OUT = {
    "beam": "Dataflow's own parameters of a template, or `config`, bring Beam's options",
    "restarts": "is for local workers; Dataflow replaces its own",
    "workers": "counts local workers; Dataflow has its own parameter",
    "dry_run": "a template is run to get scores; nobody sees what the launcher prints",
    "print_job": "nobody sees what the launcher prints",
}
"""Options that the template does not offer, with the reason."""

_STORE_PATHS = r"^((gs|s3|https?)://\S+)(\s+(gs|s3|https?)://\S+)*$"
_OUTPUT_PATH = r"^(gs|s3)://[^\n\r]+$"
_COLUMNS = r"^\S+(\s+\S+)*$"
TEMPLATE_PATTERNS = {
    "input": _STORE_PATHS,
    "output": _OUTPUT_PATH,
    "group_by": _COLUMNS,
    "idf_key": _COLUMNS,
    "idf_group": _COLUMNS,
    "languages": _OUTPUT_PATH,
    "registry": _OUTPUT_PATH,
    "device": f"^({DEVICE.pattern})$",
    "accelerator": f"^{ACCELERATOR.pattern}$",
}
"""Values that the template takes, where the type of the option does not say it."""

TEMPLATE_NOTES = {
    "input": "They must be in a store, such as gs://bucket/dump/*.parquet; separate several by "
    "blanks.",
    "group_by": "Separate several by blanks.",
    "idf_key": "Separate several by blanks.",
    "idf_group": "Separate several by blanks.",
    "model": "Workers have the models that are in their image.",
    "output": "A run that was interrupted continues in its folder.",
}
"""What the template adds to the description of an option."""

TEMPLATE_CONFIG = {
    "name": "config",
    "label": "Config",
    "helpText": "YAML file with options of the score job, also those for Beam; the parameters here "
    "override it.",
    "isOptional": True,
    "regexes": [_OUTPUT_PATH],
}


def template_json(options: "Iterable[dataclasses.Field[Any]]") -> str:
    """Return the metadata of the template, with the options of the score job in this order."""
    parameters = [_parameter(option) for option in options if option.name not in TEMPLATE_LEFT_OUT]
    template = {
        "name": "bertscore-beam score",
        "description": (ScoreOptions.__doc__ or "").partition("\n")[0],
        "parameters": [*parameters[:2], TEMPLATE_CONFIG, *parameters[2:]],
    }
    return json.dumps(template, indent=2) + "\n"


def _parameter(option: "dataclasses.Field[Any]") -> dict[str, Any]:
    """Return a parameter of the template."""
    words = f"{field_helps(ScoreOptions)[option.name]}.".replace("`", "'")
    if option.name in TEMPLATE_NOTES:
        words += f" {TEMPLATE_NOTES[option.name]}"
    needed = option.default is dataclasses.MISSING
    if not needed and option.default not in (None, ()) and not isinstance(option.default, bool):
        words += f" By default: {option.default}."
    pattern = _pattern(option)
    return {
        "name": option.name,
        "label": option.name.replace("_", " ").capitalize(),
        "helpText": words,
        **({} if needed else {"isOptional": True}),
        **({"regexes": [pattern]} if pattern else {}),
    }


def _pattern(option: "dataclasses.Field[Any]") -> str | None:
    """Return the regular expression for the values of an option, None if any text will do."""
    if option.name in TEMPLATE_PATTERNS:
        return TEMPLATE_PATTERNS[option.name]
    hint = typing.get_type_hints(ScoreOptions)[option.name]
    kinds = alternatives(hint)
    if str in kinds:
        return None
    choices = [text for kind in kinds for text in _choices(kind, option.name)]
    return f"^({'|'.join(choices)})$"


def _choices(kind: object, name: str) -> list[str]:
    """Return regular expressions for the values of a type."""
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    if kind is bool:
        return ["true", "false"]
    if kind is int:
        return ["[0-9]+" if _takes(name, 0) else "[1-9][0-9]*"]
    if kind is float:  # all of them are shares
        return [r"0?\.[0-9]+", r"[01](\.0*)?"]
    return []


def _takes(name: str, value: object) -> bool:
    """Return whether the score job accepts a value."""
    try:
        ScoreOptions.from_mapping({"input": "in", "output": "out", name: value}, "the test")
    except ConfigError:
        return False
    return True
