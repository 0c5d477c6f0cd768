"""The source of the sentences: a crawl, WET files, or sentences that are given."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

from bertscore_beam.baseline.records import digest_of
from bertscore_beam.crawl.fetch import FetchError, FetchPolicy
from bertscore_beam.crawl.given import SUFFIXES, check_given
from bertscore_beam.crawl.languages import check_language, check_tag
from bertscore_beam.crawl.listing import Listing, list_crawl, list_files_of
from bertscore_beam.crawl.sentences import PageRules
from bertscore_beam.dump.inputs import file_version
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import IO_THREADS
from bertscore_beam.files.reach import reaching
from bertscore_beam.options.baseline import BaselineOptions
from bertscore_core import InputError

_HTTP = re.compile(r"https?://")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files of one language, in the order in which they are read.

    Attributes:
        names: Names, the first to read first.
        paths: Where each is, by name.
        digest: Of all names, and of the versions where files may change.
        at_once: Whether all are read, however many sentences they give, as for given sentences.
    """

    names: tuple[str, ...]
    paths: Mapping[str, str]
    digest: str
    at_once: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of the sentences.

    Attributes:
        options: What was asked for.
        languages: Languages that sentences are wanted of.
        policy: How files are fetched.
        rules: Which sentences of a page are kept.
    """

    options: BaselineOptions
    languages: tuple[str, ...]
    policy: FetchPolicy
    rules: PageRules

    @classmethod
    def of(cls, options: BaselineOptions) -> "Source":
        """Read the source from the options; no file is looked at.

        Raises:
            ConfigError: A language is not known, or the contact cannot be sent.
        """
        languages = dict.fromkeys([*map(check_language, options.languages), *_given_paths(options)])
        contact = options.contact
        policy = FetchPolicy() if contact is None else FetchPolicy.of_contact(contact)
        return cls(
            options=options,
            languages=tuple(languages),
            rules=PageRules(words=options.words),
            policy=replace(
                policy,
                attempts=options.fetch_attempts,
                timeout=options.fetch_timeout,
                pause=options.fetch_pause,
            ),
        )

    @property
    def is_crawl(self) -> bool:
        """Whether it is a crawl, whose files never change."""
        return self.options.crawl is not None

    @property
    def is_given(self) -> bool:
        """Whether the files hold sentences and not pages."""
        return bool(self.options.sentences)

    @property
    def cure(self) -> str:
        """What gives more sentences."""
        if self.is_crawl:
            return "More --max-files, another crawl or more --sentences-per-host give more."
        if self.is_given:
            return "More sentences give more; fewer --pairs need fewer."
        return "More files for --wet or more --sentences-per-host give more."

    @property
    def shown(self) -> str:
        """Its name without credentials."""
        options = self.options
        if options.crawl is not None:
            return options.crawl
        return ", ".join(mask_credentials(text) for text in (*options.wet, *options.sentences))

    def files(self) -> dict[str, SourceFiles]:
        """List the files of every language; a crawl's are the same for all.

        Raises:
            ConfigError: There are none.
            FetchError: The listing cannot be fetched, now or later.
            OSError: The listing cannot be fetched now.
        """
        options = self.options
        if self.is_given:
            given = _given_paths(options)
            with reaching("sentences", *chain.from_iterable(given.values())):
                return {
                    code: self._in_order(list_files_of(paths, suffixes=SUFFIXES))
                    for code, paths in given.items()
                }
        if options.crawl is not None:
            with reaching("crawl_root", options.crawl_root):
                listing = self._list_crawl(options.crawl)
        else:
            with reaching("wet", *options.wet):
                listing = list_files_of(options.wet)
        return dict.fromkeys(self.languages, self._in_order(listing))

    def check(self) -> None:
        """Check the paths of files, and the columns of given Parquet files; a crawl is not listed.

        Raises:
            InputError: A file is not there, or a Parquet file has no column of texts.
        """
        if self.is_crawl:
            return
        paths = {path for files in self.files().values() for path in files.paths.values()}
        if not self.is_given:
            return
        with ThreadPoolExecutor(IO_THREADS) as pool:
            list(pool.map(check_given, sorted(path for path in paths if not _HTTP.match(path))))

    def _list_crawl(self, crawl: str) -> Listing:
        try:
            return list_crawl(crawl, self.policy, self.options.crawl_root)
        except FetchError as error:
            if error.permanent:
                raise
            # A server that does not answer is not the command's fault: later it may work.
            raise ConnectionError(f"the list of files cannot be fetched now: {error}") from error

    def _in_order(self, listing: Listing) -> SourceFiles:
        return SourceFiles(
            names=tuple(listing.in_seeded_order(self.options.seed)),
            paths=dict(zip(listing.names, listing.paths, strict=True)),
            digest=listing.digest[:16] if self.is_crawl else _digest_with_versions(listing),
            at_once=self.is_given,
        )


def _given_paths(options: BaselineOptions) -> dict[str, tuple[str, ...]]:
    """Return the paths of given sentences by language."""
    paths: dict[str, tuple[str, ...]] = {}
    for text in options.sentences:
        code, _, path = text.partition("=")
        language = check_tag(code)
        paths[language] = (*paths.get(language, ()), path)
    return paths


def _digest_with_versions(listing: Listing) -> str:
    """Digest a listing with the version of every file, since it may change between two runs."""
    with ThreadPoolExecutor(IO_THREADS) as pool:
        versions = pool.map(_version, listing.paths)
        return digest_of(
            "\n".join(f"{n} {v}" for n, v in zip(listing.names, versions, strict=True))
        )


def _version(path: str) -> str:
    """Return what tells a version of a file from another; "" for one of the web.

    Raises:
        InputError: It is not there.
    """
    try:
        return "" if _HTTP.match(path) else file_version(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{mask_credentials(path)!r} cannot be opened: got a name without a file, such as a "
            "link that leads nowhere; expected a file. Repair the link, or remove it."
        ) from error
