"""Names of input files: their path below a common root, safe enough to build output paths."""

import os
import re
from collections import Counter
from collections.abc import Sequence

from bertscore_beam.files.checked import digest_of
from bertscore_beam.files.listing import HIDDEN_PREFIXES
from bertscore_beam.files.paths import without_query

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
        path: name if count[name] == 1 else f"{name}%~{digest_of(''.join(split_scheme(path)), 8)}"
        for path, name in names.items()
    }
    count = Counter(names.values())
    number: Counter[str] = Counter()
    for path in sorted(path for path, name in names.items() if count[name] > 1):
        number[names[path]] += 1
        names[path] += f"~{number[names[path]]}"
    return names


def split_scheme(path: str) -> tuple[str, str, str]:
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
    scheme, _, rest = split_scheme(without_query(path))
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
    digest = f"%~{digest_of(whole, 8)}"
    return f"{encoded[: most_bytes - len(digest)].decode('utf-8', 'ignore')}{digest}"
