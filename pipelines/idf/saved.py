"""The files of idf tables."""

from bertscore_core.errors import IdfError
from pipelines.files.credentials import mask_credentials
from pipelines.files.read import read_bytes
from pipelines.idf.tables import IdfTables


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


def note_path(name: str) -> str:
    """Return the path of the file beside a table that says how it was counted."""
    return f"{name.removesuffix('.npz')}.json"
