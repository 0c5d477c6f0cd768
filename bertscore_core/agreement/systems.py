"""Agreement over systems: does the metric order whole systems as people do?

A system's score is the mean over its rows, for people and metric alike. Intervals draw items, or
each system's rows where items are not known: systems themselves are few and stay as they are.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertscore_core.agreement.estimates import RESAMPLES, Resampled, draws
from bertscore_core.agreement.inputs import Doubles, checked, numbered
from bertscore_core.agreement.items import Items
from bertscore_core.agreement.segments import correlations
from bertscore_core.tokens import IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SystemAgreement:
    """Agreement of S settings with people over K systems.

    Attributes:
        systems: Number of systems, K.
        pearson: Pearson's correlation of the systems' scores; NaN below two systems.
        accuracy: Share of pairs of systems that score and people order in the same way, or both
            tie; NaN below two systems.
    """

    systems: int
    pearson: Resampled
    accuracy: Resampled


def system_agreement(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    systems: Items,
    items: Items | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> SystemAgreement:
    """Return how the systems' mean scores agree with their mean judgements.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        systems: The system that each row comes from. Shape (N,).
        items: The input that each row answers, drawn for all systems together. None to draw the
            rows of each system on their own. Shape (N,).
        resamples: How often to draw.
        seed: Equal seeds and data give equal results.

    Raises:
        InputError: shapes do not fit, or a number is missing.

    References:
        T. Kocmi et al., "To ship or not to ship" (2021), for the accuracy. D. Deutsch, R. Dror, D.
        Roth, "A statistical analysis of summarization evaluation metrics using resampling methods"
        (2021), BOOT-INPUTS. mt-metrics-eval, `Pearson` and `Agreement` over systems.
    """
    judged, rows = checked(people, scores)
    both = np.concatenate([judged[None], rows])
    numbers, many = numbered(systems, len(judged), "systems")
    means = _system_means(both, numbers, many)[None]
    if items is None:
        again = _redrawn_rows(both, numbers, many, resamples, seed)
    else:
        drawn, number = numbered(items, len(judged), "items")
        again = _redrawn_items(both, numbers, many, (drawn, number), resamples, seed)
    return SystemAgreement(
        systems=many,
        pearson=Resampled(values=_pearson(means)[0], replicates=_pearson(again)),
        accuracy=Resampled(values=_accuracy(means)[0], replicates=_accuracy(again)),
    )


def system_means(scores: npt.ArrayLike, systems: Items) -> tuple[list[str], Doubles]:
    """Return the names of the systems, sorted, and their mean scores.

    Args:
        scores: Scores of S settings. Shape (S, N) or (N,).
        systems: The system that each row comes from. Shape (N,).

    Returns:
        K names, and means of shape (S, K).

    Raises:
        InputError: there is not one system for each row.
    """
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    numbers, many = numbered(systems, rows.shape[1], "systems")
    return [str(name) for name in np.unique(np.asarray(systems))], _system_means(
        rows, numbers, many
    )


def agreement_of_systems(people: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    """Compare numbers of whole systems, such as corpus BLEU, with those of people.

    Args:
        people: One number of each of K systems. Shape (K,).
        scores: Numbers of S settings. Shape (S, K) or (K,).

    Returns:
        Pearson's correlations and the shares of pairs in the same order, as in `SystemAgreement`.
        Shape (S,) each.

    Raises:
        InputError: shapes do not fit, or a number is missing.
    """
    judged, rows = checked(people, scores)
    means = np.concatenate([judged[None], rows])[None]
    return _pearson(means)[0], _accuracy(means)[0]


def _system_means(rows: Doubles, numbers: IntArray, many: int) -> Doubles:
    """Average the rows of each system. Shape (S, K)."""
    sums = np.array([np.bincount(numbers, row, many) for row in rows])
    return np.asarray(sums / np.bincount(numbers, minlength=many), dtype=np.float64)


def _redrawn_rows(
    rows: Doubles, numbers: IntArray, many: int, resamples: int, seed: int
) -> Doubles:
    """Return the systems' means with the rows of each drawn on their own. Shape (B, S, K)."""
    means = np.empty((resamples, len(rows), many))
    for system in range(many):
        own = rows[:, numbers == system]
        start = 0
        for weights in draws(own.shape[1], resamples, seed + system):
            means[start : start + len(weights), :, system] = weights @ own.T / own.shape[1]
            start += len(weights)
    return means


def _redrawn_items(
    rows: Doubles,
    numbers: IntArray,
    many: int,
    items: tuple[IntArray, int],
    resamples: int,
    seed: int,
) -> Doubles:
    """Return the systems' means with items drawn for all of them. Shape (B, S, K).

    A system of which no item is drawn has no mean in that resample: NaN.
    """
    means = np.empty((resamples, len(rows), many))
    start = 0
    for weights in draws(items[1], resamples, seed):
        for system in range(many):
            own = numbers == system
            shares = weights[:, items[0][own]]
            with np.errstate(invalid="ignore"):
                means[start : start + len(weights), :, system] = (
                    shares @ rows[:, own].T / shares.sum(axis=1, keepdims=True)
                )
        start += len(weights)
    return means


def _pearson(means: Doubles) -> Doubles:
    """Correlate judgements, the first of the rows, with each setting. (B, 1 + S, K) to (B, S)."""
    return correlations(means[:, :1], means[:, 1:])


def _accuracy(means: Doubles) -> Doubles:
    """Return the share of pairs ordered as the first of the rows does. (B, 1 + S, K) to (B, S)."""
    first, second = np.triu_indices(means.shape[2], 1)
    if not len(first):
        return np.full((len(means), means.shape[1] - 1), np.nan)
    order: Doubles = np.sign(means[..., first] - means[..., second])
    share = np.equal(order[:, 1:], order[:, :1]).mean(axis=2)
    # A difference with a system of which nothing was drawn is no order.
    unknown = np.asarray(np.isnan(order).any(axis=(1, 2)))
    return np.where(unknown[:, None], np.nan, share)
