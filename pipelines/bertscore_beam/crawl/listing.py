"""List the files of a crawl, or those that the user names, in an order that makes a sample.

A file has a path, which says where it is, and a name, which says which file of the crawl it is.
Hashes, records and resumed runs use names, so a file has the same name whether it is fetched over
HTTPS, from S3 or from a copy on a disk.
"""

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertscore_beam.crawl.errors import CrawlFileError
from bertscore_beam.crawl.fetch import FetchError, FetchPolicy, fetched
from bertscore_beam.dump.input_names import input_names
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import absolute, with_scheme
from bertscore_beam.files.search import Trouble, search
from bertscore_core.errors import ConfigError, InputError

ROOT = "https://data.commoncrawl.org/"
"""Where Common Crawl's files can be fetched without an account."""
FIRST_SOUND_CRAWL = (2016, 50)
"""Before it, Common Crawl misread the character sets of many pages, and their text is garbled."""
MAX_LISTING_BYTES = 256 << 20
"""A listing of 100,000 files is 14 MB; one that unpacks to more is damaged or malicious."""

WET_SUFFIXES = (".wet.gz", ".wet")
"""Suffixes of WET files, as Common Crawl publishes them and unpacked."""

_CRAWL = re.compile(r"CC-MAIN-(20\d\d)-([0-5]\d)")
_NAME = re.compile(r"crawl-data/(?:[\w+=-][\w+=.-]*/)*[\w+=-][\w+=.-]*", re.ASCII)
_CRAWL_DATA = "/crawl-data/CC-MAIN-"
_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files to sample from.

    Attributes:
        source: The crawl, or the patterns that were searched for, without credentials.
        names: Name of each file, the same on every machine, sorted, each once. Shape (N,).
        paths: Path of each file, aligned with `names`. Shape (N,).
        digest: SHA-256 over the names, in hex.
    """

    source: str
    names: tuple[str, ...]
    paths: tuple[str, ...]
    digest: str

    def in_seeded_order(self, seed: int) -> list[str]:
        """Return the names as `seeded_order` does."""
        return seeded_order(self.names, seed)


def list_crawl(crawl: str, policy: FetchPolicy, root: str = ROOT) -> Listing:
    """List the WET files of a crawl, as Common Crawl publishes them.

    Args:
        crawl: Its id, such as CC-MAIN-2026-30.
        policy: How to fetch the list.
        root: Where `crawl-data/` is: a URL, `s3://commoncrawl/` or a folder.

    Raises:
        ConfigError: The id has another form, is of a crawl with garbled texts, or there is no such
            crawl.
        FetchError: The list cannot be fetched.
        CrawlFileError: The list is damaged or empty.
    """
    _check_crawl(crawl)
    base = (root if root.lower().startswith(_WEB) else absolute(root)).rstrip("/") + "/"
    path = f"{base}crawl-data/{crawl}/wet.paths.gz"
    try:
        with fetched(path, policy) as listing:
            names = _read_names(listing.file, crawl)
    except FetchError as error:
        if not error.missing:
            raise
        raise ConfigError(
            f"no such crawl: got {crawl!r}, and there is no file {mask_credentials(path)!r}; "
            "expected a crawl with WET files. Common Crawl lists its crawls on "
            "https://commoncrawl.org/get-started; if you read from a copy, check its root."
        ) from error
    return _listing(crawl, {name: base + name for name in names})


def list_files_of(patterns: Sequence[str], *, suffixes: tuple[str, ...] = WET_SUFFIXES) -> Listing:
    """List the files that paths, globs, folders and URLs stand for.

    An existing file is taken literally even if its name holds glob characters. A folder stands for
    all files below it whose names end in one of the suffixes. Names that start with "_" or "." are
    skipped by folders and globs. A URL is one file; the server is not asked for it here.

    Files below a `crawl-data/CC-MAIN-...` folder are named from there, as the crawl's own list
    does. Others are named from the deepest folder that contains all of them.

    Args:
        patterns: What to look for.
        suffixes: Suffixes of the files that a folder stands for, each with its dot.

    Raises:
        InputError: A pattern matches nothing, or a web address holds a `*`.
        OSError: A folder cannot be listed now, so its files are unknown.
        ConfigError: The scheme of a path is not known.
    """
    paths = sorted({path for pattern in patterns for path in _expand(pattern, suffixes)})
    if not paths:
        raise InputError(
            "no input: got no path at all; expected at least one file, glob or address."
        )
    return _listing(mask_credentials(", ".join(patterns)), _name_paths(paths))


def seeded_order(names: Sequence[str], seed: int) -> list[str]:
    """Return the names in an order that depends only on the seed and the names.

    The first n names are a uniform random sample of all. The list of Common Crawl is grouped by
    segments, so its own first n files would not be one.
    """
    return sorted(names, key=lambda name: (_priority(name, seed), name))


def _priority(name: str, seed: int) -> bytes:
    """Return what a name is sorted by."""
    return hashlib.blake2b(f"{seed}\0{name}".encode("utf-8", "surrogateescape")).digest()


def _check_crawl(crawl: str) -> None:
    """Check the id of a crawl.

    Raises:
        ConfigError: It has another form, or the crawl's texts are garbled.
    """
    match = _CRAWL.fullmatch(crawl)
    if match is None:
        raise ConfigError(
            f"not the id of a crawl: got {crawl!r}; expected CC-MAIN- with year and week, such as "
            "CC-MAIN-2026-30. Common Crawl lists its crawls on https://commoncrawl.org/get-started."
        )
    if (int(match[1]), int(match[2])) < FIRST_SOUND_CRAWL:
        raise ConfigError(
            f"the texts of crawl {crawl!r} are garbled: until CC-MAIN-2016-44 Common Crawl misread "
            "the character sets of many pages; expected CC-MAIN-2016-50 or later. Choose a newer "
            "crawl."
        )


def _read_names(file: Path, crawl: str) -> list[str]:
    """Return the names in a list of WET files.

    Raises:
        CrawlFileError: The list is damaged, empty, or holds something else.
    """
    try:
        with gzip.open(file) as listing:
            content = listing.read(MAX_LISTING_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CrawlFileError(
            f"the list of WET files of {crawl} is damaged: got {error}; expected a whole gzip "
            "file. Fetch it again.",
            "corrupt",
        ) from error
    names = content.decode("utf-8", "replace").split()
    if not names:
        raise CrawlFileError(
            f"the list of WET files of {crawl} is empty; expected one name a line. Choose another "
            "crawl, or look again when this one is complete.",
            "empty",
        )
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong or len(content) > MAX_LISTING_BYTES:
        raise CrawlFileError(
            f"the list of WET files of {crawl} holds something else: {len(wrong)} of {len(names)} "
            "lines are no path below crawl-data/; expected one a line and at most "
            f"{MAX_LISTING_BYTES} bytes. Fetch it again.",
            "corrupt",
        )
    return names


def _listing(source: str, paths: dict[str, str]) -> Listing:
    """Put a listing together from the path of each name."""
    names = tuple(sorted(paths))
    content = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    return Listing(
        source=source,
        names=names,
        paths=tuple(paths[name] for name in names),
        digest=hashlib.sha256(content).hexdigest(),
    )


def _name_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the path of each name. Names do not depend on where a copy is."""
    if all(_CRAWL_DATA in path for path in paths):
        # The last match: a copy may be below a folder of any name.
        below = {path[path.rindex(_CRAWL_DATA) + 1 :].partition("?")[0]: path for path in paths}
        # Such as "..", which would lead out of the output folder.
        if len(below) == len(paths) and all(map(_NAME.fullmatch, below)):
            return below
    return {name: path for path, name in input_names(paths).items()}


def _expand(pattern: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that a pattern, folder, path or address stands for.

    Raises:
        InputError: There is none.
        OSError: A folder cannot be listed now.
    """
    if pattern.lower().startswith(_WEB):
        if "*" in pattern:
            raise InputError(
                f"no pattern can be used on the web: got {mask_credentials(pattern)!r}; expected "
                "the address of one file. Give each address, or the crawl's id instead."
            )
        return [pattern]
    result = search(pattern, suffixes)
    lost = [found for found in result.found if found.trouble is Trouble.UNLISTED]
    if lost:
        raise OSError(
            f"{len(lost)} places of {mask_credentials(pattern)!r} cannot be examined, such as "
            f"{mask_credentials(lost[0].path)!r}: {mask_credentials(lost[0].message)}"
        )
    if not result.found:
        raise InputError(
            f"no input: {result.nothing(pattern, suffixes)}; expected a file, a glob "
            f"such as 'folder/**/*{suffixes[0]}', or a folder with files below it that end in "
            f"{' or '.join(suffixes)}. Check the path, and quote the glob for the shell."
        )
    return [with_scheme(result.fs, found.path) for found in result.found]
