"""The statistics of agreement that a run computes, in each group and averaged over the groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_beam.options.tune import TuneOptions
from bertscore_beam.tune.judgements import Judgements
from bertscore_core.agreement import (
    Estimates,
    Resampled,
    accuracy_with_ties,
    auc,
    darr,
    hybrid_agreement,
    kendall,
    pearson,
    spearman,
    system_agreement,
    within_item_kendall,
)
from bertscore_core.agreement.inputs import Doubles

SEGMENT = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
"""Statistics over segments by name."""

_DARR_RANGE = 100.0
"""Raw direct assessments are from 0 to 100; standardized ones have no threshold of 25."""
_CHOICES = 10
"""Choices for each hybrid: the paper chooses 100,000 times among 10,000 of them."""

Agreement = Estimates | Resampled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupRows:
    """The rows of one group, as the statistics take them.

    Attributes:
        people: Scores of people; None without. Shape (n,).
        labels: Labels; None without. Shape (n,).
        systems: Systems; None without. Shape (n,).
        items: Items; None without. Shape (n,).
        scores: Scores of S settings. Shape (S, n).
    """

    people: Doubles | None
    labels: Doubles | None
    systems: npt.NDArray[np.str_] | None
    items: npt.NDArray[np.str_] | None
    scores: Doubles

    @classmethod
    def of(
        cls, judgements: Judgements, rows: npt.NDArray[np.int64], scores: Doubles
    ) -> "GroupRows":
        """Take some rows of all judgements. Scores have shape (S, N)."""

        def taken(values: npt.NDArray[np.generic] | None) -> npt.NDArray[np.generic] | None:
            return None if values is None else values[rows]

        return cls(
            people=taken(judgements.people),  # type: ignore[arg-type]  # of the same type
            labels=taken(judgements.labels),  # type: ignore[arg-type]
            systems=taken(judgements.systems),  # type: ignore[arg-type]
            items=taken(judgements.items),  # type: ignore[arg-type]
            scores=scores[:, rows],
        )


Statistic = Callable[[GroupRows], Agreement]


def statistics_of(judgements: Judgements, options: TuneOptions) -> dict[str, Statistic]:
    """Return the statistics that the columns of the judgements allow, by name."""
    found: dict[str, Statistic] = {}
    if judgements.people is not None:
        found |= {name: _over_segments(name) for name in SEGMENT}
        if _is_raw(judgements.people):
            found["darr"] = lambda rows: darr(_people(rows), rows.scores, rows.items)
        if judgements.items is not None:
            found |= {"item_kendall": _item_kendall, "item_accuracy": _item_accuracy}
        if judgements.systems is not None:
            found |= {
                "system_pearson": lambda rows: _systems(rows, options)[0],
                "system_accuracy": lambda rows: _systems(rows, options)[1],
            }
    if judgements.labels is not None:
        found["auc"] = _auc
    return found


def hybrids_of(rows: GroupRows, options: TuneOptions) -> dict[str, Doubles]:
    """Return how each setting chooses among hybrid systems, by the name of the number."""
    if rows.items is None:
        return {}
    made = hybrid_agreement(
        _people(rows),
        rows.scores,
        rows.items,
        hybrids=options.hybrids,
        choices=_CHOICES * options.hybrids,
        seed=options.seed,
    )
    return {
        "hybrid_pearson": made.pearson,
        "hybrid_hits_at_1": made.hits_at_1,
        "hybrid_reciprocal_rank": made.reciprocal_rank,
        "hybrid_difference": made.difference,
    }


def mean_of(parts: Sequence[Agreement]) -> Agreement:
    """Return the mean of one statistic over independent groups, each group with the same weight."""
    values = np.mean([part.values for part in parts], axis=0)
    resampled = [part.replicates for part in parts if isinstance(part, Resampled)]
    if resampled:
        return Resampled(values=values, replicates=np.mean(resampled, axis=0))
    estimates = [part for part in parts if isinstance(part, Estimates)]
    clusters = sum(part.clusters for part in estimates)
    # Scaled so that the mean over the clusters of all groups is the mean of the groups' means.
    scaled = [part.influences * (clusters / (len(estimates) * part.clusters)) for part in estimates]
    # Of each group the shares of its clusters in the mean, squared and added up.
    squares = sum(1 / max(part.degrees + 1, 1) for part in estimates) / len(estimates) ** 2
    return Estimates(
        values=values,
        influences=np.concatenate(scaled, axis=1),
        lowest=estimates[0].lowest,
        effective=1 / squares,
    )


def intervals_of(agreement: Agreement, options: TuneOptions) -> Doubles:
    """Return 95% intervals. Shape (S, 2)."""
    if isinstance(agreement, Estimates):
        return agreement.intervals(resamples=options.resamples, seed=options.seed)
    return agreement.intervals()


def _people(rows: GroupRows) -> Doubles:
    if rows.people is None:
        raise RuntimeError("a statistic of scores was asked for without scores of people")
    return rows.people


def _is_raw(people: Doubles) -> bool:
    """Tell whether scores are direct assessments of 0 to 100, or those negated."""
    size = np.abs(people)
    one_sided = bool((people >= 0).all() or (people <= 0).all())
    return one_sided and bool(_DARR_RANGE / 2 < size.max() <= _DARR_RANGE)


def _over_segments(name: str) -> Statistic:
    return lambda rows: SEGMENT[name](_people(rows), rows.scores, rows.items)


def _item_kendall(rows: GroupRows) -> Estimates:
    return within_item_kendall(_people(rows), rows.scores, _items(rows))


def _item_accuracy(rows: GroupRows) -> Estimates:
    return accuracy_with_ties(_people(rows), rows.scores, _items(rows)).estimates


def _items(rows: GroupRows) -> npt.NDArray[np.str_]:
    if rows.items is None:
        raise RuntimeError("a statistic of items was asked for without items")
    return rows.items


def _systems(rows: GroupRows, options: TuneOptions) -> tuple[Resampled, Resampled]:
    if rows.systems is None:
        raise RuntimeError("a statistic of systems was asked for without systems")
    found = system_agreement(
        _people(rows),
        rows.scores,
        rows.systems,
        rows.items,
        resamples=options.resamples,
        seed=options.seed,
    )
    return found.pearson, found.accuracy


def _auc(rows: GroupRows) -> Estimates:
    if rows.labels is None:
        raise RuntimeError("a statistic of labels was asked for without labels")
    return auc(rows.labels, rows.scores, rows.items)
