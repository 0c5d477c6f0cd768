"""The settings that are compared: model, matching, weights, layer and measure; other metrics."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_beam.tune.plan import MEASURES, TunePlan
from bertscore_beam.tune.scores import ModelScores
from bertscore_core.agreement.inputs import Doubles


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to score.

    Attributes:
        model: Name of the model, or of another metric.
        layer: The layer; None for another metric.
        measure: `precision`, `recall` or `f1`; "" for another metric.
        matching: `greedy` or `optimal`; "" for another metric.
        idf: `none` or `corpus`; "" for another metric.
        digest: Digest of the model's settings; "" for another metric.
    """

    model: str
    layer: int | None = None
    measure: str = ""
    matching: str = ""
    idf: str = ""
    digest: str = ""

    @property
    def is_bertscore(self) -> bool:
        """Whether it is a setting of BERTScore, and not another metric."""
        return self.layer is not None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """The scores of S settings, on the rows that all of them have scored.

    Attributes:
        settings: The settings.
        scores: Shape (S, N), NaN where there is none.
        complete: Which rows have a score of every setting. Shape (N,).
    """

    settings: tuple[Setting, ...]
    scores: Doubles
    complete: npt.NDArray[np.bool_]

    @property
    def of_bertscore(self) -> npt.NDArray[np.int64]:
        """Positions of the settings of BERTScore."""
        return np.array([n for n, one in enumerate(self.settings) if one.is_bertscore])

    def find(self, **wanted: object) -> list[int]:
        """Return the positions of the settings with these fields, in their order."""
        return [
            number
            for number, one in enumerate(self.settings)
            if all(getattr(one, name) == value for name, value in wanted.items())
        ]


def compared(
    plan: TunePlan, scores: Mapping[str, ModelScores], others: Mapping[str, Doubles]
) -> Compared:
    """Put the scores of all settings side by side.

    Args:
        plan: The run.
        scores: The scores of each model by its digest.
        others: The scores of other metrics by name. Shape (N,) each.
    """
    settings: list[Setting] = []
    values: list[npt.NDArray[np.floating]] = []
    for model in plan.models:
        found = scores[model.digest].values
        for number, weighting in enumerate(plan.weightings):
            for layer in model.layers:
                for index, measure in enumerate(MEASURES):
                    settings.append(
                        Setting(
                            model=model.name,
                            layer=layer,
                            measure=measure,
                            matching=weighting.matching,
                            idf=weighting.weights,
                            digest=model.digest,
                        )
                    )
                    values.append(found[number, layer, index])
    settings += [Setting(model=name) for name in others]
    values += list(others.values())
    matrix = np.array(values, dtype=np.float64)
    complete = np.logical_and.reduce(np.isfinite(matrix), axis=0)
    return Compared(settings=tuple(settings), scores=matrix, complete=complete)
