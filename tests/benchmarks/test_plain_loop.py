import numpy as np
import pytest

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.model import resolve_model
from tests.benchmarks.plain_loop import PlainLoop
from tests.benchmarks.texts import mixed

pytestmark = pytest.mark.model


def test_the_stand_in_for_bert_score_gives_the_same_scores():
    pairs = mixed(12)
    loop = PlainLoop(resolve_model("all-MiniLM-L6-v2").folder, 6, "cpu", batch_size=5)
    expected = BertScorer(ScorerConfig(backend="torch")).score(pairs.candidates, pairs.references)
    f1 = loop.score(pairs.candidates, pairs.references)
    assert len(f1) == 12
    np.testing.assert_allclose(f1, expected.f1, atol=1e-5)
