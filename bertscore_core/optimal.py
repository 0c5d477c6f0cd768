"""Optimal matching: each token is assigned to at most one token of the other text.

It takes the place of greedy matching in small experiments, as the discussion of the paper asks. An
assignment takes far longer than a maximum, so no job offers it but `tune`.
"""

import numpy as np
import torch
from torch import Tensor

from bertscore_core.errors import ConfigError
from bertscore_core.matching import BestMatches

MATCHINGS = ("greedy", "optimal")
"""How the tokens of two texts are matched."""


def check_optimal() -> None:
    """Check that an assignment can be computed here.

    Raises:
        ConfigError: scipy is not installed.
    """
    try:
        import scipy.optimize  # noqa: F401  only to know
    except ImportError as error:
        raise ConfigError(
            f"optimal matching needs scipy ({error}); expected the packages of the extra 'tune'. "
            "Install it: pip install 'bertscore-beam[tune]'."
        ) from error


def optimal_matches(candidate: Tensor, reference: Tensor) -> BestMatches:
    """Assign the tokens of one pair so that the sum of their similarities is largest.

    All tokens take part, special ones included. min(C, R) of each side are assigned; the others
    have similarity 0, as if they were compared with nothing.

    Args:
        candidate: Unit-length token embeddings. Shape (C, H), C at least 1.
        reference: The same. Shape (R, H), R at least 1.

    Returns:
        The matches of B = 1 pair, averaged as those of greedy matching are.

    References:
        Zhang et al. 2020, section 7, names it; scipy's `linear_sum_assignment` computes it.
    """
    from scipy.optimize import linear_sum_assignment  # here, since the package is an extra

    similarity = (candidate @ reference.T).float().cpu().numpy()
    found = [np.zeros(size, dtype=np.float32) for size in similarity.shape]
    if np.isfinite(similarity).all():
        rows, columns = linear_sum_assignment(similarity, maximize=True)
        found[0][rows] = found[1][columns] = similarity[rows, columns]
    else:  # the scorer reports numbers that are not finite
        found = [np.full_like(side, np.nan) for side in found]
    ours, theirs = (torch.from_numpy(side)[None].to(candidate.device) for side in found)
    return BestMatches(ours, theirs)
