"""Options of `bertscore-beam baseline`."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from bertscore_core.errors import ConfigError
from pipelines.checks import check_at_least, check_share, check_value
from pipelines.commoncrawl.listing import ROOT
from pipelines.options import DEVICE, RunOptions, check_accelerator

DEFAULT_PAIRS = 1_000_000
"""As the paper says; the published tables come from half of it."""
DEFAULT_FIRST_FILES = 32
"""Some 2 GB: more than enough English for a million pairs, and a first measure of the others."""
DEFAULT_MAX_FILES = 1_000
"""One in a hundred of a crawl, some 65 GB."""
DEFAULT_SENTENCES_PER_PAGE = 8
DEFAULT_SENTENCES_PER_HOST = 100
DEFAULT_DOWNLOADS = 4
"""Common Crawl asks for few requests at a time."""

_SENTENCES = re.compile(r"([A-Za-z][\w-]*)=(.+)")
_LISTS = ("languages", "models")
_ABOUT_PAGES = (
    "crawl_root", "first_files", "max_files", "sentences_per_page", "sentences_per_host",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOptions(RunOptions):
    """Estimate rescaling baselines from random pairs of web sentences.

    Attributes:
        models: Models to make tables for, by hub id, local folder or registry name; separated by
            blanks or commas.
        languages: Codes of the languages, such as en de zh; separated by blanks or commas.
        crawl: Crawl to sample, as CC-MAIN-2026-30.
        crawl_root: Where crawls are: a URL or a folder with crawl-data below it.
        wet: Globs or addresses of WET files, in the place of a crawl.
        sentences: Sentences to start from in the place of a crawl, as LANGUAGE=PATH: a text file
            with a sentence a line, or Parquet with a column `text`; of a folder the files below it
            that end in .txt, .txt.gz or .parquet. Taken as they are, less blank ones and
            repetitions.
        pairs: Pairs for every language: a target, reached unless the crawl's files run out.
        seed: Number that decides which files, sentences and pairs are taken.
        first_files: Files of the crawl that are read first; how many more a language needs is
            worked out from them.
        max_files: Most files of the crawl to read.
        sentences_per_page: Most sentences of one page.
        sentences_per_host: Most sentences of one host among all files.
        downloads: Most files fetched at a time over http, by all workers together. Each is read
            before the same place fetches the next, so this bounds the work at a time as well.
        fetch_attempts: Requests for one file before it counts as failed.
        fetch_timeout: Seconds without a byte after which a request is given up.
        fetch_pause: Seconds between two requests of a worker to one host; after a failure twice as
            many, and so on.
        contact: Address or URL that is sent with each request, so that a server's owner can write.
        max_reject_fraction: Share of the files that may fail before the job stops without tables.
        dtype: Number format of the encoder's matrix products; everything else is in float32. A
            table made in bfloat16 is off by up to 2e-4, more than its standard error says.
        device: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        accelerator: GPU that a remote runner is asked for where pairs are scored, as in `score`.
        backend: What runs the encoder: `torch`, `openvino` or `auto`, as in `score`.
        max_batch_tokens: Padded tokens in one forward pass; None for a default by device.
        allow_pickle_weights: Load weights that are not safetensors, which can run code.
        beam_scoring: More options for Beam, for the pipelines that score alone: the others fetch
            and sort, and need no GPU.
    """

    models: tuple[str, ...] = field(metadata={"metavar": "NAME"})
    languages: tuple[str, ...] = field(default=(), metadata={"metavar": "CODE"})
    crawl: str | None = None
    crawl_root: str = ROOT
    wet: tuple[str, ...] = ()
    sentences: tuple[str, ...] = field(default=(), metadata={"metavar": "LANGUAGE=PATH"})
    pairs: int = DEFAULT_PAIRS
    seed: int = 0
    first_files: int = DEFAULT_FIRST_FILES
    max_files: int = DEFAULT_MAX_FILES
    sentences_per_page: int = DEFAULT_SENTENCES_PER_PAGE
    sentences_per_host: int = DEFAULT_SENTENCES_PER_HOST
    downloads: int = DEFAULT_DOWNLOADS
    fetch_attempts: int = 6
    fetch_timeout: float = 60.0
    fetch_pause: float = 1.0
    contact: str | None = None
    max_reject_fraction: float = 0.01
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = "auto"
    accelerator: str | None = None
    backend: Literal["auto", "torch", "openvino"] = "auto"
    max_batch_tokens: int | None = None
    allow_pickle_weights: bool = False
    beam_scoring: tuple[str, ...] = ()

    @property
    def for_scoring(self) -> Self:
        """The same options for the pipelines that score."""
        return dataclasses.replace(self, beam=(*self.beam, *self.beam_scoring))

    def __post_init__(self) -> None:
        """Check the combinations as well."""
        RunOptions.__post_init__(self)
        check_value(
            bool(self.models), "models", self.models, "at least one model", "Name it: --models A B."
        )
        self._check_texts("models", "languages", "crawl", "crawl_root", "wet", "contact")
        sources = [name for name in ("crawl", "wet", "sentences") if getattr(self, name)]
        if len(sources) != 1:
            raise ConfigError(
                f"the source of sentences is not settled: got {' and '.join(sources) or 'none'}; "
                "expected one of crawl, wet and sentences. Give --crawl CC-MAIN-YYYY-WW, or --wet "
                "GLOB, or --sentences LANGUAGE=PATH."
            )
        for text in self.sentences:
            check_value(
                _SENTENCES.fullmatch(text) is not None,
                "sentences",
                text,
                "LANGUAGE=PATH",
                "Write --sentences en=PATH.",
            )
        check_value(
            bool(self.languages) != bool(self.sentences),
            "languages",
            self.languages,
            "the languages of a crawl, and none with sentences, which name theirs",
            "Write --languages en de, or leave it out with --sentences.",
        )
        self._check_used()
        least = {"pairs": 1, "seed": 0, "first_files": 1, "max_files": 1, "downloads": 1}
        least |= {"sentences_per_page": 1, "sentences_per_host": 1}
        for name, value in least.items():
            check_at_least(name, getattr(self, name), value)
        check_value(
            self.seed < 2**64, "seed", self.seed, "less than 2**64", "Choose a smaller one."
        )
        if self.max_batch_tokens is not None:
            check_at_least("max_batch_tokens", self.max_batch_tokens, 1)
        check_share("max_reject_fraction", self.max_reject_fraction)
        check_value(
            DEVICE.fullmatch(self.device) is not None,
            "device",
            self.device,
            "auto, cpu, mps, cuda or cuda:N",
            "Leave it out to use a GPU when there is one.",
        )
        check_accelerator(self.accelerator)

    def _check_used(self) -> None:
        """Refuse options that would do nothing."""
        unused = _ABOUT_PAGES if self.sentences else ("crawl_root",) if self.wet else ()
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in unused:
            source = "sentences" if self.sentences else "wet"
            check_value(
                getattr(self, name) == defaults[name],
                name,
                getattr(self, name),
                f"it only without {source}, where it does nothing",
                "Leave it out.",
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str) -> Self:
        """Make options from keys and values; see `RunOptions.from_mapping`."""
        _check_no(mapping.get("languages"), source)
        return super(BaselineOptions, cls).from_mapping(
            {key: _split(value) if key in _LISTS else value for key, value in mapping.items()},
            source,
        )


def _check_no(languages: object, source: str) -> None:
    """Raise if a code is what YAML reads as false, as it does with a bare `no` for Norwegian."""
    codes = languages if isinstance(languages, list | tuple) else [languages]
    if any(code is False for code in codes):
        raise ConfigError(
            f"'languages' in {source} does not fit: got false, which is how YAML reads a bare no; "
            'expected codes. Put Norwegian in quotes: "no".'
        )


def _split(value: object) -> object:
    """Split texts with commas in them."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return value
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
