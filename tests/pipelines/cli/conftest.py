"""Fixtures of the tests of the command line."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bertscore_beam.cli import main as cli
from tests.support.dumps import write_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Return a dump of one file with 30 rows."""
    return write_dump(tmp_path / "dump", [30])


@pytest.fixture
def ran(capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a function that runs a command to its end, and returns what it has printed."""

    def run(words: Sequence[object], status: int = cli.DONE) -> Any:
        assert cli.main([*map(str, words)]) == status
        return capfd.readouterr()

    return run
