"""The formats of input files: chosen by the file's name, checked by its first bytes."""

import codecs
import re
from enum import StrEnum

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import without_query
from bertscore_core.errors import InputError

AUTO = "auto"


class Format(StrEnum):
    """How the rows of a file are written."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    """One JSON object a line."""
    CSV = "csv"
    """Comma-separated, quoted as in RFC 4180, with a header line."""
    TSV = "tsv"
    """The same, separated by tabs."""
    TSV_RAW = "tsv-raw"
    """Separated by tabs, with a header line and without quoting: a quote is a character."""
    LINES = "lines"
    """One text per line: files of candidates and of references, which are not files of rows."""

    @property
    def delimiter(self) -> str:
        """The character between two fields of a CSV or TSV file."""
        return "," if self is Format.CSV else "\t"

    @property
    def is_quoted(self) -> bool:
        """Whether a quoted field may hold a line break, so that not each line is a record."""
        return self in (Format.CSV, Format.TSV)

    @property
    def has_header(self) -> bool:
        """Whether the first record names the columns."""
        return self not in (Format.PARQUET, Format.JSONL)


class Codec(StrEnum):
    """How a file of text is compressed, as Arrow calls it."""

    NONE = ""
    GZIP = "gzip"
    ZSTD = "zstd"


_FORMATS = {
    ".parquet": Format.PARQUET,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
}
_CODECS = {".gz": Codec.GZIP, ".zst": Codec.ZSTD}
# Of a folder of Parquet files, README-like files such as dataset_infos.json are not rows.
_ONLY_BY_NAME = ".json"
_SAME_SUFFIX = {Format.TSV_RAW: Format.TSV}

_PARQUET = b"PAR1"
_MAGIC = {
    Codec.GZIP: re.compile(rb"\x1f\x8b"),
    Codec.ZSTD: re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # or what is skipped
}
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
_IS_ARROW = "an Arrow file"
ARROW_CURE = (
    "A folder of `save_to_disk` becomes a Parquet file by "
    "`datasets.load_from_disk(FOLDER).to_parquet(FILE)`."
)
"""What to do with the files of Arrow that the package datasets writes."""
_ZIP = b"PK\x03\x04"
_IS_ZIP, _IS_WIDE = "a ZIP archive, such as an Excel workbook", "a file in UTF-16"
_BZIP2, _XZ = "bzip2 compression", "xz compression"
_OTHER_CODECS = {
    _BZIP2: re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    _XZ: re.compile(rb"\xfd7zXZ\0"),
}
_CURES = {
    _IS_ARROW: ARROW_CURE,
    _IS_ZIP: "Excel can save a sheet as CSV in UTF-8.",
    _BZIP2: "Unpack it first: bzcat FILE > NEW_FILE",
    _XZ: "Unpack it first: xzcat FILE > NEW_FILE",
    _IS_WIDE: "Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE",
}
HEAD_BYTES = 64
"""First bytes of a file that tell what it is."""
TWO_FILES = (
    "`score` takes files with one text per line: --candidates HYP.txt --references REF.txt. For "
    r"other commands make a file of rows: (printf 'candidate\treference\n'; paste HYP.txt REF.txt) "
    "> dump.tsv; then give --input dump.tsv --input-format tsv-raw."
)
"""What to do with candidates in one file and references in another."""


def suffixes(input_format: str) -> tuple[str, ...]:
    """Return the suffixes of the files that a folder stands for.

    That is never `.json` with `auto`: it is seldom a file of rows.
    """
    only = None if input_format == AUTO else Format(input_format)
    plain = [
        suffix
        for suffix, kind in _FORMATS.items()
        if (suffix != _ONLY_BY_NAME if only is None else kind is _SAME_SUFFIX.get(only, only))
    ]
    texts = [suffix for suffix in plain if _FORMATS[suffix] is not Format.PARQUET]
    return (*plain, *(f"{suffix}{codec}" for suffix in texts for codec in _CODECS))


def format_of(path: str, input_format: str) -> tuple[Format, Codec]:
    """Return the format and the compression of a file by its name.

    A name without a known suffix is that of a Parquet file, unless the format is given.

    Args:
        path: Path or URL of the file.
        input_format: A `Format` for every file, or `auto`.
    """
    name = without_query(path).lower()
    codec = next((codec for suffix, codec in _CODECS.items() if name.endswith(suffix)), Codec.NONE)
    stem = name.rpartition(".")[0] if codec else name
    named = next((kind for suffix, kind in _FORMATS.items() if stem.endswith(suffix)), None)
    kind = named or Format.PARQUET if input_format == AUTO else Format(input_format)
    return kind, Codec.NONE if kind is Format.PARQUET else codec


def suffix_of(head: bytes) -> str:
    """Return the suffix that a compressed file should have by its first bytes; "" for others."""
    packed = (suffix for suffix, codec in _CODECS.items() if _MAGIC[codec].match(head))
    return next(packed, "")


def check_head(path: str, head: bytes, kind: Format, codec: Codec) -> None:
    """Check that a file of text is what its name says."""
    got = _looks_like(head)
    magic = _MAGIC.get(codec)
    if magic is not None and not head:
        raise InputError(
            f"{mask_credentials(path)!r} is empty: got 0 bytes; expected {codec} "
            "compression, which has some bytes even without text. Write it again."
        )
    if magic is not None and not magic.match(head):
        raise _misnamed(path, got or "a file without compression", f"{codec} compression")
    if magic is None and got is not None:
        raise _misnamed(path, got, f"{kind} in UTF-8")


def not_parquet_hint(path: str, head: bytes) -> str | None:
    """Return what a file is that is read as Parquet and is not; None if that is not known."""
    got = _looks_like(head)
    if got is None and head.lstrip()[:1] == b"{":
        got = "lines of JSON"
    if got is None and _is_text(head) and not path.lower().endswith(".parquet"):
        return (
            f"{mask_credentials(path)!r} names no columns: got lines of text; expected a "
            f"file of rows that is named by its format, such as dump.tsv. {TWO_FILES} For CSV, TSV "
            "or JSON lines of another name give --input-format."
        )
    if got is None or head.startswith(_PARQUET):
        return None
    return str(_misnamed(path, got, "Parquet"))


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # its end may be cut
    except UnicodeDecodeError:
        return False
    return bool(text) and all(character.isprintable() or character.isspace() for character in text)


def _looks_like(head: bytes) -> str | None:
    if head.startswith(_PARQUET):
        return "a Parquet file"
    if head.startswith(_ARROW):
        return _IS_ARROW
    if head.startswith(_WIDE):
        return _IS_WIDE
    if head.startswith(_ZIP):
        return _IS_ZIP
    known = {f"{codec} compression": magic for codec, magic in _MAGIC.items()} | _OTHER_CODECS
    return next((got for got, magic in known.items() if magic.match(head)), None)


def _misnamed(path: str, got: str, expected: str) -> InputError:
    return InputError(
        f"{mask_credentials(path)!r} is not what its name says: got {got}; expected "
        f"{expected}. Rename or convert it, or give the right --input-format."
        + (f" {_CURES[got]}" if got in _CURES else "")
    )
