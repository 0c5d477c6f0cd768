"""The README's examples run, and its commands have the flags it names."""

import re
import shlex
from pathlib import Path

import pytest

from bertscore_core import Signature
from pipelines.baseline.options import BaselineOptions
from pipelines.flags import read_options
from pipelines.options import IdfOptions, ScoreOptions
from pipelines.scoring import Reason

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_python_examples_run(code, capsys):
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own text
    assert "Error" not in capsys.readouterr().err


def test_there_are_examples_and_the_signature_shown_parses():
    assert len(EXAMPLES) >= 4
    line = next(line for line in README.splitlines() if line.startswith("bertscore|"))
    assert Signature.parse(line).model == "all-MiniLM-L6-v2"


def test_score_command_is_one_the_parser_takes():
    command = re.search(r"^bertscore-beam score (.*?)\n```", README, re.S | re.M)
    assert command
    arguments = shlex.split(command[1].replace("\\\n", " "))
    options = read_options(ScoreOptions, arguments, "score")
    assert options.workers == 4


def test_baseline_command_is_one_the_parser_takes():
    command = re.search(r"^bertscore-beam baseline (--crawl .*?)\n```", README, re.S | re.M)
    assert command
    arguments = shlex.split(command[1].replace("\\\n", " "))
    options = read_options(BaselineOptions, arguments, "baseline")
    assert options.languages == ("en", "de")


def test_every_flag_named_exists():
    named = set(re.findall(r"`(--[a-z][a-z-]+)", README))
    fields = {
        "--" + name.replace("_", "-")
        for options in (ScoreOptions, IdfOptions, BaselineOptions)
        for name in options.__dataclass_fields__
    }
    assert len(named) > 8
    assert named <= fields | {"--config", "--picture", "--json", "--language", "--model"}


def test_every_reason_is_explained():
    assert [reason for reason in Reason if f"`{reason}`" not in README] == []
