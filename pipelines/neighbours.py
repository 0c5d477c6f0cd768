"""An output folder holds one run: it neither holds another run's folder nor is inside one.

A folder of runs would read as one dataset, and deleting parts of one run could delete the other's.
"""

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator

from bertscore_core.errors import ConfigError
from pipelines.io.files import join, mask_credentials, read_bytes
from pipelines.lock import LOCK_FILE
from pipelines.splits import HIDDEN_PREFIXES

RUN_FILE = "_run.json"
MANIFEST_FOLDER = "_manifest"
_MARKS = frozenset({RUN_FILE, MANIFEST_FOLDER})
_LOCK = LOCK_FILE.split("/")


def runs_below(names: Iterable[str]) -> frozenset[str]:
    """Return the folders of other runs below an output folder.

    A lock alone makes no run: a command that was refused, or killed at once, left nothing else.

    Args:
        names: All its files, by their path below it.
    """
    found = set()
    for name in names:
        parts = name.split("/")
        marked = [place for place, part in enumerate(parts) if part in _MARKS]
        if parts[-2:] == _LOCK and len(parts) - 2 in marked[:1]:
            continue
        if marked and marked[0] > 0 and not name.startswith(HIDDEN_PREFIXES):
            found.add("/".join(parts[: marked[0]]))
    return frozenset(found)


def is_below(name: str, folders: Collection[str]) -> bool:
    """Tell whether a file lies in one of some folders, all of them by their path below one root."""
    return any(parent in folders for parent in _parents(name)) if folders else False


def check_stands_alone(output: str, names: Iterable[str]) -> None:
    """Check that an output folder neither holds another run's folder nor lies in one.

    Args:
        output: The folder, as `absolute` writes it.
        names: All its files, by their path below it.

    Raises:
        ConfigError: It does.
    """
    inner = sorted(runs_below(names))
    if inner:
        others = f" and {len(inner) - 1} more" if len(inner) > 1 else ""
        raise ConfigError(
            f"output {mask_credentials(output)!r} holds the folders of other runs: got "
            f"{inner[0]!r}{others} below it; expected none, since an output folder is read as one "
            "dataset. Choose another --output, beside them."
        )
    outer = next(filter(_is_run, _parents(output)), None)
    if outer is not None:
        raise ConfigError(
            f"output {mask_credentials(output)!r} lies in the folder of another run: got "
            f"{mask_credentials(outer)!r} above it; expected none, since an output folder is read "
            "as one dataset. Choose another --output, beside it."
        )


def _parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, without the root."""
    scheme, separator, rest = path.rpartition("://")
    while (rest := posixpath.dirname(rest).rstrip("/")) != "":
        yield f"{scheme}{separator}{rest}"


def _is_run(folder: str) -> bool:
    """Tell whether a folder is a run's; one that cannot be looked at is none."""
    try:
        run = json.loads(read_bytes(join(folder, RUN_FILE)))
    except (OSError, ValueError):
        return False
    return isinstance(run, dict) and "identity" in run
