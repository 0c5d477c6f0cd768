"""Delta tables: which files of a folder are of the table now, and the partition columns of each.

The log is copied and read here, so that it is found with the credentials of all other files. Of a
table that needs more than its files to be read, such as deletion vectors, an error says so.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from bertscore_beam.dump.partitions import Partition, logged_column, partitions_of
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import FoundFile, search
from bertscore_beam.files.listing import list_files
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import in_parallel, read_if_there
from bertscore_core.errors import ConfigError, InputError, load_json

_READABLE = {
    "columnMapping",  # unless it is on
    "deletionVectors",  # unless a file has one
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Features of tables that can be read from their files and their log."""
_NUMBERED = re.compile(r"(\d{20})\.")
_HINT = "_last_checkpoint"
_WIDENED = "delta.typeChanges"
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/|(?:.*/)?\.\./")
"""How the path of a file begins that is not below the folder of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """A version of a table.

    Attributes:
        folder: The folder of the table.
        version: Number of the version.
        id: What tells it from a table that was in the folder before, or comes after.
        partitions: What its log says of the columns of each file, by path.
    """

    folder: str
    version: int
    id: str
    partitions: Mapping[str, tuple[Partition, ...]]

    def files(self, found: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files of the table, of those that were found in its folder, or looked for.

        Raises:
            InputError: One is not there.
        """
        known = {file.path: file for file in found}
        away = [path for path in self.partitions if path not in known]  # hidden, or just written
        looked = in_parallel(lambda path: search(path, ()).found, away)
        for path, one in zip(away, looked, strict=True):
            if not one:
                raise InputError(
                    f"the Delta table {mask_credentials(self.folder)!r} is not whole: got no file "
                    f"{mask_credentials(path)!r}, which its log names; expected all files of "
                    f"version {self.version}. Run the job again if the table was just vacuumed, or "
                    "restore the file."
                )
            known[path] = replace(one[0], root=self.folder.rstrip("/"))
        return [known[path] for path in self.partitions]


def read_delta(folder: str) -> DeltaTable:
    """Read the log of a table.

    Raises:
        ConfigError: The package deltalake is missing.
        InputError: The table cannot be read, or not from its files alone.
        OSError: The log cannot be reached.
    """
    try:
        import deltalake  # an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{mask_credentials(folder)!r} is a Delta table: got no package deltalake; expected "
            "that of the extra 'delta'. In the checkout: pip install '.[delta]'."
        ) from error
    with tempfile.TemporaryDirectory(prefix="bertscore-delta-") as copy:
        _copy_log(folder, Path(copy))
        try:
            return _read_copy(folder, copy)
        except BaseException as error:
            # What deltalake calls a panic is no Exception.
            is_panic = type(error).__name__ == "PanicException"
            if not is_panic and not isinstance(error, deltalake.exceptions.DeltaError):
                raise
            words = str(error).partition("\n")[0]
            words = words.replace(copy, mask_credentials(folder).rstrip("/"))
            raise _unreadable(folder, words, "a log that the package deltalake reads") from error


def _read_copy(folder: str, copy: str) -> DeltaTable:
    import deltalake

    table = deltalake.DeltaTable(copy)
    _check_readable(folder, table)
    return DeltaTable(
        folder=folder,
        version=table.version(),
        id=str(table.metadata().id),
        partitions=_partitions(folder, table, pa.table(table.get_add_actions())),
    )


def _copy_log(folder: str, copy: Path) -> None:
    """Copy the log of a table, from the checkpoint on that its hint names; all of it without one.

    A newer checkpoint may have been cut off. One of 0 bytes certainly was, and is left out.
    """
    log = join(folder, "_delta_log")
    sizes = list_files(log)
    names = [name for name, size in sizes.items() if size or ".checkpoint." not in name]
    first = _hinted(log)
    if not any(name.startswith(f"{first}.checkpoint.") for name in names):
        first = ""
        names = [name for name in names if name != _HINT]
    numbers = {name: found[1] for name in names if (found := _NUMBERED.match(name))}

    def copy_one(name: str) -> None:
        if (data := read_if_there(join(log, name))) is not None:
            path = copy / "_delta_log" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    for _ in in_parallel(copy_one, [n for n in names if numbers.get(n, first) >= first]):
        pass


def _hinted(log: str) -> str:
    """Return the number of the checkpoint that the hint of a log names, as files have it."""
    try:
        return f"{load_json(read_if_there(join(log, _HINT)) or b'')['version']:020d}"
    except (ValueError, TypeError, KeyError):  # there is none, or it is damaged
        return "none"


def _check_readable(folder: str, table: Any) -> None:
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise _unreadable(folder, f"column mapping by {mode}", "columns under their own names")
    features = set(table.protocol().reader_features or ())
    if others := sorted(features - _READABLE):
        raise _unreadable(folder, f"the features {', '.join(others)}", "a table without these")
    if "deletionVectors" in features and (got := _deletion_vectors(table)):
        purge = "`REORG TABLE ... APPLY (PURGE)` in Spark makes such"
        raise _unreadable(folder, got, f"files without deleted rows; {purge}")


def _deletion_vectors(table: Any) -> str:
    """Return what is known of deletion vectors; "" if there are none."""
    import deltalake

    try:
        return "" if next(iter(table.deletion_vectors()), None) is None else "deletion vectors"
    except deltalake.exceptions.DeltaError:  # they are in files that were not copied, for example
        return "deletion vectors, or features that hide whether it has any"


def _partitions(folder: str, table: Any, actions: pa.Table) -> dict[str, tuple[Partition, ...]]:
    """Return what the log says of the columns of each file, after those in the path of the table.

    These are the partition columns, and those whose type was widened, which older files lack.
    """
    columns: dict[str, pa.Array] = {}
    if "partition" in actions.column_names:
        column = actions["partition"].combine_chunks()
        columns = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    expected = table.metadata().partition_columns
    if sorted(columns) != sorted(expected):
        got = f"partition columns {[*columns]} from the package deltalake"
        raise _unreadable(folder, got, f"{expected}, as its log says; another version may read it")
    above = [one for one in partitions_of(f"{folder.rstrip('/')}/x") if one.name not in columns]
    kinds = [_logged(folder, name, values.type) for name, values in columns.items()]
    texts = [values.cast(pa.string()).to_pylist() for values in columns.values()]
    widened = _widened(folder, table)
    rows = zip(*texts, strict=True) if texts else ((),) * actions.num_rows
    found = {}
    paths = map(unquote, actions["path"].to_pylist())  # a log writes them as URLs
    for path, row in zip(paths, rows, strict=True):
        if _ELSEWHERE.match(path):
            raise _unreadable(folder, "files of another table, as a clone has", "files of its own")
        own = [
            replace(kind, value=text, is_in_file=False)
            for kind, text in zip(kinds, row, strict=True)
        ]
        found[join(folder, path)] = (*above, *own, *widened)
    return found


def _widened(folder: str, table: Any) -> list[Partition]:
    """Return the columns whose type was widened: files from before have a narrower one."""
    schema = table.schema()
    names = [
        field["name"]
        for field in json.loads(schema.to_json())["fields"]
        if _WIDENED in json.dumps(field)
    ]
    return [_logged(folder, name, pa.schema(schema).field(name).type) for name in names]


def _logged(folder: str, name: str, kind: pa.DataType) -> Partition:
    try:
        return logged_column(name, kind)
    except KeyError:
        got = f"the column {name!r} of type {kind}, in which a type was widened"
        raise _unreadable(folder, got, "such changes in plain columns alone") from None


def _unreadable(folder: str, got: str, expected: str) -> InputError:
    return InputError(
        f"the Delta table {mask_credentials(folder)!r} cannot be read here: got {got}; expected "
        f"{expected}. Or write a copy of its rows as Parquet files."
    )
