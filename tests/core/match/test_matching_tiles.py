"""Matching in tiles: the scores of all similarities, which are never in memory together."""

import subprocess
import sys

import pytest
import torch

from bertscore_core import specification
from bertscore_core.match import average, best_matches_in_tiles


@pytest.mark.parametrize("side", [1, 7, 64, 1000])
def test_tiles_give_the_scores_of_all_similarities(device, side):
    random = torch.Generator().manual_seed(side)
    vectors = [
        torch.nn.functional.normalize(torch.randn(count, 24, generator=random), dim=-1)
        for count in (61, 150)
    ]
    weights = [torch.rand(count, generator=random) for count in (61, 150)]
    weights[1][::3] = 0
    best = best_matches_in_tiles(*(text.to(device) for text in vectors), side=side)
    lengths = (torch.tensor([len(text)]) for text in vectors)
    tiled = average(best, *(part.to(device) for part in (*(w[None] for w in weights), *lengths)))
    expected = specification.match(*(part.numpy() for part in (*vectors, *weights)))
    assert torch.cat(tiled).cpu().numpy() == pytest.approx(expected, abs=5e-7)


def test_tiles_keep_what_is_no_number():
    text = torch.ones(3, 2) / 2**0.5
    broken = text.clone()
    broken[2] = float("nan")
    weights = torch.ones(3)
    best = best_matches_in_tiles(text, broken, side=1)
    lengths = torch.tensor([3])
    scores = average(best, weights[None], weights[None], lengths, lengths)
    assert scores.precision.isnan().all()
    assert scores.recall.isnan().all()
    assert scores.f1.tolist() == [0.0]


_PEAK = """
import sys
from bertscore_core import BertScorer, ScorerConfig
from tests.benchmarks.worker import peak_mb

scorer = BertScorer(ScorerConfig(
    model=sys.argv[1], num_layers=3, max_length=48, long_text="windows", device="cpu",
))
scorer.score(["a cat sat " * 200], ["the mat lay " * 200])
before = peak_mb()
scores = scorer.score(["a cat sat on " * 5000], ["the mat lay in " * 5000])
print(scores.candidate_tokens[0], scores.f1[0], peak_mb() - before)
"""


@pytest.mark.long
def test_similarities_of_documents_are_never_in_memory_together(tiny_folder):
    command = [sys.executable, "-c", _PEAK, str(tiny_folder("bert"))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    tokens, f1, grown_mb = (float(word) for word in said)
    assert tokens > 20_000
    assert -1 < f1 < 1
    assert grown_mb < 300  # the similarities alone would be 1,600 MB
