"""The idf tables of a run, one for all rows or one a language and test set, and their files."""

import io
import json
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from bertscore_beam.files.checked import digest_of, typed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import UnreachedError
from bertscore_beam.files.read import read_bytes
from bertscore_beam.idf.repeats import Repeats
from bertscore_core.errors import ConfigError, IdfError, load_json
from bertscore_core.idf import IdfTable

# The idf tables of a run: one for all rows, or one for each language and each test set.
#
#     one table for all rows   the file of `IdfTable`, as the library reads and writes it
#     several                  a first line, then a zip archive of a list and of such files
#
# No file holds pickled objects.

_FORMAT = "bertscore-idf-set/1"

MOST_TABLES = 10_000
"""Most tables in one set. A worker keeps all of them in memory, about 12 bytes for each token id
that a table has seen."""

# Without it a file that was cut short would be read as the last table in it, whose own archive ends
# with the file.
_FIRST_LINE = f"{_FORMAT}\n".encode()
_LIST = "tables.json"
_MOST_LIST_BYTES = 1 << 26
# Over all tables of a set: 12 bytes each in memory.
_MOST_IDS = 1 << 26


@dataclass(frozen=True, slots=True, order=True)
class IdfKey:
    """What chooses the table of a row.

    Attributes:
        language: Language of the row; "" where all rows have one setting.
        group: Values of the columns of --idf-group; empty without that option.
    """

    language: str = ""
    group: tuple[str, ...] = ()


WHOLE = IdfKey()
"""The key of the table for all rows."""


# Without slots, in which `cached_property` has no place to keep its value.
@dataclass(frozen=True, kw_only=True, eq=False)
class IdfTables:
    """Tables by key.

    Attributes:
        corpus: Name or digest of what was counted, as `IdfTable.corpus`.
        group_columns: The columns whose values are `IdfKey.group`.
        without_table: Rows whose references could be counted but that have no group.
        repeats: How often the references counted repeat; None if that is not known. Not in the
            file.
        problem: Why the tables must not be used, since their weights would be wrong; "" if they
            may. They are not written. A run with such tables scores nothing and does not succeed,
            and the next run counts again.
    """

    tables: Mapping[IdfKey, IdfTable]
    corpus: str = ""
    group_columns: tuple[str, ...] = ()
    without_table: int = 0
    repeats: Repeats | None = None
    problem: str = ""

    @classmethod
    def of(cls, table: IdfTable) -> "IdfTables":
        """Return a set with one table, for all rows."""
        return cls(tables={WHOLE: table}, corpus=table.corpus)

    @property
    def is_one(self) -> bool:
        """Whether there is one table, for all rows."""
        return not self.group_columns and self.tables.keys() == {WHOLE}

    @property
    def num_documents(self) -> int:
        """References counted, over all tables."""
        return sum(table.frequencies.num_documents for table in self.tables.values())

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that changes a weight. 16 hexadecimal digits.

        That of one table for all rows is the table's own.
        """
        if self.is_one:
            return self.tables[WHOLE].fingerprint
        prints = [
            [key.language, list(key.group), table.fingerprint]
            for key, table in sorted(self.tables.items(), key=lambda item: item[0])
        ]
        return digest_of(json.dumps([_FORMAT, prints], ensure_ascii=True), 16)

    def for_language(self, language: str) -> "IdfTables":
        """Return the tables of one language, as a run of its rows alone would count them."""
        own = {
            replace(key, language=WHOLE.language): table
            for key, table in self.tables.items()
            if key.language == language
        }
        return replace(self, tables=own)

    def only(self, source: str) -> IdfTable:
        """Return the one table for all rows; `source` says in errors where the tables come from.

        Raises:
            IdfError: There are tables by group or language, or there is none.
        """
        if not self.tables:
            raise IdfError(
                f"{source} holds no idf table for this language: got none; expected one. Count it "
                "with `bertscore-beam idf --language-column`, from rows of this language, too."
            )
        if not self.is_one:
            raise IdfError(
                f"{source} holds an idf table for each group or language: got {len(self.tables)} "
                "tables; expected one for all pairs. Count one without --idf-group."
            )
        return self.tables[WHOLE]

    def check_groups(self, group: tuple[str, ...]) -> None:
        """Check that the tables were counted by the columns of groups that a run names.

        Raises:
            ConfigError: They were not.
        """
        if self.group_columns == group:
            return
        own, asked = " ".join(self.group_columns), " ".join(group)
        cure = f"Add --idf-group {own}." if own else "Leave --idf-group out, or count with it."
        raise ConfigError(
            f"the idf table was counted {f'by groups of {own}' if own else 'without groups'}: got "
            f"{f'--idf-group {asked}' if asked else 'no --idf-group'}; expected the same. {cure}"
        )

    def check_fits(self, tokenizer: str, max_length: int | None, language: str = "") -> None:
        """Check that the tables of a language were counted with this tokenizer and truncation.

        Raises:
            IdfError: One was counted with others.
        """
        for key, table in self.tables.items():
            if key.language == language:
                table.check_fits(tokenizer, max_length)

    def to_bytes(self) -> bytes:
        """Return the tables as a file."""
        return self.tables[WHOLE].to_bytes() if self.is_one else self.set_to_bytes()

    def set_to_bytes(self, **notes: Any) -> bytes:
        """Return the tables as the file of several, with notes that `read_set` returns."""
        keys = tuple(sorted(self.tables))
        listed = _Listed(
            corpus=self.corpus,
            group_columns=self.group_columns,
            without_table=self.without_table,
            tables=keys,
        )
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            _add(archive, _LIST, json.dumps({**asdict(listed), **notes}).encode())
            for number, key in enumerate(keys):
                _add(archive, _name(number), self.tables[key].to_bytes())
        return _FIRST_LINE + buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "the given bytes") -> "IdfTables":
        """Read what `to_bytes` wrote: one table or several.

        Raises:
            IdfError: The bytes are neither, or hold values that no count gives.
        """
        if not data.startswith(_FIRST_LINE):
            return cls.of(IdfTable.from_bytes(data, source))
        try:
            return read_set(data)[0]
        except Exception as error:
            raise IdfError(
                f"{source} is not a set of idf tables of this project ({str(error)[:200]}); "
                "expected a file written by `bertscore-beam idf`. Make it with that command."
            ) from error


def _name(number: int) -> str:
    return f"table-{number:05d}.npz"


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add a member without the time of day: equal tables are equal bytes."""
    archive.writestr(zipfile.ZipInfo(name), data)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """What the first member of a set says of the others."""

    corpus: str
    group_columns: tuple[str, ...]
    without_table: int
    tables: tuple[IdfKey, ...]

    def __post_init__(self) -> None:
        if self.without_table < 0:
            raise ValueError("without_table is not a number of rows")
        if len(self.tables) > MOST_TABLES:
            raise ValueError(f"no list of at most {MOST_TABLES} tables")
        if any(len(key.group) != len(self.group_columns) for key in self.tables):
            raise ValueError("a table whose group is not one text for each column")
        if len(set(self.tables)) != len(self.tables):
            raise ValueError("two tables of one key")


def read_set(data: bytes) -> tuple[IdfTables, dict[str, Any]]:
    """Return the tables in the file of several, and its notes; any exception if it is damaged."""
    if not data.startswith(_FIRST_LINE):
        raise ValueError(f"its first line is not {_FORMAT}")
    with zipfile.ZipFile(io.BytesIO(data.removeprefix(_FIRST_LINE))) as archive:
        notes = load_json(_member(archive, _LIST, _MOST_LIST_BYTES))
        listed = typed(_Listed, notes)
        if len(archive.namelist()) != 1 + len(listed.tables):
            raise ValueError("other tables than are listed")
        tables, ids = {}, 0
        for number, key in enumerate(listed.tables):
            name = _name(number)
            # Stored, so that no member is larger than the file.
            table = IdfTable.from_bytes(_member(archive, name, len(data)), name)
            ids += len(table.frequencies.ids)
            if ids > _MOST_IDS:
                raise ValueError(f"more than {_MOST_IDS} token ids in all tables")
            tables[key] = table
    found = IdfTables(
        tables=tables,
        corpus=listed.corpus,
        group_columns=listed.group_columns,
        without_table=listed.without_table,
    )
    return found, notes


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
        raise ValueError(f"{name} is compressed, or larger than {most} bytes")
    return archive.read(info)


def load_idf(path: str) -> IdfTables:
    """Read the saved tables: one or several.

    Raises:
        IdfError: The file is missing, or holds no idf table.
    """
    try:
        data = read_bytes(path)
    except UnreachedError:
        raise
    except OSError as error:
        raise IdfError(
            f"idf table {mask_credentials(path)!r} cannot be read ({type(error).__name__}); "
            "expected a file written by `bertscore-beam idf`. Make it, or let `bertscore-beam "
            "score --idf corpus` count one."
        ) from error
    return IdfTables.from_bytes(data, source=mask_credentials(path))


def read_table(path: str) -> IdfTable:
    """Read a table for all rows that a run has made for its own models."""
    return IdfTable.from_bytes(read_bytes(path), mask_credentials(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedIdf:
    """Names the saved tables of a run in a few bytes.

    Attributes:
        path: Where they are, or will be once they are counted; "" without idf.
        name: The path below the output folder; "" if they are elsewhere.
        must_count: Whether they are yet to be counted.
        fingerprint: That of the tables; "" without idf, before they are counted, or with a problem.
        problem: Why they must not be used, so that they are not saved; "" if they may be.
    """

    path: str = ""
    name: str = ""
    must_count: bool = False
    fingerprint: str = ""
    problem: str = ""

    def counted(self, tables: IdfTables) -> "SavedIdf":
        """Name the tables that were counted."""
        fingerprint = "" if tables.problem else tables.fingerprint
        return replace(self, must_count=False, fingerprint=fingerprint, problem=tables.problem)

    def load(self) -> IdfTables | None:
        """Return the tables, read once a process; None without idf.

        Raises:
            IdfError: They are not there any more, or others are in their place.
        """
        if not self.path:
            return None
        with _loading:
            return _load(self)


# Without it several threads that need the same tables would each read them.
_loading = threading.Lock()


@lru_cache(maxsize=1)
def _load(saved: SavedIdf) -> IdfTables:
    tables = load_idf(saved.path)
    if tables.fingerprint != saved.fingerprint:
        raise IdfError(
            f"idf table {mask_credentials(saved.path)!r} has changed while the job runs: got "
            f"{tables.fingerprint}; expected {saved.fingerprint}. Run the same command again."
        )
    return tables


def note_path(name: str) -> str:
    """Return the path of the file beside a table that says how it was counted."""
    return f"{name.removesuffix('.npz')}.json"
