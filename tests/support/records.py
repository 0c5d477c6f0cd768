"""A folder whose parts are not listed, as a run leaves it that is killed."""

import shutil
from pathlib import Path

from bertscore_beam.records.records import SHARDS_FOLDER


def forget(output: Path) -> None:
    """Delete the manifest of a folder: the parts are left, each with the record in its footer."""
    shutil.rmtree(output / SHARDS_FOLDER)
