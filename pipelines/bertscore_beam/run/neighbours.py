"""An output folder belongs to one run: it is not inside another run's folder, nor around one.

Otherwise readers would take both runs for one dataset, and one run could delete the other's parts.
"""

import posixpath
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import HIDDEN_PREFIXES
from bertscore_beam.run.folder import MANIFEST_FOLDER, RUN_FILE, OutputFolder
from bertscore_core.errors import ConfigError

_MARKS = frozenset({RUN_FILE, MANIFEST_FOLDER, f"{MANIFEST_FOLDER}.json"})


def runs_below(names: Iterable[str]) -> frozenset[str]:
    """Return the folders of other runs below an output folder."""
    folders = set()
    for name in names:
        parts = name.split("/")
        marked = [place for place, part in enumerate(parts) if part in _MARKS]
        above = parts[: marked[0]] if marked else []
        # No reader looks into hidden folders, such as the one of `idf` beside its table.
        if above and not any(part.startswith(HIDDEN_PREFIXES) for part in above):
            folders.add("/".join(above))
    return frozenset(folders)


def is_marked(name: str) -> bool:
    """Tell whether a file shows that there is a run, its own or one below; see `runs_below`."""
    return not _MARKS.isdisjoint(name.split("/"))


def is_below(name: str, folders: Collection[str]) -> bool:
    """Tell whether a file is in one of the folders; all are paths below the same root."""
    return any(parent in folders for parent in _parents(name)) if folders else False


def check_stands_alone(output: str, names: Iterable[str]) -> None:
    """Check that an output folder is not inside another run's folder, nor around one.

    Raises:
        ConfigError: It is.
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
            f"output {mask_credentials(output)!r} is in the folder of another run: got "
            f"{mask_credentials(outer)!r} above it; expected none, since an output folder is "
            "read as one dataset. Choose another --output, beside it."
        )


def _parents(path: str) -> Iterator[str]:
    scheme, separator, rest = path.rpartition("://")
    while (rest := posixpath.dirname(rest).rstrip("/")) != "":
        yield f"{scheme}{separator}{rest}"


def _is_run(folder: str) -> bool:
    """Tell whether a folder is a run's; False if it cannot be read."""
    with suppress(OSError):
        return "identity" in OutputFolder(folder).read_json(RUN_FILE)
    return False
