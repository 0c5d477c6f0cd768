"""Metrics of a whole corpus beside those of rows: BLEU of a system is not the mean of its rows'."""

import numpy as np
import numpy.typing as npt

from bertscore_beam.tune.judgements import Judgements
from bertscore_beam.tune.lexical import LexicalMetrics
from bertscore_core.agreement import agreement_of_systems, system_means
from bertscore_core.agreement.inputs import Doubles


def corpus_agreement(
    judgements: Judgements, rows: npt.NDArray[np.int64], metrics: LexicalMetrics
) -> dict[str, Doubles]:
    """Compare the corpus scores of systems with the mean judgements of people.

    Args:
        judgements: All rows.
        rows: Positions of those of one group.
        metrics: The metrics.

    Returns:
        For each statistic of systems one number for each metric that has one of a corpus; nothing
        if there are no systems, or no scores of people.
    """
    if (
        judgements.systems is None
        or judgements.people is None
        or not len(rows)
        or not metrics.corpus_names
    ):
        return {}
    systems = judgements.systems[rows]
    names, people = system_means(judgements.people[rows], systems)
    scores = []
    for name in names:
        own = rows[systems == name]
        scores.append(
            metrics.corpus_scores(
                [judgements.candidates[row] for row in own],
                [judgements.references[row] for row in own],
            )
        )
    pearson, accuracy = agreement_of_systems(people[0], np.array(scores).T)
    return {"system_pearson": pearson, "system_accuracy": accuracy}
