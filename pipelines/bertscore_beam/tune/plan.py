"""A tuning run: as it was planned, and once it has its output folder."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.run.folder import MANIFEST_FOLDER, OutputFolder
from bertscore_beam.run.job import Say
from bertscore_beam.run.runner import Runner
from bertscore_beam.scorer import unseen_device_words
from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.scores import SCORES_FOLDER, Weighting
from bertscore_core import ScorerConfig, Settings, Signature

LAYOUT = "1"
"""Version of the names and contents of the files in `_manifest`."""
ROWS_FOLDER = f"{MANIFEST_FOLDER}/judgements"
IDF_FOLDER = f"{MANIFEST_FOLDER}/idf"
MEASURES = ("precision", "recall", "f1")


def weightings_of(options: TuneOptions) -> tuple[Weighting, ...]:
    """Return the weightings to compare, in the order in which scores are kept."""
    matchings = {"greedy": (False,), "optimal": (True,), "both": (False, True)}[options.matching]
    idf = {"none": (False,), "corpus": (True,), "both": (False, True)}[options.idf]
    return tuple(Weighting(*pair) for pair in itertools.product(matchings, idf))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneModel:
    """A model to compare.

    Attributes:
        name: Its name, as in a signature.
        config: How it scores: every layer as that layer alone would.
        settings: What that comes to.
        signature: How its scores are made, apart from layer and idf table.
        layers: Layers to compare.
        default: The registry's layer; None if it has none.
    """

    name: str
    config: ScorerConfig
    settings: Settings
    signature: Signature
    layers: tuple[int, ...]
    default: int | None

    @property
    def digest(self) -> str:
        """Digest of how scores are made. 16 hexadecimal digits."""
        return hashlib.sha256(self.signature.format().encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the judgements, which a worker scores at a time.

    Attributes:
        name: Its name in the folders of judgements and scores; it follows from its texts.
        first: First row.
        rows: Number of rows.
    """

    name: str
    first: int
    rows: int

    @property
    def stop(self) -> int:
        """One past the last row."""
        return self.first + self.rows

    @property
    def path(self) -> str:
        """Path of its texts below the output folder."""
        return f"{ROWS_FOLDER}/{self.name}.pq"


def cut_parts(judgements: Judgements, rows: int) -> tuple[Part, ...]:
    """Cut judgements into parts of at most so many rows."""
    digest = judgements.texts_digest
    return tuple(
        Part(name=f"{digest}-{first:09d}-{min(rows, len(judgements) - first)}", first=first,
             rows=min(rows, len(judgements) - first))
        for first in range(0, len(judgements), rows)
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TunePlan:
    """A tuning run, checked.

    Attributes:
        options: What was asked for.
        runner: Where pairs are scored.
        output: The output folder.
        judgements: The usable rows.
        models: The models to compare.
        parts: The rows, cut for the workers.
    """

    options: TuneOptions
    runner: Runner
    output: str
    judgements: Judgements
    models: tuple[TuneModel, ...]
    parts: tuple[Part, ...]

    @property
    def device_words(self) -> str | None:
        """What to say of the backend if the device was left to the workers; None otherwise."""
        if not self.models:
            return None
        return unseen_device_words(self.options, self.runner, self.models[0].config)

    @property
    def weightings(self) -> tuple[Weighting, ...]:
        """The weightings to compare."""
        return weightings_of(self.options)

    @property
    def identity(self) -> dict[str, str]:
        """What must be equal for two runs to share a folder; scores are found by their names."""
        return {"command": "tune", "layout": LAYOUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneJob:
    """A tuning run that holds its folder.

    Attributes:
        plan: What was planned.
        folder: The output folder.
        run: Identifies the run.
        started: When it began, in seconds since the epoch.
        say: Prints a message for people.
    """

    plan: TunePlan
    folder: OutputFolder
    run: str
    started: float
    say: Say


def scores_path(model: TuneModel, weightings: Sequence[Weighting], part: Part) -> str:
    """Name the scores of a part; the name says of which texts they are, and how made."""
    how = "-".join(f"{one.matching}.{one.weights}" for one in weightings)
    return f"{SCORES_FOLDER}/{model.digest}/{how}/{part.name}.npz"


def idf_path(model: TuneModel, part: Part, group: int) -> str:
    """Name the idf table of a group; it follows from all texts, which the part's name digests."""
    corpus = part.name.partition("-")[0]
    return f"{IDF_FOLDER}/{model.digest}/{corpus}-{group}.npz"
