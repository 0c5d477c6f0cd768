"""The matching kernel equals the specification, whatever the batch around a pair."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from bertscore_core import greedy_match, specification
from bertscore_core.match.matching import average, best_matches_in_tiles
from tests.support.tolerances import INVARIANCE_ATOL

HIDDEN = 8


def unit(tokens: int, seed: int) -> torch.Tensor:
    vectors = torch.randn(tokens, HIDDEN, generator=torch.Generator().manual_seed(seed))
    return vectors / vectors.norm(dim=-1, keepdim=True)


def pad(rows: list[torch.Tensor], filler: float) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=filler)


def match(pairs, device="cpu", filler=2.0):
    """Score pairs of (candidate, reference, candidate weights, reference weights) as one batch."""
    candidates, references, candidate_weights, reference_weights = zip(*pairs, strict=True)
    arguments = (
        pad(candidates, filler),
        pad(references, filler),
        torch.tensor([len(rows) for rows in candidates]),
        torch.tensor([len(rows) for rows in references]),
        pad(candidate_weights, 0.0),
        pad(reference_weights, 0.0),
    )
    return torch.stack(greedy_match(*(value.to(device) for value in arguments)), dim=1).cpu()


@st.composite
def pair_lists(draw):
    pairs = []
    for seed in range(draw(st.integers(1, 6))):
        tokens = [draw(st.integers(1, 12)) for _ in range(2)]
        generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
        weights = [
            torch.tensor([0.0, 0.5, 1.0, 3.0])[torch.randint(4, (count,), generator=generator)]
            for count in tokens
        ]
        for side in weights:
            side[-1] = 1.0  # without any weight the average is NaN
        pairs.append((unit(tokens[0], seed), unit(tokens[1], 100 + seed), *weights))
    return pairs


@given(pairs=pair_lists(), filler=st.sampled_from([0.0, 2.0, -3.0]))
def test_batched_kernel_equals_the_specification(pairs, filler):
    batched = match(pairs, filler=filler)
    for row, pair in zip(batched, pairs, strict=True):
        expected = specification.match(*(part.numpy() for part in pair))
        # F1 magnifies any difference without bound where precision and recall nearly cancel.
        measures = 3 if abs(expected[0] + expected[1]) > 0.1 else 2
        np.testing.assert_allclose(
            row[:measures], expected[:measures], atol=INVARIANCE_ATOL, rtol=INVARIANCE_ATOL
        )


def test_negative_best_cosine_survives_padding(device):
    """The reference turns it into 0 when the row is padded; see its rule for masks."""
    candidate = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    reference = torch.tensor([[-1.0, 0.0], [-0.6, 0.8], [-0.8, 0.6]])
    long = torch.tensor([[0.0, 1.0]] * 9)
    pair = (candidate, reference, torch.ones(3), torch.ones(3))
    padded = match([pair, (long, long, torch.ones(9), torch.ones(9))], device)
    assert padded[0, 0].item() == pytest.approx(-0.6)
    torch.testing.assert_close(padded[0], match([pair], device)[0])


@pytest.mark.parametrize(
    ("tokens", "weight", "expected"),
    [
        (2, 0.0, [0, 0, 0]),  # two tokens count as empty
        (2, 1.0, [0, 0, 0.9]),  # but F1 is kept, as in the reference
        (4, 0.0, [math.nan, 0.9, 0]),
    ],
)
def test_text_of_two_tokens_or_without_weight_scores_as_in_the_reference(tokens, weight, expected):
    candidate, reference = torch.ones(tokens, 1), torch.full((5, 1), 0.9)
    scores = match([(candidate, reference, torch.full((tokens,), weight), torch.ones(5))])
    torch.testing.assert_close(scores[0], torch.tensor(expected).float(), equal_nan=True)


class Products(TorchDispatchMode):
    """Notes the sizes of all products of matrices."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default:
            self.sizes.append(result.numel())
        return result


@pytest.mark.parametrize("side", [1, 7, 64])
def test_tiles_give_the_scores_of_all_similarities(device, side):
    texts, weights = (unit(61, side), unit(40, 1)), (torch.rand(61), torch.rand(40))
    with Products() as products:
        best = best_matches_in_tiles(*(text.to(device) for text in texts), side=side)
    assert 0 < max(products.sizes) <= side**2
    lengths = (torch.tensor([len(text)]) for text in texts)
    tiled = average(best, *(part.to(device) for part in (*(w[None] for w in weights), *lengths)))
    expected = specification.match(*(part.numpy() for part in (*texts, *weights)))
    assert torch.cat(tiled).cpu().numpy() == pytest.approx(expected, abs=INVARIANCE_ATOL)


def test_tiles_keep_what_is_no_number():
    broken = torch.ones(3, 2)
    broken[2] = math.nan
    best = best_matches_in_tiles(torch.ones(3, 2), broken, side=1)
    assert best.candidate.isnan().all()
    assert best.reference.isnan().tolist() == [[False, False, True]]
