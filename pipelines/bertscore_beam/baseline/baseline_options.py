"""Options of `bertscore-beam baseline`."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from bertscore_beam.crawl.crawl_files import list_files_of
from bertscore_beam.crawl.fetch import FetchPolicy
from bertscore_beam.crawl.filters import PAGE_WORDS, WordLimits
from bertscore_beam.crawl.given_files import SUFFIXES
from bertscore_beam.crawl.languages import check_installed
from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import is_missing
from bertscore_beam.options.declare import Flag, Names, Share
from bertscore_beam.options.row_options import EncoderOptions
from bertscore_beam.options.run_options import Output, RunOptions
from bertscore_beam.options.values import check_value
from bertscore_core.errors import ConfigError

_SOURCES = ("crawl", "wet", "documents", "sentences")
_SENTENCES = re.compile(r"([A-Za-z][\w-]*)=(.+)")
_OF_PAGES = ("first_files", "max_files", "sentences_per_page", "sentences_per_host")
_ABOUT_PAGES = ("crawl_root", *_OF_PAGES)


@dataclass(frozen=True, kw_only=True)
class BaselineOptions(EncoderOptions, RunOptions):
    """Estimate rescaling baselines from random pairs of web sentences."""

    example = "bertscore-beam baseline --languages en de --crawl CC-MAIN-2026-30 --output baselines"
    daily: ClassVar = {
        "sentences": "languages crawl wet documents sentences pairs",
        "tables": "models output idf overwrite",
        "where it runs": "device workers dry_run contact",
    }

    output: Output[str]
    models: Annotated[
        Names,
        "Models to make tables for, by hub id, local folder or registry name; separated by spaces "
        "or commas. By default each language gets a table for the model that `score` takes for it.",
    ] = ()
    languages: Annotated[
        tuple[str, ...],
        Flag(metavar="CODE", split=True),
        "Codes of the languages, such as en de zh; separated by spaces or commas.",
    ] = ()
    crawl: Annotated[str | None, "Crawl to sample, such as CC-MAIN-2026-30."] = None
    # files can be fetched without an account
    crawl_root: Annotated[str, "Where crawls are: a URL or a folder with crawl-data below it."] = (
        "https://data.commoncrawl.org/"
    )
    wet: Annotated[tuple[str, ...], "Globs or URLs of WET files to use instead of a crawl."] = ()
    sentences: Annotated[
        tuple[str, ...],
        Flag(metavar="LANGUAGE=PATH"),
        "Sentences to use instead of a crawl, as LANGUAGE=PATH. PATH is a text file with one "
        "sentence a line, a Parquet file with a column `text`, or a folder, where files that end "
        "in .txt, .txt.gz or .parquet are used. Only blank and repeated sentences are left out, "
        "and those of other lengths than `min_words` and `max_words` say.",
    ] = ()
    documents: Annotated[
        tuple[str, ...],
        Flag(metavar="LANGUAGE=PATH"),
        "Pages of another collection to use instead of a crawl, as LANGUAGE=PATH: Parquet or JSON "
        "lines (.jsonl, also .gz or .zst) with columns `text` and `url`, such as files of "
        "FineWeb-2, HPLT and CulturaX. They are treated as pages of a crawl are.",
    ] = ()
    min_words: Annotated[
        int | None,
        Flag(least=1),
        "Fewest words of a sentence; by default 4 for web pages, and no limit for sentences that "
        "you give. In languages without spaces between words, such as Chinese, Japanese and Thai, "
        "three characters count as a word.",
    ] = None
    max_words: Annotated[
        int | None,
        Flag(least=1),
        "Most words of a sentence; by default 31 for web pages, as in the published tables, and no "
        "limit for sentences that you give.",
    ] = None
    # the number in the paper; the published tables come from half of it
    pairs: Annotated[
        int,
        Flag(least=1),
        "Number of pairs for every language; fewer if the files of the crawl do not give as many.",
    ] = 1_000_000
    idf: Annotated[
        bool,
        "Make tables for scores with idf weights: the sentences of the pairs are counted, and "
        "their tokens weighed with that.",
    ] = False
    seed: Annotated[
        int, Flag(least=0), "Number that decides which files, sentences and pairs are sampled."
    ] = 0
    # About 2 GB: more than enough English for a million pairs, and a first measure of the others.
    first_files: Annotated[
        int,
        Flag(least=1),
        "Number of files of the crawl to read first; they show how many more a language needs.",
    ] = 32
    # one file in a hundred of a crawl, about 65 GB
    max_files: Annotated[int, Flag(least=1), "Most files of the crawl to read."] = 1_000
    sentences_per_page: Annotated[int, Flag(least=1), "Most sentences to take from one page."] = 8
    # Sentences of a host resemble each other: more of them add less than they add to the error.
    sentences_per_host: Annotated[
        int,
        Flag(least=1),
        "Most sentences to take from one host, over all files. Sentences of one host resemble each "
        "other, so that many of them make a table less exact than their number says.",
    ] = 10
    # Common Crawl asks for few requests at a time
    downloads: Annotated[
        int,
        Flag(least=1),
        "Most files to fetch over http at the same time, by all workers together. A file is read "
        "by the worker that fetched it, so more workers than this have nothing to read.",
    ] = 4
    fetch_attempts: Annotated[int, "Number of requests for a file before it counts as failed."] = 6
    fetch_timeout: Annotated[float, "Seconds without data after which a request is given up."] = (
        60.0
    )
    fetch_pause: Annotated[
        float,
        "Seconds between two requests of a worker to one host; the pause doubles after each "
        "failure.",
    ] = 1.0
    contact: Annotated[
        str | None,
        "Mail address or URL to send with each request, so that the owner of a server can contact "
        "you.",
    ] = None
    max_reject_fraction: Annotated[
        Share,
        "Share of the files, from 0 to 1, that may fail. If more do, the job stops without tables.",
    ] = 0.01
    beam_scoring: Annotated[
        tuple[str, ...],
        Flag(metavar="OPTION"),
        "More options for Beam, only for the pipelines that score; the other pipelines fetch and "
        "sort, and need no GPU.",
    ] = ()

    @property
    def for_scoring(self) -> Self:
        """The same options for the pipelines that score."""
        return dataclasses.replace(self, beam=(*self.beam, *self.beam_scoring))

    @property
    def source(self) -> str:
        """The option that names where sentences come from."""
        return next(name for name in _SOURCES if getattr(self, name))

    @property
    def given(self) -> tuple[str, ...]:
        """Paths with a language each: of files that are of one language."""
        return (*self.sentences, *self.documents)

    @property
    def source_shown(self) -> str:
        """Name of the source, without credentials."""
        if self.crawl is not None:
            return self.crawl
        return ", ".join(mask_credentials(text) for text in (*self.wet, *self.given))

    @property
    def policy(self) -> FetchPolicy:
        """How files of the web are fetched."""
        return FetchPolicy(
            attempts=self.fetch_attempts,
            timeout=self.fetch_timeout,
            pause=self.fetch_pause,
            contact=self.contact,
        )

    @property
    def words(self) -> WordLimits:
        """How many words a sentence may have."""
        usual = WordLimits() if self.sentences else PAGE_WORDS
        return WordLimits(
            least=usual.least if self.min_words is None else self.min_words,
            most=usual.most if self.max_words is None else self.max_words,
        )

    def __post_init__(self) -> None:
        """Check combinations of options as well."""
        super().__post_init__()
        self._check_sources()
        _ = self.policy  # refused here if it cannot be followed
        least, most = self.words.least, self.words.most
        check_value(
            "max_words",
            most,
            fine=least is None or most is None or least <= most,
            expected=f"at least --min-words, which is {least}",
            cure="Choose a larger one, or lower --min-words.",
        )
        self._check("seed", self.seed < 2**64, "less than 2**64", "Choose a smaller one.")

    def _check_sources(self) -> None:
        sources = [name for name in _SOURCES if getattr(self, name)]
        if len(sources) != 1:
            raise ConfigError(
                f"sentences need exactly one source: got {' and '.join(sources) or 'none'}; "
                f"expected one of {', '.join(_SOURCES)}. Give --crawl CC-MAIN-YYYY-WW, --wet GLOB, "
                "--documents LANGUAGE=PATH or --sentences LANGUAGE=PATH."
            )
        for text in self.given:
            check_value(
                self.source,
                text,
                fine=_SENTENCES.fullmatch(text) is not None,
                expected="LANGUAGE=PATH",
                cure=f"Write --{self.source} en=PATH.",
            )
        self._check(
            "languages",
            bool(self.languages) != bool(self.given),
            "the languages to take from a crawl, and none where each path has its own",
            "Write --languages en de, or leave it out with --sentences and --documents.",
        )
        without_effect = f"it only without --{self.source}, where it has no effect"
        for name in _ABOUT_PAGES if self.sentences else () if self.crawl else ("crawl_root",):
            is_default = getattr(self, name) == getattr(BaselineOptions, name)
            self._check(name, is_default, without_effect, "Leave it out.")

    def check_input(self) -> None:
        """Check paths of sentences."""
        paths = [given.partition("=")[2] for given in self.sentences]
        list_files_of([path for path in paths if is_missing(path)], suffixes=SUFFIXES)

    def check_packages(self) -> None:
        """Check for those that read pages, if pages are read."""
        check_installed(pages=not self.sentences)
