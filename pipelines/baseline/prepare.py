"""Check what a baseline job is told, before anything is read or any model is loaded."""

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from bertscore_core import ConfigError, InputError, ScorerConfig, Settings, Signature, settle
from bertscore_core.baseline import baseline_path
from bertscore_core.encoder import resolve_device
from pipelines.baseline.options import BaselineOptions
from pipelines.commoncrawl.fetch import FetchError, FetchPolicy
from pipelines.commoncrawl.given import SUFFIXES, check_given
from pipelines.commoncrawl.languages import check_language, check_tag
from pipelines.commoncrawl.listing import Listing, list_crawl, list_files_of
from pipelines.commoncrawl.sentences import describe_filters
from pipelines.io.files import IO_THREADS, absolute, mask_credentials
from pipelines.io.inputs import file_version
from pipelines.io.reach import reaching
from pipelines.prepare import check_output
from pipelines.runners import is_local, threads_per_worker
from pipelines.scorer import worker_device

_HTTP = re.compile(r"https?://")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineModel:
    """A model that tables are made for.

    Attributes:
        name: As the table's file is called.
        config: How it scores: every layer as that layer alone would.
        settings: The same, settled against its files.
        signature: How its scores are made.
    """

    name: str
    config: ScorerConfig
    settings: Settings
    signature: Signature

    @property
    def digest(self) -> str:
        """Digest of the signature. 16 hexadecimal digits."""
        return digest_of(self.signature.format())


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineJob:
    """A baseline job, checked.

    Attributes:
        run: Identifies this run; another one each time.
        options: What was asked for.
        output: Folder of the run.
        languages: Languages that tables are made for.
        models: Models that tables are made for.
        policy: How files are fetched.
    """

    run: str
    options: BaselineOptions
    output: str
    languages: tuple[str, ...]
    models: tuple[BaselineModel, ...]
    policy: FetchPolicy

    @property
    def identity(self) -> dict[str, str]:
        """What must be equal for two runs to share an output folder; the files are held besides."""
        options = self.options
        given = bool(options.sentences)
        filters = "-" if given else json.dumps(describe_filters(), sort_keys=True)
        return {
            "command": "baseline",
            "source": options.crawl or ("sentences" if given else "wet"),
            "seed": str(options.seed),
            "sentences_per_page": "-" if given else str(options.sentences_per_page),
            "filters": filters,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The files of one language, in the order in which they are read.

    Attributes:
        names: Names, the first to read first.
        paths: Where each is, by name.
        digest: Of all names, and of the versions where files may change.
        at_once: Whether all are read whatever they give, as for given sentences.
    """

    names: tuple[str, ...]
    paths: dict[str, str]
    digest: str
    at_once: bool


def prepare_baseline(options: BaselineOptions) -> BaselineJob:
    """Check everything that can be checked without the network.

    Raises:
        BertScoreError: whatever cannot work.
    """
    languages = dict.fromkeys([*map(check_language, options.languages), *_given_files(options)])
    if is_local(options):
        resolve_device(options.device)
    with reaching("output", options.output):
        output = absolute(options.output)
        check_output(options, output)
    models = tuple(_model(options, name) for name in dict.fromkeys(options.models))
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"two models would write the same table: got {', '.join(options.models)}; expected "
            "different names. Make their tables in two output folders."
        )
    policy = FetchPolicy() if options.contact is None else FetchPolicy.of_contact(options.contact)
    policy = replace(
        policy,
        attempts=options.fetch_attempts,
        timeout=options.fetch_timeout,
        pause=options.fetch_pause,
    )
    job = BaselineJob(
        run=uuid.uuid4().hex,
        options=options,
        output=output,
        languages=tuple(languages),
        models=models,
        policy=policy,
    )
    _check_given(job)
    return job


def _check_given(job: BaselineJob) -> None:
    """Check what can be told of given files at a glance: paths, and columns of Parquet files.

    Raises:
        InputError: A file is not there, or a Parquet file has no column of texts.
    """
    if is_crawl(job):
        return
    paths = {path for files in source_files(job).values() for path in files.paths.values()}
    if not job.options.sentences:
        return
    with ThreadPoolExecutor(IO_THREADS) as pool:
        list(pool.map(check_given, sorted(path for path in paths if not _HTTP.match(path))))


def is_crawl(job: BaselineJob) -> bool:
    """Whether the source is a crawl, whose files never change."""
    return job.options.crawl is not None


def _model(options: BaselineOptions, name: str) -> BaselineModel:
    config = ScorerConfig(
        model=name,
        all_layers=True,
        layer_semantics="cut",
        empty="null",
        dtype=options.dtype,
        device=worker_device(options, options.device, options.accelerator, options.dtype),
        backend=_backend(options),
        max_batch_tokens=options.max_batch_tokens,
        num_threads=threads_per_worker(options),
        allow_pickle_weights=options.allow_pickle_weights,
    )
    settings = settle(config)
    table = baseline_path("xx", settings.files.name)
    return BaselineModel(
        name=table.removeprefix("xx/").removesuffix(".tsv"),
        config=replace(config, backend=settings.backend),  # the same for every worker
        settings=settings,
        signature=settings.signature(),
    )


def _backend(options: BaselineOptions) -> str:
    """Return the backend asked for; `auto` is torch where the workers' device cannot be seen."""
    far = not is_local(options) and options.device != "cpu"
    return "torch" if far and options.backend == "auto" else options.backend


def source_files(job: BaselineJob) -> dict[str, SourceFiles]:
    """List the files of every language; a crawl's are the same for all.

    Raises:
        ConfigError: there are none.
        FetchError: the listing cannot be fetched, now or later.
        OSError: the listing cannot be fetched now.
    """
    options = job.options
    if options.sentences:
        given = _given_files(options)
        with reaching("sentences", *chain.from_iterable(given.values())):
            return {
                code: _source(list_files_of(paths, suffixes=SUFFIXES), job)
                for code, paths in given.items()
            }
    if options.crawl is not None:
        with reaching("crawl_root", options.crawl_root):
            listing = _list_crawl(job, options.crawl)
    else:
        with reaching("wet", *options.wet):
            listing = list_files_of(options.wet)
    return dict.fromkeys(job.languages, _source(listing, job))


def _list_crawl(job: BaselineJob, crawl: str) -> Listing:
    """List a crawl; a server that does not answer is not the command's fault."""
    try:
        return list_crawl(crawl, job.policy, job.options.crawl_root)
    except FetchError as error:
        if error.permanent:
            raise
        raise ConnectionError(f"the list of files cannot be fetched now: {error}") from error


def _given_files(options: BaselineOptions) -> dict[str, tuple[str, ...]]:
    """Return the paths of given sentences by language."""
    files: dict[str, tuple[str, ...]] = {}
    for text in options.sentences:
        code, _, path = text.partition("=")
        language = check_tag(code)
        files[language] = (*files.get(language, ()), path)
    return files


def _source(listing: Listing, job: BaselineJob) -> SourceFiles:
    """Put a listing in the order in which it is read."""
    return SourceFiles(
        names=tuple(listing.in_seeded_order(job.options.seed)),
        paths=dict(zip(listing.names, listing.paths, strict=True)),
        digest=_digest_files(listing, versions=job.options.crawl is None),
        at_once=bool(job.options.sentences),
    )


def _digest_files(listing: Listing, *, versions: bool) -> str:
    """Digest a listing, with the version of every file where it may change between two runs."""
    if not versions:
        return listing.digest[:16]
    with ThreadPoolExecutor(IO_THREADS) as pool:
        found = pool.map(_version, listing.paths)
        return digest_of("\n".join(f"{n} {v}" for n, v in zip(listing.names, found, strict=True)))


def _version(path: str) -> str:
    """Return what tells a version of a file from another; nothing is asked of the web here.

    Raises:
        InputError: It is not there.
    """
    try:
        return "" if _HTTP.match(path) else file_version(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{mask_credentials(path)!r} cannot be opened: got a name without a file, such as a "
            "link that leads nowhere; expected a file. Mend the link, or remove it."
        ) from error


def lanes(job: BaselineJob, files: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Deal files out to lanes, in each of which one is read after the other.

    Over http there are as many lanes as files may be fetched at a time; elsewhere each file is a
    lane.
    """
    count = len(files)
    if any(_HTTP.match(file.path) for file in files):
        count = min(count, job.options.downloads)
    return [tuple(files[start::count]) for start in range(count)]


def digest_of(text: str) -> str:
    """Digest of a text. 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def table_path(language: str, model: str) -> str:
    """Return where a table lies below the output folder."""
    return f"{language}/{model}.tsv"


def masked_source(job: BaselineJob) -> str:
    """Name where the sentences come from, without credentials."""
    options = job.options
    if options.crawl is not None:
        return options.crawl
    return ", ".join(mask_credentials(text) for text in (*options.wet, *options.sentences))
