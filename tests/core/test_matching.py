"""The matching kernel equals its plain twin, whatever the batch around a pair."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertscore_core import greedy_match
from tests.support.plain_matching import greedy_match_pair
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
        for each in weights:
            each[-1] = 1.0  # without any weight the average is NaN
        pairs.append((unit(tokens[0], seed), unit(tokens[1], 100 + seed), *weights))
    return pairs


@given(pairs=pair_lists(), filler=st.sampled_from([0.0, 2.0, -3.0]))
def test_batched_kernel_equals_plain_pairs(pairs, filler):
    batched = match(pairs, filler=filler)
    for row, pair in zip(batched, pairs, strict=True):
        plain = torch.cat(greedy_match_pair(*pair))
        # F1 magnifies any difference without bound where precision and recall nearly cancel.
        measures = 3 if abs(plain[0] + plain[1]) > 0.1 else 2
        torch.testing.assert_close(
            row[:measures], plain[:measures], atol=INVARIANCE_ATOL, rtol=INVARIANCE_ATOL
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


def test_identical_texts_score_one(device):
    vectors = unit(7, 1)
    scores = match([(vectors, vectors, torch.ones(7), torch.ones(7))], device)
    assert scores[0].tolist() == pytest.approx([1.0, 1.0, 1.0], abs=INVARIANCE_ATOL)


def test_two_tokens_count_as_empty():
    scores = match([(unit(2, 1), unit(5, 2), torch.zeros(2), torch.ones(5))])
    assert scores[0].tolist() == [0.0, 0.0, 0.0]


def test_two_weighted_tokens_keep_f1_as_in_the_reference():
    scores = match([(unit(2, 1), unit(5, 2), torch.ones(2), torch.ones(5))])
    assert scores[0, :2].tolist() == [0.0, 0.0]
    assert scores[0, 2].item() != 0.0


def test_text_without_weight_is_nan_with_zero_f1():
    scores = match([(unit(4, 1), unit(5, 2), torch.zeros(4), torch.ones(5))])
    assert math.isnan(scores[0, 0].item())
    assert not math.isnan(scores[0, 1].item())
    assert scores[0, 2].item() == 0.0


def test_arguments_are_left_alone():
    pair = (unit(4, 1), unit(5, 2), torch.ones(4), torch.ones(5))
    before = [value.clone() for value in pair]
    match([pair])
    greedy_match_pair(*pair)
    for value, old in zip(pair, before, strict=True):
        torch.testing.assert_close(value, old, atol=0, rtol=0)
