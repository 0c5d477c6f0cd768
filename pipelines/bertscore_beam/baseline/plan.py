"""A baseline run: as it was planned, and once it has its output folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bertscore_beam.baseline.layout import LAYOUT
from bertscore_beam.baseline.records import digest_of
from bertscore_beam.baseline.source import Source, SourceFiles
from bertscore_beam.crawl.sampling import SAMPLING
from bertscore_beam.crawl.sentences import describe_filters
from bertscore_beam.options.baseline import BaselineOptions
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.job import Say
from bertscore_beam.run.runner import Runner
from bertscore_beam.scorer import unseen_device_words
from bertscore_core import ScorerConfig, Settings, Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineModel:
    """A model that tables are made for.

    Attributes:
        name: Its name in the paths of its tables.
        languages: Languages that it gets a table of.
        config: How it scores: every layer as that layer alone would.
        settings: What that comes to.
        signature: How its scores are made, apart from an idf table.
    """

    name: str
    languages: frozenset[str]
    config: ScorerConfig
    settings: Settings
    signature: Signature

    @property
    def digest(self) -> str:
        """Digest of how scores are made. 16 hexadecimal digits.

        The signature has no idf table, since each language has its own. It follows from the pairs.
        """
        weights = " idf" if self.config.idf else ""
        return digest_of(self.signature.format() + weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselinePlan:
    """A baseline run, checked.

    Attributes:
        options: What was asked for.
        runner: Where files are read, and sentences sampled and paired.
        scoring: Where pairs are scored.
        output: The output folder.
        source: Where the sentences come from.
        models: Models that tables are made for.
        files: Files of the source by language, where they are listed before the run: to show them,
            or to find out what is overwritten. Empty otherwise.
    """

    options: BaselineOptions
    runner: Runner
    scoring: Runner
    output: str
    source: Source
    models: tuple[BaselineModel, ...] = ()
    files: Mapping[str, SourceFiles] = field(default_factory=dict)

    @property
    def device_words(self) -> str | None:
        """What to say of the backend if the device was left to the workers; None otherwise."""
        return unseen_device_words(self.options, self.scoring, self.models[0].config)

    @property
    def identity(self) -> dict[str, str]:
        """What must be equal for two runs to share a folder; files are compared separately."""
        options, given = self.options, self.source.is_given
        if given:
            words = options.words
            filters = json.dumps({"words": [words.least, words.most]}) if words else "-"
        else:
            filters = json.dumps(describe_filters(self.source.rules), sort_keys=True)
        return {
            "command": "baseline",
            "layout": LAYOUT,
            "source": options.crawl or ("sentences" if given else "wet"),
            "seed": str(options.seed),
            "sentences_per_page": "-" if given else str(options.sentences_per_page),
            "filters": filters,
            "sampling": SAMPLING,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineJob:
    """A baseline run that holds its folder.

    Attributes:
        plan: What was planned.
        folder: The output folder.
        run: Identifies the run.
        started: When it began, in seconds since the epoch.
        say: Told what a person waiting may want to know.
    """

    plan: BaselinePlan
    folder: OutputFolder
    run: str
    started: float
    say: Say

    @property
    def options(self) -> BaselineOptions:
        """What was asked for."""
        return self.plan.options
