"""Score parts of pairs with a model at every layer, and keep a file of each part."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from bertscore_beam.run import activity, counters
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.loading import load_scorer
from bertscore_beam.run.phases import Phase, given
from bertscore_beam.run.progress import Expected
from bertscore_core.scorer import BertScorer
from bertscore_core.scorer_config import WorkerSettings
from bertscore_core.work import Work


@dataclass(frozen=True, slots=True)
class LayerStep(ABC):
    """The step that scores parts, writes a file of each and yields its path.

    A part has `rows`, its pairs.

    Attributes:
        below: Folder of the files, below that of the run.
    """

    below: ClassVar[str]

    setting: WorkerSettings
    folder: OutputFolder

    @abstractmethod
    def name(self, part: Any) -> str:
        """Return the path of the file of a part, which no other part has."""

    @abstractmethod
    def scored(self, scorer: BertScorer, part: Any, work: Work) -> bytes:
        """Score a part at every layer and return its file; the work of the device is counted."""

    def open(self) -> Callable[[Any], Iterator[str]]:
        """Load the scorer; its backend must be of the version that the job has."""
        return partial(self._score, load_scorer(self.setting))

    def _score(self, scorer: BertScorer, part: Any) -> Iterator[str]:
        work = Work()
        with activity.report_fraction(self._shown(part), lambda: work.share):
            data = self.scored(scorer, part, work)
        counters.count(counters.PAIRS_SCORED, part.rows)
        counters.count_work(work)
        self.folder.write(self.name(part), data)
        yield self.name(part)

    def phase(self, accelerator: str | None, parts: Sequence[Any] = ()) -> Phase:
        """Return the phase that scores some parts."""
        name, items = type(self).__name__, given(parts)
        return Phase(name=name, items=items, step=self, accelerator=accelerator)

    def expected(self, parts: Sequence[Any], message: str) -> Expected:
        """Return what that phase will have done when it ends."""
        amounts = {self._shown(part): part.rows for part in parts}
        return Expected(message=message, folder=self.below, amounts=amounts, unit="pairs")

    def _shown(self, part: Any) -> str:
        return self.name(part).removeprefix(f"{self.below}/")
