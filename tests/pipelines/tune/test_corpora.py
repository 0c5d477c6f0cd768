"""Corpus scores of systems against people, by plain use of sacrebleu and scipy."""

import numpy as np
import pytest
from sacrebleu import corpus_bleu, corpus_chrf, corpus_ter
from scipy.stats import pearsonr

from bertscore_beam.tune import (
    CORPUS_METRICS,
    Judgements,
    LexicalMetrics,
    TuneOptions,
    corpus_agreement,
    read_judgements,
)
from configs.experiments.make_sample import write_samples


@pytest.fixture(scope="module")
def judgements(tmp_path_factory) -> Judgements:
    folder = tmp_path_factory.mktemp("wmt")
    write_samples(folder)
    options = TuneOptions(
        judgements=(str(folder / "wmt.parquet"),),
        output=str(folder / "out"),
        score_column="score",
        system_column="system",
        by="direction",
    )
    return read_judgements(options, options.output)


def test_systems_are_compared_by_their_corpus_scores(judgements):
    rows = judgements.of_group(1)
    found = corpus_agreement(judgements, rows, LexicalMetrics("en"))
    by_system = {}
    for row in rows:
        by_system.setdefault(judgements.systems[row], []).append(row)
    people, scores = [], []
    for own in by_system.values():
        texts = [judgements.candidates[row] for row in own]
        streams = [[judgements.references[row][0] for row in own]]
        people.append(judgements.people[own].mean())
        scores.append(
            [
                corpus_bleu(texts, streams).score,
                corpus_chrf(texts, streams, word_order=2).score,
                -corpus_ter(texts, streams).score,
            ]
        )
    assert len(people) == 5
    for number, line in enumerate(zip(*scores, strict=True)):
        assert found["system_pearson"][number] == pytest.approx(pearsonr(people, line).statistic)
        order = np.sign(np.subtract.outer(people, people)) == np.sign(np.subtract.outer(line, line))
        share = order[np.triu_indices(5, 1)].mean()
        assert found["system_accuracy"][number] == pytest.approx(share)
    assert len(found["system_pearson"]) == len(CORPUS_METRICS)


def test_nothing_is_compared_without_rows(judgements):
    assert corpus_agreement(judgements, np.zeros(0, dtype=np.int64), LexicalMetrics("en")) == {}
    assert corpus_agreement(judgements, judgements.of_group(0), LexicalMetrics("", ())) == {}
