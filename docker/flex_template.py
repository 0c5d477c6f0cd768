"""Write docker/flex/score.json: the parameters of the Flex Template, from the options of `score`.

    make configs

A parameter is an option: name, default and description are its own. Here is what the options do
not know: what a template leaves out, which texts it takes, and what else a reader of a form needs.
"""

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

from bertscore_beam.options.declare import Option, declared, summary_of
from bertscore_beam.options.row_options import ACCELERATOR, DEVICE
from bertscore_beam.options.score_options import ScoreOptions

TEMPLATE = Path(__file__).parent / "flex" / "score.json"

LEFT_OUT = {
    "candidates": "is read on this machine alone",
    "references": "is read on this machine alone",
    "beam": "Dataflow's own parameters of a template, or `config`, bring Beam's options",
    "restarts": "is for local workers; Dataflow replaces its own",
    "workers": "counts local workers; Dataflow has its own parameter",
    "dry_run": "a template is run to get scores; nobody sees what the launcher prints",
    "keep_job": "the launcher waits for no job",
}
"""Options that the template does not offer, with the reason."""

_WORDS = {"output": "Folder of the result"}
"""What is said of options of which the template takes less."""

_OUTPUT_PATH = r"^(gs|s3)://[^\n\r]+$"
_PATTERNS = {
    "input": r"^((gs|s3|https?)://\S+)(\s+(gs|s3|https?)://\S+)*$",
    "output": _OUTPUT_PATH,
    "candidate_column": r"^.+$",
    "reference_file": r"^(gs|s3|https?)://\S+$",
    "languages": _OUTPUT_PATH,
    "registry": _OUTPUT_PATH,
    "device": f"^({DEVICE.pattern})$",
    "accelerator": f"^{ACCELERATOR.pattern}$",
}
"""Texts that the template takes, where the type of the option does not say it."""

_NOTES = {
    "input": "They must be in a store, such as gs://bucket/dump/*.parquet; separate several by "
    "blanks.",
    "candidate_column": "Several columns can only be named in `config`.",
    "model": "Workers have the models that are in their image.",
    "output": "A run that was interrupted continues in its folder.",
}
"""What the template adds to the description of an option."""

_CONFIG = {
    "name": "config",
    "label": "Config",
    "helpText": "YAML file with options of the score job, also those for Beam; the parameters here "
    "override it.",
    "isOptional": True,
    "regexes": [_OUTPUT_PATH],
}


def template() -> str:
    """Return the file: what must be given first, then the config, then everything else."""
    options = [option for option in declared(ScoreOptions) if option.name not in LEFT_OUT]
    needed = [_parameter(option) for option in options if option.is_needed]
    others = [_parameter(option) for option in options if not option.is_needed]
    content = {
        "name": "bertscore-beam score",
        "description": summary_of(ScoreOptions),
        "parameters": [*needed, _CONFIG, *({**one, "isOptional": True} for one in others)],
    }
    return json.dumps(content, indent=2) + "\n"


def _parameter(option: Option) -> dict[str, Any]:
    words = [f"{_WORDS.get(option.name, option.text)}.".replace("`", "'")]
    note = "Separate several by blanks." if option.is_list else ""
    words += filter(None, [_NOTES.get(option.name, note)])
    default = option.default
    if default not in (None, (), dataclasses.MISSING) and not isinstance(default, bool):
        words.append(f"By default: {' '.join(default) if option.is_list else default}.")
    pattern = _PATTERNS.get(option.name) or _pattern_of(option)
    return {
        "name": option.name,
        "label": option.name.replace("_", " ").capitalize(),
        "helpText": " ".join(words),
        **({"regexes": [pattern]} if pattern else {}),
    }


def _pattern_of(option: Option) -> str | None:
    """Return the regular expression that the type of an option gives, None if any text will do."""
    patterns: dict[object, str] = {bool: "true|false", int: "[0-9]+", float: r"[0-9]*\.?[0-9]+"}
    if option.is_list:
        return r"^\S+(\s+\S+)*$"
    if str in option.kinds:
        return None
    found = ["|".join(typing.get_args(kind)) or patterns.get(kind) for kind in option.kinds]
    return f"^({'|'.join(filter(None, found))})$"


if __name__ == "__main__":
    TEMPLATE.write_text(template(), encoding="utf-8")
