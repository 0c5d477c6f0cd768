"""Find the input files of a job, each in one version of it."""

import contextlib
import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter

from bertscore_beam.dump.delta import DeltaTable, read_delta
from bertscore_beam.dump.formats import AUTO, CURES, Format, suffixes
from bertscore_beam.dump.input_names import common_folder, input_names
from bertscore_beam.dump.partitions import Partition, partitions_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import FoundFile, Search, file_version, is_pattern, search
from bertscore_beam.files.listing import real_path
from bertscore_beam.files.paths import resolve, with_scheme
from bertscore_beam.files.read import is_other_version, reads_one_version
from bertscore_core.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile(FoundFile):
    """A file that was found for a job.

    Attributes:
        input_format: Format of the file, a `Format`; `auto` to go by its name.
        table: The Delta table that it is a file of; None for none.
    """

    input_format: str = AUTO
    table: DeltaTable | None = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Its partition columns, by its path or by the log of its table."""
        return partitions_of(self.path) if self.table is None else self.table.partitions[self.path]


def expand_inputs(
    globs: Sequence[str], *, exclude: str | None = None, input_format: str = AUTO
) -> list[InputFile]:
    """Find the files that patterns, folders and plain paths stand for.

    An existing file or folder is taken literally even if its name holds glob characters. A folder,
    given or matched, stands for the files below it with a suffix of a known format. Names below the
    place where the search began that start with "_" or "." are skipped, as every Parquet reader
    does, unless the pattern spells that character out. The folder of a Delta table stands for the
    current files of the table. Symbolic links are followed; a file that they lead to more than once
    is returned once.

    Args:
        globs: What to look for. Each may match many files; a file matched twice is returned once.
        exclude: A folder whose content is never an input (the output folder).
        input_format: Format of all files, a `Format`; `auto` to go by their names.

    Returns:
        The files, sorted by path, including whatever cannot be read, such as a folder that cannot
        be listed.

    Raises:
        InputError: If an entry matches nothing, or a part of a table; or a Delta table cannot be
            read.
        ConfigError: If the scheme of a path is not known or its package is missing.
    """
    found: dict[str, FoundFile] = {}
    tables: dict[str, DeltaTable] = {}
    again: list[str] = []
    endings = suffixes(input_format)
    for pattern in globs:
        result = search(pattern, endings)
        if (folder := result.delta_table()) is not None:
            table = _read_table(folder)
            result.found = table.files(result.found)
            tables |= dict.fromkeys(table.partitions, table)
        if not result.found:
            raise _nothing(result, pattern, endings)
        outside = _outside(result.found, exclude)
        if not outside:
            raise InputError(
                f"no input: all {len(result.found)} files that match "
                f"{mask_credentials(pattern)!r} are in the output folder "
                f"{mask_credentials(exclude or '')!r}, which is never read; expected files "
                "elsewhere. Choose another --output."
            )
        for file in outside:
            found.setdefault(file.path, file)
        again += result.again
    _check_current(found, tables)
    first = sorted(_once(found.values(), again, tables), key=attrgetter("path"))
    return [
        InputFile(
            **asdict(file),
            input_format=Format.PARQUET if file.path in tables else input_format,
            table=tables.get(file.path),
        )
        for file in first
    ]


def _nothing(found: Search, pattern: str, endings: Sequence[str]) -> InputError:
    """Return the error for what stands for no file."""
    expected, cure = "a file or a folder", "Check the path."
    if found.exists or found.passed_over:
        expected = "files of a known format"
        cure = next((CURES[one] for one in found.passed_over if one in CURES), cure)
    elif is_pattern(pattern):
        expected = "a glob that matches files, such as 'dumps/**/*.parquet'"
        cure = "Check it, and quote it for the shell."
    plain = [suffix for suffix in endings if suffix.count(".") == 1]
    return InputError(f"no input: {found.nothing(pattern, plain)}; expected {expected}. {cure}")


def _read_table(folder: str) -> DeltaTable:
    table, shown = read_delta(folder), mask_credentials(folder)
    if not table.partitions:
        raise InputError(
            f"no input: the Delta table {shown!r} has no file at version {table.version}; expected "
            "at least one. Check the path, or write rows to the table."
        )
    return table


def _check_current(found: Iterable[str], tables: Mapping[str, DeltaTable]) -> None:
    """Refuse files in the folder of a table that is given, too, and does not have them."""
    folders = tuple(table.folder for table in tables.values())
    if others := [path for path in found if path not in tables and path.startswith(folders)]:
        raise InputError(
            f"{mask_credentials(others[0])!r} is in the folder of a Delta table that is given, "
            "too: got a file that is not part of the table now; expected only current files. Leave "
            "out the file or the table."
        )


def tables_of(files: Sequence[InputFile]) -> dict[str, dict[str, str | int]]:
    """Return identity and version of each Delta table that files are of, by its folder.

    With `names`: how the names of its files begin. They are counted from the folder of all files.
    """
    root = common_folder([file.root for file in files])
    tables = {file.table.folder: file.table for file in files if file.table}
    names = [
        name.removesuffix("x") for name in input_names([f"{at}x" for at in tables], root).values()
    ]
    return {
        mask_credentials(folder): {"id": table.id, "version": table.version, "names": name}
        for (folder, table), name in zip(tables.items(), names, strict=True)
    }


def tables_in(run: Mapping[str, object] | None) -> dict[str, Mapping[str, object]]:
    """Return what `tables_of` returned for an earlier run, from its `_run.json`; {} if unknown."""
    tables = (run or {}).get("tables")
    found = tables.items() if isinstance(tables, Mapping) else ()
    return {folder: table for folder, table in found if isinstance(table, Mapping)}


def _outside(found: Sequence[FoundFile], folder: str | None) -> Sequence[FoundFile]:
    if folder is None:
        return found
    fs, inner = resolve(folder)
    real = with_scheme(fs, real_path(fs, inner)).rstrip("/") + "/"
    return [file for file in found if not f"{file.real}/".startswith(real)]


def _once(
    found: Iterable[FoundFile], again: Sequence[str], tables: Container[str]
) -> Iterable[FoundFile]:
    """Return each file once: first by its path in a table, which has more to say of it."""
    first_of: dict[str, FoundFile] = {}
    found = sorted(
        found, key=lambda file: (file.path not in tables, file.real != file.path, file.path)
    )
    twice = [file.path for file in found if first_of.setdefault(file.real, file) is not file]
    links = [*again, *twice]
    if links:
        logger.warning(
            "%d symbolic links lead to inputs, such as %r: each file is scored once",
            len(links),
            mask_credentials(links[0]),
        )
    return first_of.values()


@contextlib.contextmanager
def check_one_version(path: str, version: str) -> Iterator[None]:
    """Check that what the body reads is of the version that was planned, if that is known.

    Where the reads themselves do not tell, the file is asked for its version at the end.
    """
    try:
        yield
    except OSError as error:
        if not version or not is_other_version(error, path):
            raise
        raise file_changed(path, "another version", f"version {version}") from error
    is_sure = not version or reads_one_version(path)
    if not is_sure and (got := file_version(path)) != version:
        raise file_changed(path, f"version {got}", f"version {version}")


class FileChangedError(InputError):
    """A file has changed since it was found, which is not its fault."""


def file_changed(path: str, got: str, expected: str) -> FileChangedError:
    """Return the error for a file that has changed since it was planned."""
    return FileChangedError(
        f"{mask_credentials(path)!r} has changed since it was planned: got {got}; expected "
        f"{expected}. Run the job again: it scores what has changed."
    )
