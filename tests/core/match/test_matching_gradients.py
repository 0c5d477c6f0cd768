"""The matching passes gradients on, so that its scores can be a loss."""

import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize
from transformers import AutoModel

from bertscore_core import BertScorer, ConfigError, ScorerConfig, greedy_match

RECIPE = Path(__file__).parents[3] / "configs" / "recipes" / "bertscore_loss.py"
LENGTHS = torch.tensor([5, 3, 4]), torch.tensor([4, 6, 3])


@dataclass
class Batch:
    candidate: torch.Tensor
    reference: torch.Tensor
    weights: tuple[torch.Tensor, torch.Tensor]

    @property
    def sides(self):
        return self.candidate, self.reference

    def scores(self, candidate, reference):
        unit = normalize(candidate, dim=-1), normalize(reference, dim=-1)
        return greedy_match(*unit, *LENGTHS, *self.weights)


@pytest.fixture
def batch():
    """Three pairs of different lengths, in float64; the last candidate has no weight."""
    generator = torch.Generator().manual_seed(3)
    sides, weights = [], []
    for lengths in LENGTHS:
        shape = (3, int(lengths.max()))
        inside = torch.arange(shape[1])[None, :] < lengths[:, None]
        sides.append(torch.randn(*shape, 6, generator=generator, dtype=torch.float64))
        weights.append(torch.rand(*shape, generator=generator, dtype=torch.float64) * inside)
    return Batch(*(side.requires_grad_() for side in sides), tuple(weights))


def test_gradients_are_those_of_the_scores(batch):
    assert torch.autograd.gradcheck(batch.scores, batch.sides)
    assert all(scores.dtype == torch.float64 for scores in batch.scores(*batch.sides))


def test_padding_and_other_tokens_get_no_gradient(batch):
    precision, _, _ = batch.scores(*batch.sides)
    precision.sum().backward()
    for row, length in enumerate(LENGTHS[0].tolist()):
        moved = batch.candidate.grad[row].abs().sum(dim=1) > 0
        assert moved[:length].all()
        assert not moved[length:].any()
    # Only references that a candidate token has chosen.
    assert not (batch.reference.grad[1, 3:].abs().sum(dim=1) > 0).all()


def test_a_pair_without_weights_leaves_the_gradients_of_others_alone(batch):
    batch.weights[0][2] = 0.0
    scores = batch.scores(*batch.sides)
    assert scores.precision[2].isnan()
    assert scores.f1[2] == 0
    scores.f1.mean().backward()
    for side in batch.sides:
        assert side.grad.isfinite().all()
        assert not side.grad[2].any()
        assert side.grad[:2].any()


def test_scores_with_and_without_gradients_are_the_same_bits(batch):
    batch.weights[0][2] = 0.0
    sides = [side.detach().float() for side in batch.sides]
    batch.weights = tuple(side.float() for side in batch.weights)
    plain = batch.scores(*sides)
    followed = batch.scores(*(side.requires_grad_() for side in sides))
    for bare, tracked in zip(plain, followed, strict=True):
        assert bare.dtype == torch.float32
        assert torch.equal(bare.nan_to_num(7), tracked.nan_to_num(7))


@pytest.mark.model
def test_gradients_reach_the_input_of_an_encoder(tiny_folder):
    model = AutoModel.from_pretrained(tiny_folder("bert")).double().eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(1, 3, model.config.hidden_size, generator=generator, dtype=torch.float64)
    ids = torch.tensor([[4, 7, 9, 5]])
    reference = normalize(model(ids).last_hidden_state, dim=-1)
    lengths, weights = (torch.tensor([3]), torch.tensor([4])), (torch.ones(1, 3), torch.ones(1, 4))

    def f1(given):
        hidden = model(inputs_embeds=given).last_hidden_state
        return greedy_match(normalize(hidden, dim=-1), reference, *lengths, *weights).f1

    # Along random directions: one for each number would take minutes.
    assert torch.autograd.gradcheck(f1, (inputs.requires_grad_(),), fast_mode=True)


@pytest.mark.model
def test_the_loss_of_the_recipe_is_one_less_f1_and_leads_to_the_reference():
    recipe = runpy.run_path(str(RECIPE))
    scorer = BertScorer(ScorerConfig(model="all-MiniLM-L6-v2", device="cpu", backend="torch"))
    ids = torch.from_numpy(scorer.tokenizer.encode(["the dog ate a bone"]).ids).long()
    weights = recipe["token_weights"](scorer, ids)
    size = scorer.encoder.model.get_input_embeddings().num_embeddings
    other = BertScorer(ScorerConfig(model="all-MiniLM-L6-v2", device="cpu", backend="openvino"))
    with pytest.raises(ConfigError, match=r"got the backend 'openvino'.*backend='torch'"):
        recipe["bertscore_loss"](other, None, weights, "a bone")
    certain = torch.nn.functional.one_hot(ids, size).float().requires_grad_()
    loss = recipe["bertscore_loss"](scorer, certain, weights, "the cat ate a bone")
    f1 = scorer.score(["the dog ate a bone"], ["the cat ate a bone"]).f1[0]
    assert loss.item() == pytest.approx(1 - f1, abs=1e-6)
    loss.backward()
    dog, cat = scorer.tokenizer.encode(["dog cat"]).ids[1:3]
    at = ids.tolist().index(dog)
    assert certain.grad[at, cat] < certain.grad[at, dog]
