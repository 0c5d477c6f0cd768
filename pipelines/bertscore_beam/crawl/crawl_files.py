"""List the files of a crawl, or those that the user names, and read given sentences."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from bertscore_beam.crawl.fetch import CrawlFileError, FetchError, FetchPolicy, fetched
from bertscore_beam.dump.input_names import input_names
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.find import Trouble, search
from bertscore_beam.files.paths import absolute
from bertscore_beam.files.reach import is_web
from bertscore_core.errors import ConfigError, InputError

# List the files of a crawl, or those that the user names, in an order that makes a sample.
#
# A file has a path, which says where it is, and a name, which says which file of the crawl it is.
# Hashes, records and resumed runs use names, so a file has the same name whether it is fetched over
# HTTPS, from S3 or from a copy on a disk.

_FIRST_SOUND_CRAWL = (2016, 50)
"""Before it, Common Crawl misread the character sets of many pages, and their text is garbled."""
MAX_LISTING_BYTES = 256 << 20
"""A listing of 100,000 files is 14 MB; one that unpacks to more is damaged or malicious."""

_WET_SUFFIXES = (".wet.gz", ".wet")
"""Suffixes of WET files, as Common Crawl publishes them and unpacked."""

_CRAWL = re.compile(r"CC-MAIN-(20\d\d)-([0-5]\d)")
_NAME = re.compile(r"crawl-data/(?:[\w+=-][\w+=.-]*/)*[\w+=-][\w+=.-]*", re.ASCII)
_CRAWL_DATA = "/crawl-data/CC-MAIN-"


def list_crawl(crawl: str, policy: FetchPolicy, root: str) -> dict[str, str]:
    """Return the path of each WET file of a crawl by name, sorted, as Common Crawl publishes them.

    `root` is where `crawl-data/` is: a URL, `s3://commoncrawl/` or a folder.

    Raises:
        ConfigError: The id has another form, is of a crawl with garbled texts, or there is no such
            crawl.
        FetchError: The list cannot be fetched.
        CrawlFileError: The list is damaged or empty.
    """
    _check_crawl(crawl)
    base = (root if is_web(root) else absolute(root)).rstrip("/") + "/"
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
    return {name: base + name for name in sorted(set(names))}


def list_files_of(
    patterns: Sequence[str], *, suffixes: tuple[str, ...] = _WET_SUFFIXES
) -> dict[str, str]:
    """Return the path of each file that paths, globs, folders and URLs stand for by name, sorted.

    An existing file is taken literally even if its name holds glob characters. A folder stands for
    all files below it whose names end in one of the suffixes. Names that start with "_" or "." are
    skipped by folders and globs. A URL is one file; the server is not asked for it here.

    Files below a `crawl-data/CC-MAIN-...` folder are named from there, as the crawl's own list
    does. Others are named from the deepest folder that contains all of them.

    Raises:
        InputError: A pattern matches nothing, or a web address holds a `*`.
        OSError: A folder cannot be listed now, so its files are unknown.
        ConfigError: The scheme of a path is not known.
    """
    paths = sorted({path for pattern in patterns for path in _expand(pattern, suffixes)})
    return dict(sorted(_name_paths(paths).items()))


def seeded_order(names: Sequence[str], seed: int) -> list[str]:
    """Return the names in an order that depends only on the seed and the names.

    The first n names are a uniform random sample of all. The list of Common Crawl is grouped by
    segments, so its own first n files would not be one.
    """

    def priority(name: str) -> tuple[bytes, str]:
        return hashlib.blake2b(f"{seed}\0{name}".encode("utf-8", "surrogateescape")).digest(), name

    return sorted(names, key=priority)


def _check_crawl(crawl: str) -> None:
    match = _CRAWL.fullmatch(crawl)
    if match is None:
        raise ConfigError(
            f"not the id of a crawl: got {crawl!r}; expected CC-MAIN- with year and week, such as "
            "CC-MAIN-2026-30. Common Crawl lists its crawls on https://commoncrawl.org/get-started."
        )
    if (int(match[1]), int(match[2])) < _FIRST_SOUND_CRAWL:
        raise ConfigError(
            f"the texts of crawl {crawl!r} are garbled: until CC-MAIN-2016-44 Common Crawl misread "
            "the character sets of many pages; expected CC-MAIN-2016-50 or later. Choose a newer "
            "crawl."
        )


def _read_names(file: Path, crawl: str) -> list[str]:
    try:
        with gzip.open(file) as listing:
            content = listing.read(MAX_LISTING_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _list_error(crawl, f"is damaged: got {error}") from error
    names = content.decode("utf-8", "replace").split()
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong or len(content) > MAX_LISTING_BYTES:
        raise _list_error(crawl, f"holds something else in {len(wrong)} of {len(names)} lines")
    if not names:
        raise _list_error(crawl, "is empty")
    return names


def _list_error(crawl: str, problem: str) -> CrawlFileError:
    return CrawlFileError(
        f"the list of WET files of {crawl} {problem}; expected one path below crawl-data/ a line, "
        f"gzipped, at most {MAX_LISTING_BYTES} bytes. Fetch it again, look again when this crawl "
        "is complete, or choose another."
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
    if is_web(pattern):
        if "*" in pattern:
            raise InputError(
                f"no pattern can be used on the web: got {mask_credentials(pattern)!r}; expected "
                "the address of one file. Give each address, or the crawl's id instead."
            )
        return [pattern]
    result = search(pattern, suffixes)
    lost = [place for place in result.found if place.trouble is Trouble.UNLISTED]
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
    return [place.path for place in result.found]
