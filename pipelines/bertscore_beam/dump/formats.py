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

_MAGIC = {
    Codec.GZIP: rb"\x1f\x8b",
    Codec.ZSTD: rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18",  # or what is skipped
}
CURES = {
    ".arrow": "A folder of `save_to_disk` becomes a Parquet file by "
    "`datasets.load_from_disk(FOLDER).to_parquet(FILE)`.",
    ".orc": 'Convert it: python -c "from pyarrow import orc, parquet; '
    "parquet.write_table(orc.read_table('FILE'), 'NEW_FILE.parquet')\"",
    ".avro": "Convert it: python -m fastavro FILE > NEW_FILE.jsonl",
}
"""What to do with files of other formats, by their suffix; `.arrow` is what datasets writes."""
_ICONV = "Convert it: iconv -f {} -t UTF-8 FILE > NEW_FILE"
_PARQUET, _JSON_LINES = "a Parquet file", "lines of JSON"
_KINDS = {
    _PARQUET: (rb"PAR1", "Let its name end in .parquet, and give it as --input."),
    "an Arrow file": (rb"ARROW1", "Convert it: pandas.read_feather(FILE).to_parquet(NEW_FILE)"),
    "an Arrow stream": (rb"\xff{4}", CURES[".arrow"]),
    # What follows is no text: a table of text may begin with ORCID.
    "an ORC file": (rb"(?s)ORC.{0,8}[\0-\x08]", CURES[".orc"]),
    "an Avro file": (rb"Obj\x01", CURES[".avro"]),
    "a file in UTF-16": (rb"\xff\xfe|\xfe\xff", _ICONV.format("UTF-16")),
    "a file in UTF-16LE without its mark": (rb"([^\0]\0){4}", _ICONV.format("UTF-16LE")),
    "a file in UTF-16BE without its mark": (rb"(\0[^\0]){4}", _ICONV.format("UTF-16BE")),
    "an old Excel workbook": (rb"\xd0\xcf\x11\xe0", "Excel can save a sheet as CSV in UTF-8."),
    "a ZIP archive, such as an Excel workbook": (
        rb"PK\x03\x04",
        "Unpack it with unzip; Excel can save a sheet as CSV in UTF-8.",
    ),
    "gzip compression": (_MAGIC[Codec.GZIP], "Let its name end in .gz, as in dump.jsonl.gz."),
    "zstd compression": (_MAGIC[Codec.ZSTD], "Let its name end in .zst, as in dump.jsonl.zst."),
    "bzip2 compression": (
        rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
        "Unpack it first: bzcat FILE > NEW_FILE",
    ),
    "xz compression": (rb"\xfd7zXZ\0", "Unpack it first: xzcat FILE > NEW_FILE"),
    "an SQLite database": (rb"SQLite format 3\0", "Write its table as CSV or Parquet."),
    "a pickle": (rb"\x80[\x02-\x05]", "Write the table as Parquet with what made it."),
}
"""What a file is by its first bytes, and what to do with it."""
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
    packed = (suffix for suffix, codec in _CODECS.items() if re.match(_MAGIC[codec], head))
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
    if magic is not None and not re.match(magic, head):
        raise _misnamed(path, got or "a file without compression", f"{codec} compression")
    if magic is None and got is not None:
        raise _misnamed(path, got, f"{kind} in UTF-8")


def not_parquet_hint(path: str, head: bytes) -> str | None:
    """Return what a file is that is read as Parquet and is not; None if that is not known."""
    got = _looks_like(head)
    if got is None and head.lstrip()[:1] == b"{":
        got = _JSON_LINES
    if got is None and _is_text(head) and not path.lower().endswith(".parquet"):
        return (
            f"{mask_credentials(path)!r} names no columns: got lines of text; expected a "
            f"file of rows that is named by its format, such as dump.tsv. {TWO_FILES} For CSV, TSV "
            "or JSON lines of another name give --input-format."
        )
    if got in (None, _PARQUET):
        return None
    return str(_misnamed(path, got, "Parquet"))


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # its end may be cut
    except UnicodeDecodeError:
        return False
    return bool(text) and all(character.isprintable() or character.isspace() for character in text)


def _looks_like(head: bytes) -> str | None:
    return next((got for got, (magic, _) in _KINDS.items() if re.match(magic, head)), None)


def _misnamed(path: str, got: str, expected: str) -> InputError:
    cure = "Let its name end in .jsonl, or give --input-format jsonl."
    other = cure if got == _JSON_LINES else "Leave the last suffix of its name out."
    _, cure = _KINDS.get(got, ("", other))
    suffix = re.search(r"end in (\.\w+)", cure)
    if suffix and without_query(path).lower().endswith(suffix[1]):  # that is its name already
        is_packed = got.endswith("compression")
        cure = "Unpack it first." if is_packed else "Give the right --input-format, or none."
    return InputError(
        f"{mask_credentials(path)!r} is not what its name says: got {got}; expected "
        f"{expected}. {cure}"
    )
