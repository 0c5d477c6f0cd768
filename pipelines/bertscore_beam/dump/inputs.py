"""Find the input files of a job: their formats, their names below a root, their partitions."""

import codecs
import contextlib
import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from operator import attrgetter
from urllib.parse import unquote

import pyarrow as pa

from bertscore_beam.files.find import FoundFile, file_version, search
from bertscore_beam.files.listing import HIDDEN_PREFIXES, real_path
from bertscore_beam.files.paths import mask_credentials, resolve, with_scheme
from bertscore_beam.files.read import is_other_version, reads_one_version
from bertscore_core.errors import InputError

# The formats of input files: chosen by the file's name, checked by its first bytes.

_AUTO = "auto"


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
    """A text a line: files of candidates and of references, which are not files of rows."""

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
_MAGIC = {Codec.GZIP: b"\x1f\x8b", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}
_WIDE = (b"\xff\xfe", b"\xfe\xff")
HEAD_BYTES = 64
"""First bytes of a file that tell what it is."""
TWO_FILES = (
    "`score` takes files with a text a line: --candidates HYP.txt --references REF.txt. For other "
    r"commands make one: (printf 'candidate\treference\n'; paste HYP.txt REF.txt) > dump.tsv; then "
    "give --input dump.tsv --input-format tsv-raw."
)
"""What to do with candidates in one file and references in another."""


def suffixes(input_format: str) -> tuple[str, ...]:
    """Return the suffixes of the files that a folder stands for.

    That is never `.json` with `auto`: it is seldom a file of rows.
    """
    only = None if input_format == _AUTO else Format(input_format)
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
    name = path.lower()
    if name.startswith(("http://", "https://")):
        name = name.partition("?")[0]
    codec = next((codec for suffix, codec in _CODECS.items() if name.endswith(suffix)), Codec.NONE)
    stem = name.rpartition(".")[0] if codec else name
    named = next((kind for suffix, kind in _FORMATS.items() if stem.endswith(suffix)), None)
    kind = named or Format.PARQUET if input_format == _AUTO else Format(input_format)
    return kind, Codec.NONE if kind is Format.PARQUET else codec


def check_head(path: str, head: bytes, kind: Format, codec: Codec) -> None:
    """Check that a file of text is what its name says."""
    got = _looks_like(head)
    magic = _MAGIC.get(codec)
    if magic is not None and not head:
        raise InputError(
            f"{mask_credentials(path)!r} is empty: got 0 bytes; expected {codec} "
            "compression, which has some bytes even without text. Write it again."
        )
    if magic is not None and not head.startswith(magic):
        raise _misnamed(path, got or "a file without compression", f"{codec} compression")
    if magic is None and got is not None:
        raise _misnamed(path, got, f"{kind} in UTF-8")


def not_parquet_hint(path: str, head: bytes) -> str | None:
    """Return what a file is that is read as Parquet and is none; None if nobody knows."""
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
    if head.startswith(_WIDE):
        return "a file in UTF-16"
    packed = [codec for codec, magic in _MAGIC.items() if head.startswith(magic)]
    return f"{packed[0]} compression" if packed else None


def _misnamed(path: str, got: str, expected: str) -> InputError:
    return InputError(
        f"{mask_credentials(path)!r} is not what its name says: got {got}; expected "
        f"{expected}. Rename or convert it, or give the right --input-format."
    )


# Name input files by their path below a common root, safely enough to build output paths.

# Always escaped: our own escape character, the backslash, the colon (Hadoop refuses it, and "::"
# chains fsspec URLs) and control characters.
_UNSAFE = re.compile(r"[%\\:\x00-\x1f\x7f]")
# Longest name in bytes that file systems accept.
_NAME_BYTES = 255


def common_folder(folders: Sequence[str]) -> str:
    """Return the deepest folder that holds all given folders or is one of them, with its scheme.

    The answer is "" if they are on different file systems, or if there are none.
    """
    shared = _shared([_components(folder.rstrip("/") or folder) for folder in folders])
    if not shared:
        return ""
    scheme, *names = shared
    return f"{scheme}://{'/'.join(names)}" if scheme else "/" + "/".join(names)


def _shared(names: Sequence[tuple[str, ...]]) -> Sequence[str]:
    return os.path.commonprefix(names)  # noqa: RUF071 - of whole names, not of letters


def input_names(paths: Sequence[str], root: str | None = None) -> dict[str, str]:
    """Name each input by its path below the common root.

    A name is unique, relative and safe to append to an output folder: no component is empty, "."
    or "..", none starts with "_" or "." (readers skip those), none holds a backslash, a colon or a
    control character. All of these are percent-encoded, and so is "%" itself; an empty
    component becomes a bare "%". `urllib.parse.unquote` undoes it, except for a name that would
    grow beyond 255 bytes: its end is replaced by a digest. Spaces, other punctuation and
    letters of any script stay as they are. The query of an http(s) address, which may hold a key,
    is left out, and addresses that differ in it alone get a digest of it; so is the user info of
    a URL, and addresses that differ in that alone are numbered.

    Args:
        paths: Paths of files, each once.
        root: The folder to count from; by default the deepest common one. A fixed root keeps names,
            and so the parts of an earlier run, when files come and go.

    Returns:
        The name of each path, in the order given.
    """
    if root is None:
        base = tuple(_shared([_components(path)[:-1] for path in paths]))
    else:
        base = _components(root) if root else ()
    names = {path: _name_below(base, path) for path in paths}
    count = Counter(names.values())
    names = {
        path: name if count[name] == 1 else f"{name}%~{_digest(''.join(_split_scheme(path)))}"
        for path, name in names.items()
    }
    count = Counter(names.values())
    number: Counter[str] = Counter()
    for path in sorted(path for path, name in names.items() if count[name] > 1):
        number[names[path]] += 1
        names[path] += f"~{number[names[path]]}"
    return names


def _split_scheme(path: str) -> tuple[str, str, str]:
    """Return the scheme of a path, "://", and the rest without the user of a URL, no secret."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "", "", path
    host, slash, below = rest.partition("/")
    return scheme, separator, f"{host.rpartition('@')[2]}{slash}{below}"


def _name_below(base: tuple[str, ...], path: str) -> str:
    parts = _components(path)
    inside = bool(base) and parts[: len(base)] == base and len(parts) > len(base)
    below = parts[len(base) :] if inside else (parts[0] or "local", *parts[1:])
    return "/".join(_escape(part) for part in below)


def _components(path: str) -> tuple[str, ...]:
    scheme, _, rest = _split_scheme(path)
    if scheme in ("http", "https"):
        rest = rest.partition("?")[0]
    rest = rest.removeprefix("/")
    return (scheme, *rest.split("/")) if rest else (scheme,)


def _escape(component: str) -> str:
    if not component:
        return "%"
    safe = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", component)
    if safe.startswith(HIDDEN_PREFIXES):
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    return cut_name(safe, component)


def cut_name(name: str, whole: str, most_bytes: int = _NAME_BYTES) -> str:
    """Return a name; of one that is too long its beginning, and a digest of the whole."""
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) <= most_bytes:
        return name
    digest = f"%~{_digest(whole)}"
    return f"{encoded[: most_bytes - len(digest)].decode('utf-8', 'ignore')}{digest}"


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:8]


# Columns whose values stand in the names of folders, as Hive writes them: `dt=2026-01-01/`.

_PAIR = re.compile(r"([^=/?#]+)=([^/?#]*)")
# What Hive and Spark call the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partitions_of(path: str) -> str:
    """Return the partition columns in a path, in order, as JSON; "" without any.

    Every folder on the way named `key=value` counts, wherever the search began, so that the columns
    do not depend on how the input was given. Values are strings, URL-decoded. Of equal keys the
    deepest counts.
    """
    values = {}
    scheme, _, below = _split_scheme(path)
    if scheme in ("http", "https"):
        below = below.partition("?")[0]
    for folder in below.split("/")[bool(scheme) : -1]:
        pair = _PAIR.fullmatch(folder)
        if pair is not None:
            value = unquote(pair[2])
            values[unquote(pair[1])] = None if value == _NULL else value
    return json.dumps(list(values.items()), ensure_ascii=True) if values else ""


def above_partitions(folder: str) -> str:
    """Return the deepest folder on the way to a folder that is above all partition columns."""
    names = folder.split("/")
    places = (place for place, name in enumerate(names) if _PAIR.fullmatch(name))
    return "/".join(names[: next(places, len(names))])


def with_partitions(table: pa.Table, partitions: str) -> pa.Table:
    """Add partition columns after the columns of a file. A column of the file comes first."""
    for name, value in json.loads(partitions or "[]"):
        if name not in table.column_names:
            column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
            table = table.append_column(name, column)
    return table


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile(FoundFile):
    """A file that was found for a job.

    Attributes:
        input_format: Format of the file, a `Format`; `auto` to go by its name.
    """

    input_format: str = _AUTO


def expand_inputs(
    globs: Sequence[str], *, exclude: str | None = None, input_format: str = _AUTO
) -> list[InputFile]:
    """Find the files that patterns, folders and plain paths stand for.

    An existing file or folder is taken literally even if its name holds glob characters. A folder,
    given or matched, stands for the files below it with a suffix of a known format. Names below the
    place where the search began that start with "_" or "." are skipped, as every Parquet reader
    does, unless the pattern spells that character out. Symbolic links are followed; a file that
    they lead to more than once is returned once.

    Args:
        globs: What to look for. Each may match many files; a file matched twice is returned once.
        exclude: A folder whose content is never an input (the output folder).
        input_format: Format of all files, a `Format`; `auto` to go by their names.

    Returns:
        The files, sorted by path, including whatever cannot be read, such as a folder that cannot
        be listed.

    Raises:
        InputError: If an entry matches nothing.
        CutOffError: If a store lists only a part of a folder.
        ConfigError: If the scheme of a path is not known or its package is missing.
    """
    found: dict[str, FoundFile] = {}
    again: list[str] = []
    endings = suffixes(input_format)
    for pattern in globs:
        result = search(pattern, endings)
        if not result.found:
            plain = [suffix for suffix in endings if suffix.count(".") == 1]
            raise InputError(
                f"no input: {result.nothing(pattern, plain)}; expected a file, a folder "
                "with such files below it, or a glob such as 'dumps/**/*.parquet'. Check the path, "
                "and quote the glob for the shell."
            )
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
    if not found:
        raise InputError("no input: got no path at all; expected at least one --input.")
    first = sorted(_once(found.values(), again), key=attrgetter("path"))
    return [InputFile(**asdict(file), input_format=input_format) for file in first]


def _outside(found: Sequence[FoundFile], folder: str | None) -> Sequence[FoundFile]:
    if folder is None:
        return found
    fs, inner = resolve(folder)
    real = with_scheme(fs, real_path(fs, inner)).rstrip("/") + "/"
    return [file for file in found if not f"{file.real}/".startswith(real)]


def _once(found: Iterable[FoundFile], again: Sequence[str]) -> Iterable[FoundFile]:
    first_of: dict[str, FoundFile] = {}
    found = sorted(found, key=lambda file: (file.real != file.path, file.path))
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
def of_one_version(path: str, version: str) -> Iterator[None]:
    """Check that what the body reads is of the version that was planned, if that is known.

    Where the reads themselves do not tell, the file is asked for its version at the end.
    """
    try:
        yield
    except OSError as error:
        if not is_other_version(error):
            raise
        raise file_changed(path, "another version", f"version {version}") from error
    is_sure = not version or reads_one_version(path)
    if not is_sure and (got := file_version(path)) != version:
        raise file_changed(path, f"version {got}", f"version {version}")


def file_changed(path: str, got: str, expected: str) -> InputError:
    """Return the error for a file that has changed since it was planned."""
    return InputError(
        f"{mask_credentials(path)!r} has changed since it was planned: got {got}; expected "
        f"{expected}. Run the job again: it scores what has changed."
    )
