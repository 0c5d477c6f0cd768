"""The files of idf tables."""

import threading
from dataclasses import dataclass
from functools import lru_cache

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.read import read_bytes
from bertscore_beam.idf.tables import IdfTables
from bertscore_core.errors import IdfError


def load_idf(path: str) -> IdfTables:
    """Read the saved tables: one or several.

    Raises:
        IdfError: The file is missing, or holds no idf table.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise IdfError(
            f"idf table {mask_credentials(path)!r} cannot be read ({type(error).__name__}); "
            "expected a file written by `bertscore-beam idf`. Make it, or give --idf corpus."
        ) from error
    return IdfTables.from_bytes(data, source=mask_credentials(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedIdf:
    """Names saved tables in a few bytes, for elements that need them.

    Attributes:
        path: Their file.
        fingerprint: Their fingerprint; "" if there is a problem.
        problem: Why they must not be used, so that they are not saved; "" if they may be.
    """

    path: str
    fingerprint: str
    problem: str = ""

    @classmethod
    def of(cls, tables: IdfTables, path: str) -> "SavedIdf":
        """Name tables that are in a file."""
        fingerprint = "" if tables.problem else tables.fingerprint
        return cls(path=path, fingerprint=fingerprint, problem=tables.problem)

    def load(self) -> IdfTables:
        """Return the tables, read once a process.

        Raises:
            IdfError: They are not there any more, or others are in their place.
        """
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
