"""Fixtures of the tests of the command line."""

from pathlib import Path

import pytest

from tests.support.dumps import write_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Return a dump of one file with 30 rows."""
    return write_dump(tmp_path / "dump", [30])
