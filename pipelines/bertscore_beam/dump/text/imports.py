"""Find out what is known of text files that were turned into Parquet.

    OUT/_input/<key>.parquet              the rows of a file, until the run is a success
    OUT/_manifest/imports/<key>.pq        the footer of that, from which it is planned
    OUT/_manifest/imports/<key>.json      why a file could not be turned into Parquet

The key names the version of the file and everything that decides how it is read. So whatever is
there is right, and an import is made again only if its file has changed.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from bertscore_beam.dump.formats import Codec, Format, format_of
from bertscore_beam.dump.inputs import InputFile
from bertscore_beam.dump.layout import FileLayout, read_layout
from bertscore_beam.dump.plan import FileReason, RejectedError
from bertscore_beam.dump.text.columns import PACKED, read_columns
from bertscore_beam.dump.text.to_parquet import PARSER, text_to_parquet
from bertscore_beam.files.paths import join
from bertscore_beam.files.read import exists, read_many
from bertscore_core.errors import InputError

IMPORTS_FOLDER = "_manifest/imports"
INPUT_FOLDER = "_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A file of text to be turned into Parquet.

    Attributes:
        path: Its path.
        size: Its size in bytes when it was found.
        version: Its version then, "" if it is not known.
        kind: Its format.
        codec: Its compression.
        columns: Columns to assume in a JSON file without any row.
        target: Where the Parquet file goes, below the folder of the run; "" for `_input`.
        parser: Version of what reads it, as the command has it.
    """

    path: str
    size: int
    version: str
    kind: Format
    codec: Codec
    columns: tuple[str, ...]
    target: str = ""
    parser: str = PARSER

    @classmethod
    def of(cls, file: InputFile, columns: Sequence[str]) -> "TextFile | None":
        """Return a file of text; None for Parquet, and for what is no file."""
        kind, codec = format_of(file.path, file.input_format)
        if kind is Format.PARQUET or file.trouble is not None:
            return None
        return cls(
            path=file.path,
            size=file.size,
            version=file.version,
            kind=kind,
            codec=codec,
            columns=tuple(columns),
        )

    @property
    def key(self) -> str:
        """Names its version and how it is read; 32 hexadecimal digits."""
        file = (self.path, self.size, self.version)
        how = (self.parser, self.kind, self.codec, self.columns, self.target)
        return hashlib.sha256(json.dumps([file, how]).encode()).hexdigest()[:32]

    @property
    def about_bytes(self) -> int:
        """About its size after decompression."""
        return self.size * (PACKED if self.codec else 1)

    @property
    def data(self) -> str:
        """The Parquet file, below the folder of the run."""
        return self.target or f"{INPUT_FOLDER}/{self.key}.parquet"

    @property
    def footer(self) -> str:
        """The copy of its footer, below the folder of the run."""
        return f"{IMPORTS_FOLDER}/{self.key}.pq"

    @property
    def rejection(self) -> str:
        """The file that says why it could not be imported, below the folder of the run."""
        return f"{IMPORTS_FOLDER}/{self.key}.json"


def texts_among(files: Iterable[InputFile], columns: Sequence[str]) -> tuple[TextFile, ...]:
    """Return the files of text; see `TextFile`."""
    texts = (TextFile.of(file, columns) for file in files)
    return tuple(text for text in texts if text is not None)


def write_rows(text: TextFile, sink: BinaryIO, told: Callable[[int], None] | None = None) -> None:
    """Write the rows of a file of text as Parquet.

    Args:
        text: The file.
        sink: Where they go; see `text_to_parquet`.
        told: As for `text_to_parquet`.

    Raises:
        InputError: It is not of its format, is damaged, or has changed since it was found.
        OSError: It cannot be reached.
    """
    columns = read_columns(text.path, text.kind, text.codec, text.columns)
    text_to_parquet(
        text.path,
        text.kind,
        text.codec,
        columns.schema,
        sink,
        size=text.size or None,
        version=text.version,
        told=told,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """The imports of a run.

    Attributes:
        folder: The folder of the run.
        are_made: Whether all good files of text that were found have been imported: one without an
            import is rejected. Before, it is planned from its first rows.
        needs_rows: Whether a footer is not enough, since rows are read to plan.
    """

    folder: str
    are_made: bool = False
    needs_rows: bool = False

    def path(self, text: TextFile) -> str:
        """Return the path of the Parquet file that is made of a file of text."""
        return join(self.folder, text.data)

    def layout(self, text: TextFile) -> FileLayout | None:
        """Return what planning needs of an import; None if it is not there, or too little.

        Raises:
            RejectedError: The file could not be imported.
            OSError: The folder cannot be reached.
        """
        if not (text.version or self.are_made):  # whether it has changed cannot be seen
            return None
        with suppress(FileNotFoundError, InputError):  # a damaged footer is made again
            layout = read_layout(join(self.folder, text.footer))
            lacks_rows = self.needs_rows and not exists(self.path(text))
            return None if lacks_rows else layout
        (noted,) = read_many([join(self.folder, text.rejection)])
        with suppress(ValueError, KeyError, TypeError):  # so is a damaged note
            content = json.loads(noted or b"{}")
            reason, message = FileReason(content["reason"]), str(content["message"])
            if self.are_made or not reason.is_out_of_reach:
                raise RejectedError(reason, message)
        return None


def rejection_to_json(reason: FileReason, message: str) -> bytes:
    """Return why a file could not be imported, as `Imports.layout` reads it."""
    return json.dumps({"reason": reason, "message": message}).encode()
