"""What is in a folder."""

from pathlib import Path


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by path."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
