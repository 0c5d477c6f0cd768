"""Turn files of text into Parquet: a phase, an item a file."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from bertscore_beam.dump.inputs import InputFile
from bertscore_beam.dump.parquet import copied_footer
from bertscore_beam.dump.plan import FileReason, Imports, RejectedError, rejection_to_json
from bertscore_beam.dump.splits import Split
from bertscore_beam.dump.text.text_source import (
    IMPORTS_FOLDER,
    INPUT_FOLDER,
    TextFile,
    footer_of,
    rejection_of,
)
from bertscore_beam.dump.text.to_parquet import write_rows
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import file_version
from bertscore_beam.files.paths import FILES_IN_FLIGHT
from bertscore_beam.files.reach import got_of
from bertscore_beam.files.read import in_parallel
from bertscore_beam.run import activity
from bertscore_beam.run.folder import MANIFEST_FOLDER, OutputFolder
from bertscore_beam.run.phases import Phase, given
from bertscore_beam.run.pool import Each
from bertscore_beam.run.progress import Expected
from bertscore_core.errors import BertScoreError, InputError

Check: TypeAlias = Callable[[OutputFolder], object]
"""Raises an error if a run may not use a folder."""
ImportTexts: TypeAlias = Callable[[str, Sequence[TextFile], Check], None]
"""Imports files of text into the folder of a run, which is taken and checked before."""

_SLOW_BYTES = 600 * 40_000_000
"""Ten minutes at what a core reads of CSV in a second."""
_FEW = 8
"""How many files are looked at for the columns."""
_FOLDERS = (f"{INPUT_FOLDER}/", f"{IMPORTS_FOLDER}/")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def import_phase(texts: Sequence[TextFile], folder: OutputFolder) -> Phase:
    """Return the phase that imports files of text into the folder of a run."""
    step = Each(partial(import_text, folder=folder), _shown_path)
    return Phase(name="ImportTexts", items=given(texts), step=step)


def expected_imports(texts: Sequence[TextFile]) -> Expected:
    """Return what the phase will have done, for people who wait."""
    number = len(texts)
    files = "1 file" if number == 1 else f"{number:,} files"
    return Expected(
        message=f"turning {files} of text into Parquet",
        folder=INPUT_FOLDER,
        amounts={text.data.removeprefix(f"{INPUT_FOLDER}/"): text.size for text in texts},
        unit="bytes of text",
    )


def _shown_path(text: TextFile) -> str:
    return mask_credentials(text.path)


def import_text(text: TextFile, *, folder: OutputFolder) -> tuple[()]:
    """Write a file of text as Parquet, and its footer after it; or why that cannot be done.

    Raises:
        OSError: The folder cannot be written, or there is no room.
    """
    if not _is_lacking(Imports(folder=folder.root, needs_rows=True), text):
        return ()
    folder.delete(*_files_of([text]))
    place = 0

    def note(stored: int) -> None:
        nonlocal place
        place = stored

    share = activity.report_fraction(
        os.path.basename(text.data), lambda: place / max(text.size, place, 1)
    )
    # Files without a name: nothing of the texts is left if the process is killed.
    with share, tempfile.TemporaryFile() as rows:
        try:
            write_rows(text, rows, note)
            rows.flush()
        except (InputError, OSError) as error:
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                raise _no_space_error(text, error) from error
            folder.write(rejection_of(text.data), _rejection(text, error))
            return ()
        footer = copied_footer(rows)
        folder.store(text.data, f"/dev/fd/{rows.fileno()}")
        folder.write(footer_of(text.data), footer)
    return ()


def _no_space_error(text: TextFile, error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"there is no room to turn {mask_credentials(text.path)!r} into Parquet: got "
        f"{error.strerror} in the temporary folder {tempfile.gettempdir()!r}; expected room for "
        "about the size of the file, for each worker. Free some, or set TMPDIR.",
    )


def _rejection(text: TextFile, error: InputError | OSError) -> bytes:
    reason = FileReason.UNREADABLE
    if isinstance(error, OSError):
        return rejection_to_json(reason, mask_credentials(got_of(error)))
    with suppress(OSError):  # what has changed or gone meanwhile is not the file's fault
        if not text.version or file_version(text.path) == text.version:
            reason = FileReason.NOT_TEXT
    return rejection_to_json(reason, mask_credentials(str(error)))


def slow_text_warning(texts: Iterable[TextFile]) -> str:
    """Warn of files that take long, since a file is read by one process; "" for none."""
    slow = [text for text in texts if text.about_bytes > _SLOW_BYTES]
    if not slow:
        return ""
    return (
        f"{len(slow):,} files of text take more than ten minutes each to turn into Parquet, such "
        f"as {mask_credentials(slow[0].path)!r}: one process reads a file from its start to its "
        "end. Write several files instead of a large one."
    )


def lacking_imports(imports: Imports, texts: Sequence[TextFile]) -> list[TextFile]:
    """Return the files of text of which a folder has neither an import, nor why there is none."""
    lacking = in_parallel(partial(_is_lacking, imports), texts, FILES_IN_FLIGHT)
    return [text for text, is_lacking in zip(texts, lacking, strict=True) if is_lacking]


def check_before_import(
    plan: Callable[[Sequence[InputFile]], object],
    files: Sequence[InputFile],
    lacking: Sequence[TextFile],
) -> None:
    """Find out whether the columns that a command names are there, before texts are imported.

    Only a few files are looked at, unless none of these is good: a wrong name is so in all.

    Args:
        plan: Plans files by their first rows.
        files: All files.
        lacking: Those of text that are not imported.

    Raises:
        BertScoreError: What `plan` says of all files.
        OSError: No file can be reached.
    """
    if not lacking:
        return
    try:
        plan(files[:_FEW])
    except (BertScoreError, OSError):
        plan(files)


def _is_lacking(imports: Imports, text: TextFile) -> bool:
    try:
        return imports.layout(text) is None
    except RejectedError:
        return False


def missing_imports(
    texts: Iterable[TextFile], splits: Iterable[Split], names: Iterable[str]
) -> tuple[TextFile, ...]:
    """Return the files of text that some splits need, and whose imports are not whole.

    `names`: the files of the folder of the run.
    """
    needed, imports = {split.path for split in splits if split.data}, _imports_among(names)
    return tuple(
        text
        for text in texts
        if text.path in needed and not {text.data, footer_of(text.data)} <= imports
    )


def _imports_among(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.startswith(_FOLDERS)}


def delete_other_imports(
    folder: OutputFolder, texts: Iterable[TextFile], names: Iterable[str]
) -> None:
    """Delete the imports of all other files, and of other versions of these; see above."""
    _delete(folder, _imports_among(names) - _files_of(texts))


def delete_imports(folder: OutputFolder, texts: Iterable[TextFile]) -> None:
    """Delete the imports of files, and what says that one cannot be imported."""
    _delete(folder, _files_of(texts))


def delete_input(folder: OutputFolder) -> None:
    """Delete the rows of imports: nothing needs them any more. Their footers stay."""
    _delete(folder, (f"{INPUT_FOLDER}/{name}" for name in folder.files(INPUT_FOLDER)))


def _files_of(texts: Iterable[TextFile]) -> set[str]:
    data = [text.data for text in texts]
    return {*data, *map(footer_of, data), *map(rejection_of, data)}


def _delete(folder: OutputFolder, names: Iterable[str]) -> None:
    folder.delete(*names)
    for below in (INPUT_FOLDER, MANIFEST_FOLDER):
        folder.delete_empty_folders(below)
