"""Other metrics are those of their packages, in every language."""

import numpy as np
import pytest
import scipy.stats
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import corpus_bleu, corpus_chrf, corpus_ter, sentence_bleu, sentence_chrf
from sacrebleu.metrics import TER

from bertscore_beam.tune import (
    LEXICAL_METRICS,
    LexicalMetrics,
    TuneOptions,
    corpus_agreement,
    read_judgements,
)
from tests.support.judgements import SYSTEMS, judgement_rows, write_judgements

CANDIDATES = ["The ferry leaves at nine .", "Two boats, one pier.", "Rain", ""]
REFERENCES = [
    ["The ferry departs at nine o'clock.", "At nine the ferry leaves."],
    ["There are two boats at one pier.", "Two boats lie at the pier."],
    ["It rains.", "Rain is falling."],
    ["Nothing is said.", "Silence."],
]


def test_rows_are_scored_as_by_each_package():
    scores = LexicalMetrics("en").scores(CANDIDATES, REFERENCES)
    rouge = RougeScorer(["rougeL"])
    expected = [
        (
            sentence_bleu(candidate, given).score / 100,
            sentence_chrf(candidate, given).score / 100,
            sentence_chrf(candidate, given, word_order=2).score / 100,
            -TER().sentence_score(candidate, given).score / 100,
            max(rouge.score(one, candidate)["rougeL"].fmeasure for one in given),
        )
        for candidate, given in zip(CANDIDATES, REFERENCES, strict=True)
    ]
    assert scores.shape == (len(LEXICAL_METRICS), len(CANDIDATES))
    np.testing.assert_array_equal(scores.T, expected)
    assert 0 < scores[0, 0] < 1


def test_only_the_metrics_that_are_named_are_computed():
    every = LexicalMetrics("en")
    some = LexicalMetrics("en", ("ROUGE-L", "BLEU"))
    scores = every.scores(CANDIDATES, REFERENCES)
    np.testing.assert_array_equal(some.scores(CANDIDATES, REFERENCES), scores[[4, 0]])
    assert some.corpus_names == ("BLEU",)
    corpus = every.corpus_scores(CANDIDATES, REFERENCES)
    np.testing.assert_array_equal(some.corpus_scores(CANDIDATES, REFERENCES), corpus[:1])
    assert every.signatures | some.signatures == every.signatures


def test_a_corpus_is_scored_as_by_sacrebleu():
    streams = [list(stream) for stream in zip(*REFERENCES, strict=True)]
    bleu, chrf, chrf_words, ter = LexicalMetrics("de").corpus_scores(CANDIDATES, REFERENCES)
    assert bleu == corpus_bleu(CANDIDATES, streams).score / 100
    assert chrf == corpus_chrf(CANDIDATES, streams).score / 100
    assert chrf_words == corpus_chrf(CANDIDATES, streams, word_order=2).score / 100
    assert ter == -corpus_ter(CANDIDATES, streams).score / 100


def test_rows_may_have_different_numbers_of_references():
    some = [REFERENCES[0], REFERENCES[1][:1]]
    rows = LexicalMetrics("de").scores(CANDIDATES[:2], some)
    alone = LexicalMetrics("de").scores(CANDIDATES[1:2], some[1:])
    np.testing.assert_array_equal(rows[:, 1:], alone)
    # A corpus of equal rows has the scores of one of them.
    equal = LexicalMetrics("de").corpus_scores([CANDIDATES[1]] * 2, [some[1], some[1] * 2])
    np.testing.assert_allclose(equal[1:], alone[1:4, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("language", "candidate", "reference", "tokenizer"),
    [
        ("zh-Hans", "他们在湖边等船。", "他们在湖边等着渡船。", "zh"),
        ("ja", "彼らは湖で船を待っている。", "彼らは湖のほとりで渡し船を待つ。", "ja-mecab"),
        ("th", "พวกเขารอเรือ", "พวกเขากำลังรอเรือ", "char"),
        ("ru", "Они ждут лодку.", "Они ждут паром у озера.", "13a"),
    ],
)
def test_texts_of_other_scripts_are_taken_apart(language, candidate, reference, tokenizer):
    metrics = LexicalMetrics(language)
    bleu, _, chrf, ter, rouge = metrics.scores([candidate], [[reference]])[:, 0]
    assert bleu == sentence_bleu(candidate, [reference], tokenize=tokenizer).score / 100
    # rouge-score's own tokenizer finds no word in these.
    assert RougeScorer(["rougeL"]).score(reference, candidate)["rougeL"].fmeasure == 0
    assert 0.3 < rouge < 1
    assert 0 < chrf < 1
    assert -1 < ter < 0
    assert f"tok:{tokenizer}" in metrics.signatures["ROUGE-L"]


def test_systems_are_compared_with_people_by_their_corpus_scores(tmp_path):
    path, columns = write_judgements(tmp_path / "j.parquet"), {"system_column": "system"}
    options = TuneOptions(judgements=(str(path),), output="o", score_column="human", **columns)
    judgements, metrics = read_judgements(options, "o"), LexicalMetrics("en")
    found = corpus_agreement(judgements, np.arange(60), metrics)
    systems = [[row for row in judgement_rows() if row["system"] == name] for name in SYSTEMS]
    people = [np.mean([row["human"] for row in rows]) for rows in systems]
    scores = [
        metrics.corpus_scores(
            [row["candidate"] for row in rows], [[row["reference"]] for row in rows]
        )
        for rows in systems
    ]
    assert len(found["system_pearson"]) == len(metrics.corpus_names) == 4
    for number, line in enumerate(np.transpose(scores)):
        expected = scipy.stats.pearsonr(people, line).statistic
        assert found["system_pearson"][number] == pytest.approx(expected)
        order = [
            np.sign(np.subtract.outer(side, side))[np.triu_indices(3, 1)] for side in (people, line)
        ]
        assert found["system_accuracy"][number] == pytest.approx(np.equal(*order).mean())
    assert corpus_agreement(judgements, np.zeros(0, dtype=np.int64), metrics) == {}
    assert corpus_agreement(judgements, np.arange(60), LexicalMetrics("", ())) == {}
