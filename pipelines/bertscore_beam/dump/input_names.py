"""Name input files by their path below a common root, safely enough to build output paths."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from bertscore_beam.files.credentials import without_user_info
from bertscore_beam.files.folders import HIDDEN_PREFIXES

# Always escaped: our own escape character, the backslash, the colon (Hadoop refuses it, and "::"
# chains fsspec URLs) and control characters.
_UNSAFE = re.compile(r"[%\\:\x00-\x1f\x7f]")
# Longest name in bytes that file systems accept, and how much of it comes before a digest ("%~" and
# 8 digits).
_NAME_BYTES = 255
_KEPT_BYTES = _NAME_BYTES - 10


def common_root(paths: Sequence[str]) -> str:
    """Return the deepest folder that holds all files, with its scheme.

    The answer is "" if the files are on different file systems, or if there are none.
    """
    folders = [_components(path)[:-1] for path in paths]
    return _shared_folder(folders)


def common_folder(folders: Sequence[str]) -> str:
    """Return the deepest folder that holds all given folders or is one of them, with its scheme."""
    return _shared_folder([_components(folder.rstrip("/") or folder) for folder in folders])


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
    """Return a path without the user info of a URL, so that a digest of it reveals no secret."""
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
