"""Other metrics of judgements: each language its own words, and systems by their corpora."""

from functools import partial

import numpy as np
import pytest
import scipy.stats
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import corpus_bleu, corpus_chrf, corpus_ter, sentence_bleu

from bertscore_beam.dump.columns import METRICS
from bertscore_beam.tune.other_metrics import corpus_agreement, score_judgements
from tests.support.judgements import SYSTEMS, judgement_rows, read, write_judgements


def made(tmp_path, rows=None, **options):
    return read(write_judgements(tmp_path / "j.parquet", rows), min_rows=3, **options)


@pytest.mark.parametrize(
    ("language", "candidate", "reference", "tokenizer"),
    [
        ("zh-Hans", "他们在湖边等船。", "他们在湖边等着渡船。", "zh"),
        ("ja", "彼らは湖で船を待っている。", "彼らは湖のほとりで渡し船を待つ。", "ja-mecab"),
        ("th", "พวกเขารอเรือ", "พวกเขากำลังรอเรือ", "char"),
        ("ru", "Они ждут лодку.", "Они ждут паром у озера.", "13a"),
    ],
)
def test_texts_of_other_scripts_are_taken_apart_by_group(
    tmp_path, language, candidate, reference, tokenizer
):
    texts = {"candidate": candidate, "reference": reference, "language": "xx"}
    rows = [row | (texts if row["language"] == "de" else {}) for row in judgement_rows()]
    found = made(tmp_path, rows, by="language")
    assert found.names == ("en", "xx")
    bleu, rouge = (score_judgements(found, name, ["en", language]) for name in ("bleu", "rougel"))
    own = found.of_group(1)
    expected = sentence_bleu(candidate, [reference], tokenize=tokenizer).score / 100
    assert bleu.values[own].tolist() == [expected] * len(own)
    # rouge-score's own tokenizer finds no word in these.
    assert RougeScorer(["rougeL"]).score(reference, candidate)["rougeL"].fmeasure == 0
    assert 0.3 < rouge.values[own[0]] < 1


@pytest.mark.parametrize("name", ["ter", "rougel"])
def test_a_row_that_would_take_hours_has_no_score_and_one_of_another_script_agrees_nowhere(
    tmp_path, name
):
    long = " ".join(str(word) for word in range(30_000))
    foreign = {"candidate": "Они ждут лодку.", "reference": "Они ждут паром."}
    rows = [{"candidate": long, "reference": long}, foreign]
    rows = [row | (rows[place] if place < 2 else {}) for place, row in enumerate(judgement_rows())]
    found = score_judgements(made(tmp_path, rows), name, ["en"])
    assert np.flatnonzero(np.isnan(found.values)).tolist() == [0]
    assert not found.counts[0].any()
    assert found.values[1] == pytest.approx(0 if name == "rougel" else -1 / 3)


def test_systems_are_compared_with_people_by_their_corpus_scores(tmp_path):
    judgements = made(tmp_path, system_column="system")
    others = {name: score_judgements(judgements, name, ["de"]) for name in METRICS}
    found = corpus_agreement(judgements, np.arange(60), others)
    systems = [[row for row in judgement_rows() if row["system"] == name] for name in SYSTEMS]
    people = [np.mean([row["human"] for row in rows]) for rows in systems]
    by_metric = {"BLEU": corpus_bleu, "chrF": corpus_chrf}
    by_metric |= {"chrF++": partial(corpus_chrf, word_order=2), "TER": corpus_ter}
    assert list(found["system_pearson"]) == [f"{name}, corpus" for name in by_metric]
    for name, corpus in by_metric.items():
        scores = [
            corpus([row["candidate"] for row in rows], [[row["reference"] for row in rows]]).score
            for rows in systems
        ]
        scores = np.array(scores) * (-1 if name == "TER" else 1)
        expected = scipy.stats.pearsonr(people, scores).statistic
        assert found["system_pearson"][f"{name}, corpus"] == pytest.approx(expected)
        order = [
            np.sign(np.subtract.outer(side, side))[np.triu_indices(3, 1)]
            for side in (people, scores)
        ]
        accuracy = found["system_accuracy"][f"{name}, corpus"]
        assert accuracy == pytest.approx(np.equal(*order).mean())
    assert corpus_agreement(judgements, np.arange(60), {"rougel": others["rougel"]}) == {}
    assert corpus_agreement(made(tmp_path), np.arange(60), others) == {}
