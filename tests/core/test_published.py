"""The numbers that bert-score publishes, with the weights that they were made with.

Its own tests (tests/test_scorer.py of bert-score 0.3.13) hold roberta-large, layer 17, to them
within 1e-5, with and without idf, raw and rescaled. Its three pairs are read from there:

    BERT_SCORE_TESTS=bert_score/tests/test_scorer.py python -m pytest tests/core/test_published.py
"""

import ast
import os
from pathlib import Path

import numpy as np
import pytest

from bertscore_core import BertScorer, ScorerConfig, UnknownModelError
from bertscore_core.baseline import find_baseline, rescale
from bertscore_core.model.resolve import resolve_model

MODEL, LAYER = "roberta-large", 17
WITHIN = 1e-5
PAIRS = "BERT_SCORE_TESTS"
# By (idf, rescaled): precision, recall and F1 of the three pairs.
PUBLISHED = {
    (False, False): (
        [0.9843302369, 0.9832239747, 0.9120386243],
        [0.9823839068, 0.9732863903, 0.9204289913],
        [0.9833561182, 0.9782299995, 0.9162146449],
    ),
    (True, False): (
        [0.9837872386, 0.9754738808, 0.8947395086],
        [0.9827190638, 0.9697767496, 0.9172918797],
        [0.9832529426, 0.9726169705, 0.9058753848],
    ),
    (False, True): (
        [0.9070007801, 0.9004355669, 0.4779556096],
        [0.8954567909, 0.8414674401, 0.5277850628],
        [0.9013833999, 0.8710107803, 0.5035651922],
    ),
    (True, True): (
        [0.9037781358, 0.8544390202, 0.3752873838],
        [0.8974460959, 0.8206397891, 0.5091678500],
        [0.9007720947, 0.8377535343, 0.4423046410],
    ),
}


def published_pairs(path):
    """Return the candidates and references that a file of bert-score's tests assigns."""
    values = {
        node.targets[0].id: node.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return [ast.literal_eval(values[name]) for name in ("cands", "refs")]


@pytest.mark.parametrize("idf", [False, True])
def test_the_packaged_baseline_maps_the_raw_numbers_to_the_rescaled_ones(idf):
    row = find_baseline("en", MODEL).rows[LAYER]
    raw, rescaled = (np.float32(PUBLISHED[idf, step]).T for step in (False, True))
    assert rescale(raw, np.float32(row)) == pytest.approx(rescaled, abs=1e-6)


@pytest.mark.model
@pytest.mark.long
@pytest.mark.parametrize(("idf", "is_rescaled"), PUBLISHED)
def test_roberta_large_gives_the_published_numbers(idf, is_rescaled):
    try:
        resolve_model(MODEL)
    except UnknownModelError as error:
        pytest.skip(f"the weights of {MODEL} are not on this machine: {error}")
    if PAIRS not in os.environ:
        pytest.skip(f"{PAIRS} does not name tests/test_scorer.py of bert-score 0.3.13")
    candidates, references = published_pairs(Path(os.environ[PAIRS]))
    scorer = BertScorer(
        ScorerConfig(language="en", idf=idf, rescale=is_rescaled, backend="torch", device="cpu")
    )
    assert (scorer.settings.files.name, scorer.settings.num_layers) == (MODEL, LAYER)
    table = scorer.count_idf(references) if idf else None
    scores = scorer.score(candidates, references, idf=table)
    found = (scores.precision, scores.recall, scores.f1)
    for values, published in zip(found, PUBLISHED[idf, is_rescaled], strict=True):
        assert values.tolist() == pytest.approx(published, abs=WITHIN)
