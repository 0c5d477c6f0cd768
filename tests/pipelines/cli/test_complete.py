"""What a shell offers after TAB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertscore_beam.cli.main import COMMANDS

# As bash asks when a user presses TAB at the end of a line.
BASH = """
eval "$(register-python-argcomplete bertscore-beam)"
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete bertscore-beam
    echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.process
def test_bash_completes_commands_flags_words_and_files(tmp_path):
    (tmp_path / "dump.parquet").touch()
    lines = {
        "bertscore-beam ": {*COMMANDS, "--help", "--version", "-h"} - {"baseline compare"},
        "bertscore-beam score --long-text w": {"windows"},
        "bertscore-beam baseline c": {"compare"},
        "bertscore-beam baseline --quiet c": set(),
        "bertscore-beam baseline compare --mo": {"--model"},
        "bertscore-beam score dump.parquet --input du": {"dump.parquet"},
    }
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = {"cwd": tmp_path, "env": {**os.environ, "PATH": path}, "input": "\n".join(lines) + "\n"}
    words = ["bash", "--norc", "-c", BASH]
    done = subprocess.run(words, capture_output=True, text=True, check=True, **shell)
    found = [set(line.split()) for line in done.stdout.splitlines()]
    assert found == list(lines.values())
