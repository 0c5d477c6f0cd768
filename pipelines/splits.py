"""Cut input files into splits and name what becomes of them; pure, no file is opened here.

    file                 |  row group 0  |  row group 1  |          row group 2          |
    splits               |       split (groups 0-1)      |  rows 0-k  |  k-2k  |  2k-3k  |
    skip_rows            |  0                            |  0         |  k     |  2k     |

A split is a run of rows of one file. Small row groups are put together, an oversized one is cut by
rows. The cut depends on the file and on the two targets alone, so every run plans alike.
"""

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bertscore_core.errors import ConfigError
from pipelines.io.credentials import without_user_info

# Names that start with these are skipped by Parquet readers (Arrow, Spark, Hive, DuckDB).
HIDDEN_PREFIXES = ("_", ".")
# Escaped wherever they stand: our own escape character, the backslash, the colon (Hadoop refuses
# it and "::" chains fsspec URLs) and control characters.
_UNSAFE = re.compile(r"[%\\:\x00-\x1f\x7f]")
# Bytes of a name that file systems take, and of these what comes before a digest ("%~", 8 digits).
_NAME_BYTES = 255
_KEPT_BYTES = _NAME_BYTES - 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """What the footer of a Parquet file says of one row group.

    Attributes:
        num_rows: Rows in the group.
        num_bytes: Size of all its columns, encoded but not compressed.
    """

    num_rows: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A run of rows of one input file: the unit of work, of retry and of resume.

    Attributes:
        path: Where the file lies, for fsspec.
        input_name: Path below the common root of all inputs, safe to write below any folder.
        file_rows: Rows of the whole file.
        file_size: Size of the file in bytes when it was planned.
        file_version: Modification time, etag or the like when it was planned, or "".
        first_row_group: First row group that holds rows of the split.
        row_group_stop: One past the last such row group.
        row_offset: Position of the first row, counted in the file.
        num_rows: Rows of the split. 0 only for a file without rows.
        skip_rows: Rows to pass over, counted from the start of `first_row_group`.
        timestamp_unit: Unit in which the INT96 timestamps of the file are exact.
        utc_times: Whether the file's times of day are marked as of UTC.
    """

    path: str
    input_name: str
    file_rows: int
    file_size: int
    file_version: str
    first_row_group: int
    row_group_stop: int
    row_offset: int
    num_rows: int
    skip_rows: int
    timestamp_unit: str = "us"
    utc_times: bool = False

    @property
    def part_name(self) -> str:
        """Path of the part below the output folder. Names sort in row order."""
        return part_name(self.input_name, self.row_offset)


def part_name(input_name: str, row_offset: int) -> str:
    """Name the part that starts at a row of an input. Twelve digits keep names in row order."""
    return f"{input_name}/part-{row_offset:012d}.parquet"


def note_name(part_name: str) -> str:
    """Name what is kept about a part, without a suffix: its record, its rejected rows.

    Names of inputs end in .parquet, and readers that look for that must find parts alone. A digest
    replaces the input's name, so that notes are no deeper in the tree than the parts.
    """
    input_name, _, file = part_name.rpartition("/")
    digest = hashlib.sha256(input_name.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{digest[:32]}/{file.removesuffix('.parquet')}"


def plan_file(
    path: str,
    input_name: str,
    row_groups: Sequence[RowGroup],
    *,
    target_rows: int,
    target_bytes: int,
    file_size: int = 0,
    file_version: str = "",
    timestamp_unit: str = "us",
    utc_times: bool = False,
) -> list[Split]:
    """Cut one file into splits of at most the target size, in row order.

    Each row is in exactly one split. A file without rows gives one empty split, so that it is still
    represented by a part. A single row may exceed `target_bytes`; nothing else does.

    Cost: a split inside an oversized row group decodes that row group from its start, so n splits
    of one row group decode it about n / 2 times. Memory stays bounded all the same.

    Args:
        path: Where the file lies.
        input_name: Its name below the common root.
        row_groups: All row groups of the file, in order.
        target_rows: Most rows in a split. At least 1.
        target_bytes: Most encoded bytes in a split. At least 1.
        file_size: Size of the file in bytes.
        file_version: Modification time or etag of the file, if it has one.
        timestamp_unit: Unit in which its INT96 timestamps are exact.
        utc_times: Whether its times of day are marked as of UTC.

    Raises:
        ConfigError: If a target is below 1.
    """
    if target_rows < 1 or target_bytes < 1:
        raise ConfigError(
            f"the target size of a split is too small: got {target_rows} rows and {target_bytes} "
            "bytes; expected at least 1 of each. Raise split_rows or split_bytes."
        )
    file_rows = sum(group.num_rows for group in row_groups)
    runs = list(_runs(row_groups, target_rows, target_bytes)) or [(0, len(row_groups), 0, 0)]
    splits: list[Split] = []
    row_offset = 0
    for first, stop, skip, rows in runs:
        splits.append(
            Split(
                path=path,
                input_name=input_name,
                file_rows=file_rows,
                file_size=file_size,
                file_version=file_version,
                first_row_group=first,
                row_group_stop=stop,
                row_offset=row_offset,
                num_rows=rows,
                skip_rows=skip,
                timestamp_unit=timestamp_unit,
                utc_times=utc_times,
            )
        )
        row_offset += rows
    return splits


def _runs(
    row_groups: Sequence[RowGroup], target_rows: int, target_bytes: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first row group, row group stop, rows to skip, rows) of each split."""
    first = stop = rows = size = 0
    for index, group in enumerate(row_groups):
        if group.num_rows == 0:
            continue
        if rows and (rows + group.num_rows > target_rows or size + group.num_bytes > target_bytes):
            yield first, stop, 0, rows
            rows = size = 0
        if group.num_rows > target_rows or group.num_bytes > target_bytes:
            yield from _cut(index, group, target_rows, target_bytes)
            continue
        if not rows:
            first = index
        stop, rows, size = index + 1, rows + group.num_rows, size + group.num_bytes
    if rows:
        yield first, stop, 0, rows


def _cut(
    index: int, group: RowGroup, target_rows: int, target_bytes: int
) -> Iterator[tuple[int, int, int, int]]:
    """Cut an oversized row group into the fewest runs of (nearly) equal length that fit."""
    wanted = max(math.ceil(group.num_rows / target_rows), math.ceil(group.num_bytes / target_bytes))
    pieces = min(wanted, group.num_rows)
    bounds = [piece * group.num_rows // pieces for piece in range(pieces + 1)]
    for start, end in itertools.pairwise(bounds):
        yield index, index + 1, start, end - start


def common_root(paths: Sequence[str]) -> str:
    """Return the deepest folder that holds all files, with its scheme.

    The answer is "" if the files lie on different file systems, or if there are none.
    """
    folders = [_components(path)[:-1] for path in paths]
    return _shared_folder(folders)


def common_folder(folders: Sequence[str]) -> str:
    """Return the deepest folder that is each of the given ones or holds it, with its scheme."""
    return _shared_folder([_components(folder.rstrip("/") or folder) for folder in folders])


def input_names(paths: Sequence[str], root: str | None = None) -> dict[str, str]:
    """Name each input by its path below the common root.

    A name is unique, relative and safe to append to an output folder: no component is empty, "."
    or "..", none starts with "_" or "." (readers skip those), none holds a backslash, a colon or a
    control character. What stands in the way is percent-encoded, and so is "%" itself; an empty
    component becomes a bare "%". `urllib.parse.unquote` undoes it, except for a name that would
    grow beyond 255 bytes: the end of that is replaced by a digest. Spaces, other punctuation and
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
    root = common_root(paths) if root is None else root
    base = _components(root) if root else ()
    names = {path: _name_below(base, path) for path in paths}
    count = Counter(names.values())
    names = {
        path: name if count[name] == 1 else f"{name}%~{_digest(_public(path))}"
        for path, name in names.items()
    }
    count = Counter(names.values())
    number: Counter[str] = Counter()
    for path in sorted(path for path, name in names.items() if count[name] > 1):
        number[names[path]] += 1
        names[path] += f"~{number[names[path]]}"
    return names


def _public(path: str) -> str:
    """Return a path without the user info of a URL, for a digest that gives nothing away."""
    scheme, separator, rest = path.partition("://")
    host, slash, below = rest.partition("/")
    return f"{scheme}://{without_user_info(host)}{slash}{below}" if separator else path


def _name_below(base: tuple[str, ...], path: str) -> str:
    """Return the escaped path below a root, or the whole path if it is not below."""
    parts = _components(path)
    inside = bool(base) and parts[: len(base)] == base and len(parts) > len(base)
    below = parts[len(base) :] if inside else (parts[0] or "local", *parts[1:])
    return "/".join(_escape(part) for part in below)


def _components(path: str) -> tuple[str, ...]:
    """Split a path into its scheme ("" for a local one) and the names on the way down.

    The user and password of a URL are left out.
    """
    scheme, separator, rest = path.partition("://")
    if not separator:
        scheme, rest = "", path
    else:
        host, slash, below = rest.partition("/")
        rest = without_user_info(host) + slash + below
    if scheme in {"http", "https"}:
        rest = rest.partition("?")[0]
    rest = rest.removeprefix("/")
    return (scheme, *rest.split("/")) if rest else (scheme,)


def _shared_folder(folders: Sequence[tuple[str, ...]]) -> str:
    """Return the longest common beginning as a path."""
    if not folders:
        return ""
    low, high = min(folders), max(folders)
    same = [left == right for left, right in zip(low, high, strict=False)]
    length = same.index(False) if False in same else len(same)
    if length == 0:
        return ""
    scheme, *names = low[:length]
    return f"{scheme}://{'/'.join(names)}" if scheme else "/" + "/".join(names)


def _escape(component: str) -> str:
    """Percent-encode what a component of an output path must not hold."""
    if not component:
        return "%"
    safe = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", component)
    if safe.startswith(HIDDEN_PREFIXES):
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    encoded = safe.encode("utf-8", "surrogateescape")
    if len(encoded) <= _NAME_BYTES:
        return safe
    return f"{encoded[:_KEPT_BYTES].decode('utf-8', 'ignore')}%~{_digest(component)}"


def _digest(path: str) -> str:
    """Return eight hex digits of a path."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
