"""How many rows a split of a run has: as asked for, or as in the folder's earlier run."""

from contextlib import suppress

from bertscore_beam.options.base import DumpOptions
from bertscore_beam.run.folder import OutputFolder, read_run
from bertscore_core.errors import SignatureError

SPLIT_ROWS = "split_rows"
"""Key of `_run.json` for the most rows in a split."""


def given_split_rows(options: DumpOptions, folder: OutputFolder) -> int | None:
    """Return the most rows in a split; None if the plan is to choose the number.

    With `auto`, a folder keeps the number of its earlier run. Otherwise its parts would not fit
    the splits any more after the number of workers, or the input, has changed.

    Args:
        options: The options of the run.
        folder: Its folder, maybe with the record of an earlier run.
    """
    return _recorded(folder) if options.split_rows == "auto" else options.split_rows


def _recorded(folder: OutputFolder) -> int | None:
    """Return the number in the record of an earlier run; None without one."""
    run = None
    with suppress(SignatureError):  # whether a damaged record matters is decided elsewhere
        run = read_run(folder)
    number = (run or {}).get(SPLIT_ROWS)
    return number if type(number) is int and number > 0 else None
