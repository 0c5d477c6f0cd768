"""Hybrid systems: choosing the best of many systems, from the outputs of a few.

Few systems are judged, too few to say how often a metric picks the best. So many hybrid systems are
made: each takes, for every item, the output of one system by chance. Its score is the mean over
items, for people and metric alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bertscore_core.agreement.inputs import Doubles, checked, numbered
from bertscore_core.agreement.items import Items
from bertscore_core.agreement.segments import correlations
from bertscore_core.errors import InputError
from bertscore_core.tokens import IntArray

HYBRIDS = 10_000
"""Hybrid systems made, as in the paper."""
CHOICES = 100_000
"""How often hybrids are chosen from, as in the paper."""
RIVALS = 100
"""Hybrids that are chosen from each time, as in the paper."""

_BLOCK = 2**21  # rows of hybrids, or rivals, held at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HybridAgreement:
    """How S settings choose among hybrid systems.

    Attributes:
        hybrids: Number of hybrid systems.
        pearson: Pearson's correlation of the hybrids' scores with their judgements; NaN if a side
            does not vary. Shape (S,).
        hits_at_1: Share of the choices in which the setting's best is people's best. Shape (S,).
        reciprocal_rank: Mean of 1 / rank, by people, of the setting's best. Shape (S,).
        difference: Mean judgement of people's best less that of the setting's best. Shape (S,).
        errors: Standard errors of `hits_at_1`, `reciprocal_rank` and `difference` that come from
            the number of choices only: not from the choice of segments. Shape (3, S).
    """

    hybrids: int
    pearson: Doubles
    hits_at_1: Doubles
    reciprocal_rank: Doubles
    difference: Doubles
    errors: Doubles


def hybrid_agreement(
    people: npt.ArrayLike,
    scores: npt.ArrayLike,
    items: Items,
    *,
    hybrids: int = HYBRIDS,
    choices: int = CHOICES,
    rivals: int = RIVALS,
    seed: int = 0,
) -> HybridAgreement:
    """Make hybrid systems, and see which of them each setting would choose.

    All settings see the same hybrids and choices. Rows are taken with equal chances among those of
    an item; so an item may lack the output of a system.

    Args:
        people: Judgements. Shape (N,).
        scores: Scores of S settings. Shape (S, N) or (N,).
        items: The input that each row answers. Shape (N,).
        hybrids: How many to make.
        choices: How often to choose the best.
        rivals: How many hybrids, all different, to choose from each time.
        seed: Equal seeds and data give equal results.

    Raises:
        InputError: shapes do not fit, a number is missing, there are no rows, or the numbers of
            hybrids, choices and rivals do not fit.

    References:
        Zhang et al. 2020, section 4 and appendix F: 10,000 hybrids, the best of 100 chosen 100,000
        times. Y. Graham, Q. Liu, "Achieving accurate conclusions in evaluation of automatic machine
        translation metrics" (2016).
    """
    judged, rows = checked(people, scores)
    if not 1 < rivals <= hybrids or choices < 1 or not len(judged):
        raise InputError(
            f"got {hybrids} hybrids, {rivals} rivals and {choices} choices for {len(judged)} "
            "rows; expected rows, 2 rivals or more, at least as many hybrids, and 1 choice or more."
        )
    rng = np.random.default_rng(seed)
    both = np.concatenate([judged[None], rows])
    means = _hybrid_means(both, numbered(items, len(judged), "items"), hybrids, rng)
    sums = np.zeros((2, 3, len(rows)))
    for chosen in _choices(hybrids, choices, rivals, rng):
        outcome = _outcomes(means, chosen)
        sums += outcome.sum(axis=2), (outcome**2).sum(axis=2)
    average = sums[0] / choices
    spread = np.sqrt(np.maximum(sums[1] / choices - average**2, 0) / max(choices - 1, 1))
    return HybridAgreement(
        hybrids=hybrids,
        pearson=correlations(means[:1], means[1:]),
        hits_at_1=average[0],
        reciprocal_rank=average[1],
        difference=average[2],
        errors=spread,
    )


def _hybrid_means(
    both: Doubles, items: tuple[IntArray, int], hybrids: int, rng: np.random.Generator
) -> Doubles:
    """Average judgements and scores of hybrids. Shape (1 + S, hybrids)."""
    numbers, many = items
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers, minlength=many)
    begins = np.cumsum(sizes) - sizes
    table = np.ascontiguousarray(both[:, order].T)
    block = max(1, _BLOCK // many)
    means = np.empty((hybrids, len(both)))
    for start in range(0, hybrids, block):
        count = min(block, hybrids - start)
        taken = begins + rng.integers(0, sizes, (count, many))
        # One row of the matrix is one hybrid: a one for each output that it takes.
        matrix = csr_array(
            (np.ones(taken.size), taken.ravel(), np.arange(0, taken.size + 1, many)),
            shape=(count, len(table)),
        )
        means[start : start + count] = matrix @ table / many
    return np.ascontiguousarray(means.T)


def _choices(
    hybrids: int, choices: int, rivals: int, rng: np.random.Generator
) -> Iterator[IntArray]:
    """Yield hybrids to choose from, all different in each row. Shapes (b, rivals)."""
    block = max(1, _BLOCK // rivals)
    for start in range(0, choices, block):
        chosen = rng.integers(0, hybrids, (min(block, choices - start), rivals))
        while True:
            ordered = np.sort(chosen, axis=1)
            again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
            if not len(again):
                break
            chosen[again] = _distinct(hybrids, len(again), rivals, rng)
        yield chosen


def _distinct(hybrids: int, rows: int, rivals: int, rng: np.random.Generator) -> IntArray:
    """Draw different hybrids for each of some rows. Shape (rows, rivals)."""
    return np.array([rng.choice(hybrids, rivals, replace=False) for _ in range(rows)])


def _outcomes(means: Doubles, chosen: IntArray) -> Doubles:
    """Return hit, reciprocal rank and difference of each choice. Shape (3, S, b).

    Of hybrids with equal scores the first of the row is chosen, which is one by chance.
    """
    judged = means[0][chosen]
    best = judged.max(axis=1)
    outcome = np.empty((3, len(means) - 1, len(chosen)))
    for setting, scores in enumerate(means[1:]):
        picks = scores[chosen].argmax(axis=1)
        own = judged[np.arange(len(chosen)), picks]
        rank = 1 + (judged > own[:, None]).sum(axis=1)
        outcome[:, setting] = rank == 1, 1 / rank, best - own
    return outcome
