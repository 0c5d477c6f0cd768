"""The output folder of a run: its bookkeeping files, and the success marker.

OUT/_run.json             settings and identity of the run
OUT/_summary.json         its result
OUT/_SUCCESS              written last, names the run
OUT/_manifest/...         files of the job for itself and for the next run
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bertscore_beam.files.checked import from_json, to_json
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.listing import Stored, each_stored, list_files
from bertscore_beam.files.paths import join
from bertscore_beam.files.reach import NoFileError
from bertscore_beam.files.read import exists, in_parallel, read_bytes, read_if_there
from bertscore_beam.files.versions import (
    delete_version,
    read_version,
    rename_or_copy,
    replace_version,
    sync_folders,
)
from bertscore_beam.files.write import (
    copy_atomically,
    delete_empty_folders,
    delete_many,
    delete_temporary,
    write_atomically,
)
from bertscore_beam.options.run_options import DumpOptions
from bertscore_core.errors import BertScoreError, SignatureError, load_json


def nan_to_null(value: Any) -> Any:
    """Return values with those that JSON does not know, NaN and infinities, as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): nan_to_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [nan_to_null(item) for item in value]
    return value


RUN_FILE = "_run.json"
FORMAT = 5
"""How folders are written, in `_run.json`. Later versions read it; earlier ones wrote no number."""
SUMMARY_FILE = "_summary.json"
SUCCESS_FILE = "_SUCCESS"
MANIFEST_FOLDER = "_manifest"
# Parquet, but not by that name: globs such as **/*.parquet must find parts alone.
PLAN_FILE = f"{MANIFEST_FOLDER}/plan.pq"


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder of a run. Files are named by their path below it.

    Attributes:
        root: Its path, as `absolute` returns it.
    """

    root: str

    @property
    def shown(self) -> str:
        """The folder's path without credentials, for messages."""
        return mask_credentials(self.root)

    def path(self, name: str = "") -> str:
        """Return the full path of a file, or of the folder itself without a name."""
        return join(self.root, name) if name else self.root

    def exists(self, name: str) -> bool:
        """Tell whether a file is there."""
        return exists(self.path(name))

    def files(self, below: str = "", *, suffix: str = "") -> dict[str, int]:
        """Return the size of each file below a folder, by its path below that folder."""
        return list_files(self.path(below), suffix=suffix)

    def each_stored(self, below: str = "") -> Iterator[tuple[str, Stored]]:
        """Yield all files below a folder, with sizes and versions, as they are listed."""
        return each_stored(self.path(below))

    def read(self, name: str) -> bytes:
        """Read a file."""
        return read_bytes(self.path(name))

    def read_if_there(self, name: str) -> bytes | None:
        """Read a file; None if it is not there."""
        return read_if_there(self.path(name))

    def read_each(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """Read several files at once, in order; None for each that is not there."""
        return in_parallel(read_if_there, map(self.path, names))

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; an empty one if the file is missing, damaged, or a FIFO."""
        try:
            return from_json(self.read(name))
        except (FileNotFoundError, NotADirectoryError, NoFileError, ValueError):
            return {}

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        self.write_all({name: data})

    def write_all(self, contents: Mapping[str, bytes]) -> None:
        """Write files one after the other, in the order given."""
        for name, data in contents.items():
            write_atomically(self.path(name), data)

    def store(self, name: str, source: str | os.PathLike[str]) -> None:
        """Copy a local file into the folder atomically."""
        copy_atomically(self.path(name), source)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write an object as indented JSON with its digest. NaN and infinities are null."""
        self.write(name, to_json(nan_to_null(content), indent=2))

    def delete(self, *names: str) -> None:
        """Delete files at the same time, in no particular order; a missing file is not an error."""
        if names:
            delete_many([self.path(name) for name in names])

    def read_version(self, name: str) -> tuple[bytes, str] | None:
        """Read a small file and its version; None if it is not there."""
        return read_version(self.path(name))

    def replace_version(self, name: str, data: bytes, version: str) -> bool:
        """Replace a file that still has a version; tell whether this is there now."""
        return replace_version(self.path(name), data, version)

    def delete_version(self, name: str, version: str) -> None:
        """Delete a file if it still has a version."""
        delete_version(self.path(name), version)

    def rename_or_copy(self, name: str, target: str) -> str:
        """Give a file another name; return its `Stored.content`. A store leaves it, too."""
        return rename_or_copy(self.path(name), self.path(target))

    def sync(self, names: Iterable[str]) -> None:
        """Let renames and deletions of files on a disk outlive a loss of power."""
        sync_folders(map(self.path, names))

    def delete_empty_folders(self, below: str = "") -> None:
        """Delete the empty folders below a folder, and the folder itself if it is empty then."""
        delete_empty_folders(self.path(below))

    def delete_temporary(self) -> None:
        """Delete the temporary files of killed workers."""
        delete_temporary(self.root)


class OtherFormatError(BertScoreError):
    """Another version has written a folder, in a form that this one does not read."""


def write_run(folder: OutputFolder, content: Mapping[str, Any]) -> None:
    """Write `_run.json`."""
    folder.write(RUN_FILE, run_to_bytes(content))


def run_to_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the content of `_run.json`."""
    return to_json(nan_to_null({"format": FORMAT, **content}), indent=2)


def run_from_json(folder: OutputFolder, data: bytes) -> dict[str, Any]:
    """Read the bytes of a folder's `_run.json`.

    Raises:
        OtherFormatError: Another version has written it.
        ValueError: It is damaged.
    """
    content = load_json(data)
    is_of_run = isinstance(content, dict) and "identity" in content
    if is_of_run and (got := content.get("format")) != FORMAT:
        raise OtherFormatError(
            f"another version of bertscore-beam has written {folder.shown!r}: got format {got!r} "
            f"in {RUN_FILE}; expected {FORMAT}. Choose another folder, and score its input anew."
        )
    return from_json(data)


def read_run(folder: OutputFolder) -> dict[str, Any] | None:
    """Read `_run.json` of an earlier run; None if there is none.

    Raises:
        OtherFormatError: Another version has written it.
        SignatureError: The file is damaged.
    """
    try:
        return run_from_json(folder, folder.read(RUN_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise SignatureError(
            f"{RUN_FILE} of {folder.shown!r} is damaged: got {error}; expected what an earlier run "
            "wrote. Choose another --output, or use --overwrite to start again."
        ) from error


# How many rows a split of a run has: as asked for, or as in the folder's earlier run.

SPLIT_ROWS = "split_rows"
"""Key of `_run.json` for the most rows in a split."""


def given_split_rows(options: DumpOptions, folder: OutputFolder) -> int | None:
    """Return the most rows in a split; None if the plan is to choose the number.

    With `auto`, a folder keeps the number of its earlier run. Otherwise its parts would not fit
    the splits any more after the number of workers, or the input, has changed.
    """
    if options.split_rows != "auto":
        return options.split_rows
    number = folder.read_json(RUN_FILE).get(SPLIT_ROWS)
    return number if type(number) is int and number > 0 else None
